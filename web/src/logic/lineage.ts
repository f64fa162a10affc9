// Savepoints as a tree, by the savepoint that their job was started from.

import type { JobSummary, Savepoint } from "../api";

export interface Branch {
  savepoint: Savepoint;
  depth: number;
  /** Jobs that were started from it. */
  forks: JobSummary[];
}

/** Every savepoint once, each below its parent, the newest first. */
export function tree(savepoints: readonly Savepoint[], jobs: readonly JobSummary[]): Branch[] {
  const byId = new Map(savepoints.map((one) => [one.id, one]));
  const children = new Map<string | null, Savepoint[]>();
  for (const one of savepoints) {
    const parent = parentOf(one, savepoints);
    const key = parent && byId.has(parent) && !descends(parent, one.id, savepoints) ? parent : null;
    children.set(key, [...(children.get(key) ?? []), one]);
  }
  const found: Branch[] = [];
  const visit = (key: string | null, depth: number): void => {
    const here = [...(children.get(key) ?? [])].sort(
      (a, b) => Date.parse(b.created_at) - Date.parse(a.created_at),
    );
    for (const savepoint of here) {
      found.push({ savepoint, depth, forks: jobs.filter((job) => isFrom(job, savepoint)) });
      visit(savepoint.id, depth + 1);
    }
  };
  visit(null, 0);
  return found;
}

/** The id in "savepoint 3f2a…", or of the savepoint at that path; null: it is not known. */
export function parentOf(one: Savepoint, all: readonly Savepoint[]): string | null {
  return one.parent ? named(one.parent, all) : null;
}

function isFrom(job: JobSummary, savepoint: Savepoint): boolean {
  return job.restored_from !== null && named(job.restored_from, [savepoint]) === savepoint.id;
}

function named(text: string, all: readonly Savepoint[]): string | null {
  const where = text.replace(/^savepoint /, "");
  if (/^[0-9a-f]{32}$/.test(where)) return where;
  return all.find((one) => one.path === where || one.path === `file://${where}`)?.id ?? null;
}

/** Whether `one` descends from `ancestor`, over any number of steps. */
function descends(one: string, ancestor: string, all: readonly Savepoint[]): boolean {
  const seen = new Set<string>();
  let at: string | null = one;
  while (at !== null && !seen.has(at)) {
    if (at === ancestor) return true;
    seen.add(at);
    const savepoint = all.find((other) => other.id === at);
    at = savepoint ? parentOf(savepoint, all) : null;
  }
  return false;
}
