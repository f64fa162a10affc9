// The figures of each task of a running job, from what Spark reports about its regions.

import type { PartitionLag, Plan, PlanNode, RegionProgress, SubtaskProgress } from "../api";
import type { Meters } from "./rates";

export interface TaskFigures {
  /** Rows a second; null: Spark does not report it. */
  inRate: number | null;
  outRate: number | null;
  /** Share of the time in which Spark's tasks run, of the busiest subtask; where that is not
   * measured, in which batches run, of the busiest region. */
  busy: number | null;
  /** What Spark measured of each subtask, or of the task as a whole; empty: nothing. */
  measured: readonly SubtaskProgress[];
  backlogRows: number | null;
  inputWaits: boolean | null;
  watermark: string | null;
  stateBytes: number | null;
  updatedRows: number | null;
  droppedRows: number | null;
  /** Records that the sources could not decode; null: the task has no source. */
  unreadableRows: number | null;
  /** Of each partition of the sources, such as a topic's; the largest lag first. */
  lags: readonly PartitionLag[];
  isActive: boolean;
}

export function figuresOf(
  node: PlanNode,
  plan: Plan,
  progress: readonly RegionProgress[],
  meters: Meters,
): TaskFigures {
  const vertices = new Set(node["headgate-vertices"]);
  const mine = progress.filter((one) =>
    (plan["headgate-regions"] ?? []).some(
      (region) => region.id === one.region && region.vertices.some((id) => vertices.has(id)),
    ),
  );
  const sources = mine
    .flatMap((one) => one.sources ?? [])
    .filter((one) => vertices.has(one.vertex));
  const operators = mine
    .flatMap((one) => one.operators ?? [])
    .filter((one) => vertices.has(one.vertex));
  const sinks = mine.filter((one) => vertices.has(one.region));
  // a source in several regions is read by each of them: the same rows
  const perVertex = new Map<string, number>();
  for (const one of sources) {
    perVertex.set(one.vertex, Math.max(perVertex.get(one.vertex) ?? 0, one.input_rows_per_second));
  }
  const backlogs = sources.map((one) => one.backlog_rows).filter((one) => one != null);
  const waits = mine.map((one) => one.input_waiting).filter((one) => one != null);
  const measured = measuredOf(node, mine);
  return {
    inRate: sources.length
      ? sum([...perVertex.values()])
      : total(measured.map((one) => one.records_in_per_second)),
    outRate: sinks.length
      ? sum(sinks.map((one) => meters.rate(`out:${one.region}`) ?? 0))
      : total(measured.map((one) => one.records_out_per_second)),
    busy: measured.length
      ? largest(measured.map((one) => busyShare(one, node.parallelism)))
      : largest(mine.map((one) => busyOf(one, meters))),
    measured,
    backlogRows: backlogs.length ? sum(backlogs) : null,
    inputWaits: sources.length && waits.length ? waits.some(Boolean) : null,
    watermark: earliest(mine.map((one) => one.watermark)),
    stateBytes: operators.length ? sum(operators.map((one) => one.state_bytes)) : null,
    updatedRows: operators.length ? sum(operators.map((one) => one.updated_rows)) : null,
    droppedRows: operators.length ? sum(operators.map((one) => one.dropped_rows)) : null,
    unreadableRows: sources.length ? sum(sources.map((one) => one.unreadable_rows ?? 0)) : null,
    lags: sources.flatMap((one) => one.lags ?? []).sort((one, other) => other.rows - one.rows),
    isActive: mine.some((one) => one.is_active),
  };
}

/** What Spark measured of a task, in the first of its regions that has it. */
function measuredOf(node: PlanNode, mine: readonly RegionProgress[]): SubtaskProgress[] {
  for (const region of mine) {
    const found = (region.subtasks ?? []).filter(
      (one) => one.vertex === node["headgate-vertices"][0],
    );
    if (found.length) return found.sort((a, b) => (a.subtask ?? 0) - (b.subtask ?? 0));
  }
  return [];
}

/** Share of the time in which the tasks of a subtask run; of a task as a whole, on average. */
export function busyShare(one: SubtaskProgress, parallelism: number): number {
  const subtasks = one.subtask === null ? parallelism : 1;
  return Math.min(1, one.busy_ms_per_second / 1000 / subtasks);
}

/** Share of the time in which a batch waits for its sink. */
export function waitingShare(one: SubtaskProgress, parallelism: number): number {
  const subtasks = one.subtask === null ? parallelism : 1;
  return Math.min(1, one.backpressured_ms_per_second / 1000 / subtasks);
}

/** Share of the time in which a region's batches run; null: unknown. */
export function busyOf(one: RegionProgress, meters: Meters): number | null {
  const rate = meters.rate(`busy:${one.region}`);
  return rate === null ? null : Math.min(1, rate / 1000);
}

/** Takes a reading of every count. */
export function look(progress: readonly RegionProgress[], at: number, meters: Meters): void {
  for (const one of progress) {
    meters.see(`in:${one.region}`, at, one.input_rows);
    meters.see(`out:${one.region}`, at, one.output_rows);
    meters.see(`busy:${one.region}`, at, one.busy_ms ?? 0);
  }
}

function sum(values: readonly number[]): number {
  return values.reduce((total, one) => total + one, 0);
}

/** The sum, if all parts are known and there are any. */
function total(values: readonly (number | null)[]): number | null {
  const known = values.filter((one): one is number => one !== null);
  return known.length && known.length === values.length ? sum(known) : null;
}

function largest(values: readonly (number | null)[]): number | null {
  const known = values.filter((one): one is number => one !== null);
  return known.length ? Math.max(...known) : null;
}

function earliest(values: readonly (string | null | undefined)[]): string | null {
  const known = values.filter((one): one is string => Boolean(one));
  return known.length ? known.reduce((a, b) => (Date.parse(a) <= Date.parse(b) ? a : b)) : null;
}
