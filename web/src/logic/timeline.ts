// The history of a job as one timeline: by attempt, with important entries marked.

import type { HistoryItem } from "../api";

export type Weight = "failure" | "change" | "good" | "plain";

export interface Entry extends HistoryItem {
  weight: Weight;
}

export interface AttemptStory {
  attempt: number | null;
  /** The newest first. */
  entries: Entry[];
}

const FAILURES = /(failed|aborted|stalled|degraded|rolled_back)$/;
const CHANGES = /(restarting|rescale|upgrade|leader_changed|stop_|cancel)/;
const GOOD = /(running|completed|healthy|finished)$/;

export function weightOf(kind: string): Weight {
  if (FAILURES.test(kind)) return "failure";
  if (GOOD.test(kind)) return "good";
  return CHANGES.test(kind) ? "change" : "plain";
}

/** Groups entries (the newest first) by attempt; entries without one go with the next attempt. */
export function stories(items: readonly HistoryItem[]): AttemptStory[] {
  const found: AttemptStory[] = [];
  for (const item of items) {
    const entry = { ...item, weight: weightOf(item.kind) };
    const last = found.at(-1);
    if (last && (item.attempt === null || item.attempt === last.attempt)) last.entries.push(entry);
    else if (last && last.attempt === null) {
      last.attempt = item.attempt;
      last.entries.push(entry);
    } else found.push({ attempt: item.attempt, entries: [entry] });
  }
  return found;
}

/** The newest entry that says why the job is not well; null: there is none. */
export function rootCause(items: readonly HistoryItem[]): HistoryItem | null {
  return items.find((one) => one.kind === "attempt_failed" || one.kind === "job_failed") ?? null;
}
