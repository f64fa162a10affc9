// Which jobs the first page shows, and in which order.

import type { JobSummary } from "../api";

export const LIVE = [
  "starting",
  "running",
  "degraded",
  "stalled",
  "restarting",
  "pausing",
  "paused",
  "cancelling",
];
export const STATES = [...LIVE, "failed", "finished", "cancelled"];
export const PAGE = 100;

export type SortKey =
  | "name"
  | "state"
  | "uptime"
  | "rate"
  | "lag"
  | "checkpoint"
  | "restarts"
  | "submitted";

export interface View {
  text: string;
  states: readonly string[];
  /** `name=text`, all of which a job must have. */
  labels: readonly string[];
  sort: SortKey;
  descending: boolean;
}

export function matching(jobs: readonly JobSummary[], view: View): JobSummary[] {
  const text = view.text.trim().toLowerCase();
  return jobs.filter(
    (job) =>
      (view.states.length === 0 || view.states.includes(job.state)) &&
      view.labels.every((one) => labelsOf(job).includes(one)) &&
      (!text || job.id.startsWith(text) || wordsOf(job).some((one) => one.includes(text))),
  );
}

export function labelsOf(job: Pick<JobSummary, "meta">): string[] {
  return Object.entries(job.meta.labels).map(([name, text]) => `${name}=${text}`);
}

/** What the search looks into. */
function wordsOf(job: JobSummary): string[] {
  return [job.name, job.meta.owner ?? "", ...labelsOf(job)].map((one) => one.toLowerCase());
}

/** The labels in an address, which anybody may have changed. */
export function labelsIn(text: string | undefined): string[] {
  try {
    const found: unknown = JSON.parse(text ?? "[]");
    return Array.isArray(found) ? found.filter((one) => typeof one === "string") : [];
  } catch {
    return [];
  }
}

export function toggled(chosen: readonly string[], one: string): string[] {
  return chosen.includes(one) ? chosen.filter((other) => other !== one) : [...chosen, one];
}

/** Jobs without a value come last in either order. Among equals, the newest comes first. */
export function sorted(
  jobs: readonly JobSummary[],
  view: View,
  rateOf: (job: JobSummary) => number | null,
): JobSummary[] {
  const figure = (job: JobSummary): number | string | null => {
    switch (view.sort) {
      case "name":
        return job.name.toLowerCase();
      case "state":
        return STATES.indexOf(job.state);
      case "uptime":
        return job.running_since ? -Date.parse(job.running_since) : null;
      case "rate":
        return rateOf(job);
      case "lag":
        return job.lag;
      case "checkpoint":
        return job.last_checkpoint ? Date.parse(job.last_checkpoint.completed_at) : null;
      case "restarts":
        return job.restarts;
      case "submitted":
        return Date.parse(job.submitted_at);
    }
  };
  const direction = view.descending ? -1 : 1;
  return jobs
    .map((job) => ({ job, figure: figure(job) }))
    .sort((a, b) => {
      if (a.figure === null || b.figure === null) {
        if (a.figure !== b.figure) return a.figure === null ? 1 : -1;
      } else if (a.figure !== b.figure) {
        return a.figure < b.figure ? -direction : direction;
      }
      return Date.parse(b.job.submitted_at) - Date.parse(a.job.submitted_at);
    })
    .map((one) => one.job);
}

export function isLive(state: string): boolean {
  return LIVE.includes(state);
}
