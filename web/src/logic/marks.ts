// What changed how a job runs, marked on a bar and on every chart: restarts, pauses, rescales,
// deploys and changes of the leader.

import type { HistoryItem } from "../api";
import { plural } from "./format";

export type MarkKind = "restart" | "failure" | "pause" | "rescale" | "deploy" | "leader";

export interface Mark {
  kind: MarkKind;
  /** Milliseconds since 1970. */
  at: number;
  label: string;
}

/** Marks that are too close to be told apart. */
export interface MarkGroup {
  /** Share of the bar, 0 to 1. */
  place: number;
  marks: Mark[];
}

const KINDS: Record<string, [MarkKind, string]> = {
  job_restarting: ["restart", "Restart"],
  job_failed: ["failure", "Failed"],
  job_paused: ["pause", "Paused"],
  rescale_completed: ["rescale", "Rescaled"],
  rescale_rolled_back: ["rescale", "Rescale rolled back"],
  job_submitted: ["deploy", "Submitted"],
  upgrade_completed: ["deploy", "Upgraded"],
  upgrade_rolled_back: ["deploy", "Upgrade rolled back"],
  leader_changed: ["leader", "Another leader"],
};

export const MARKED = Object.keys(KINDS);
export const BAR_MS = 72 * 60 * 60_000;

export const MARK_NAMES: Record<MarkKind, [one: string, many: string]> = {
  restart: ["restart", "restarts"],
  failure: ["failure", "failures"],
  pause: ["pause", "pauses"],
  rescale: ["rescale", "rescales"],
  deploy: ["deploy", "deploys"],
  leader: ["change of leader", "changes of leader"],
};

/** The letter of a mark: colours alone do not tell everybody. */
export const LETTERS: Record<MarkKind, string> = {
  restart: "R",
  failure: "F",
  pause: "P",
  rescale: "S",
  deploy: "D",
  leader: "L",
};

/** The marks in history entries, the oldest first. */
export function marksOf(items: readonly HistoryItem[]): Mark[] {
  return items
    .flatMap((one) => {
      const [kind, label] = KINDS[one.kind] ?? [];
      if (!kind) return [];
      return [
        { kind, at: Date.parse(one.at), label: one.cause ? `${label}: ${one.cause}` : label! },
      ];
    })
    .sort((a, b) => a.at - b.at);
}

/** Marks from `from` to `to` as places on a bar; those closer than `least` of it are one group. */
export function grouped(
  marks: readonly Mark[],
  from: number,
  to: number,
  least = 0.012,
): MarkGroup[] {
  const groups: MarkGroup[] = [];
  for (const one of marks) {
    if (one.at < from || one.at > to) continue;
    const place = (one.at - from) / (to - from);
    const last = groups.at(-1);
    if (last && place - last.place < least) last.marks.push(one);
    else groups.push({ place, marks: [one] });
  }
  return groups;
}

/** The kind that a group is shown as: the one that matters most. */
export function kindOf(group: MarkGroup): MarkKind {
  const order: MarkKind[] = ["failure", "restart", "pause", "rescale", "deploy", "leader"];
  return order.find((kind) => group.marks.some((one) => one.kind === kind))!;
}

/** "3 restarts, 1 deploy"; "nothing" if there are none. */
export function summed(marks: readonly Mark[]): string {
  const said = (Object.keys(MARK_NAMES) as MarkKind[]).flatMap((kind) => {
    const count = marks.filter((one) => one.kind === kind).length;
    return count ? [plural(count, ...MARK_NAMES[kind])] : [];
  });
  return said.join(", ") || "nothing";
}
