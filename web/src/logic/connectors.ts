// How each source and sink of a running job does, from what its runner reports.

import type { ExceptionEntry, GraphDocument, Plan, RegionProgress } from "../api";
import type { Meters } from "./rates";

export interface ConnectorHealth {
  vertex: string;
  op: "source" | "sink";
  connector: string;
  /** Rows a second; null: not reported, and so below. */
  rate: number | null;
  rows: number | null;
  bytes: number | null;
  backlogRows: number | null;
  badRows: number | null;
  /** Failed attempts whose message names the vertex. */
  errors: number;
  lastError: string | null;
}

export function connectorsOf(
  graph: GraphDocument,
  plan: Plan,
  progress: readonly RegionProgress[],
  meters: Meters,
  failures: readonly ExceptionEntry[],
): ConnectorHealth[] {
  return graph.vertices
    .filter((one) => one.op === "source" || one.op === "sink")
    .map((vertex) => {
      const named = failures.filter((one) => names(one["headgate-message"], vertex.id));
      const figures =
        vertex.op === "source"
          ? sourceFigures(vertex.id, plan, progress)
          : sinkFigures(vertex.id, plan, progress, meters);
      return {
        vertex: vertex.id,
        op: vertex.op as "source" | "sink",
        connector: String(vertex.connector ?? ""),
        ...figures,
        errors: named.length,
        lastError: named[0]?.["headgate-message"] ?? null,
      };
    });
}

type Figures = Pick<ConnectorHealth, "rate" | "rows" | "bytes" | "backlogRows" | "badRows">;

function sourceFigures(id: string, plan: Plan, progress: readonly RegionProgress[]): Figures {
  const mine = progress.flatMap((one) => one.sources ?? []).filter((one) => one.vertex === id);
  const subtasks = subtasksOf(id, plan, progress);
  const backlogs = mine.map((one) => one.backlog_rows).filter((one) => one != null);
  return {
    // a source in several regions is read by each of them: the same rows
    rate: mine.length ? Math.max(...mine.map((one) => one.input_rows_per_second ?? 0)) : null,
    rows: sumOfKnown(subtasks.map((one) => one.records_in)),
    bytes: sumOfKnown(subtasks.map((one) => one.bytes_in)),
    backlogRows: backlogs.length ? Math.max(...backlogs) : null,
    badRows: mine.length ? Math.max(...mine.map((one) => one.unreadable_rows ?? 0)) : null,
  };
}

function sinkFigures(
  id: string,
  plan: Plan,
  progress: readonly RegionProgress[],
  meters: Meters,
): Figures {
  // a region is called after its first sink: rows of further sinks are not counted apart
  const region = progress.find((one) => one.region === id);
  const isAlone = sinksOf(id, plan) === 1;
  const subtasks = subtasksOf(id, plan, progress);
  return {
    rate: region && isAlone ? meters.rate(`out:${id}`) : null,
    rows: region && isAlone ? region.output_rows : null,
    bytes: sumOfKnown(subtasks.map((one) => one.bytes_out)),
    backlogRows: null,
    badRows: null,
  };
}

/** What Spark measured of the subtasks of the task that a vertex is in. */
function subtasksOf(
  id: string,
  plan: Plan,
  progress: readonly RegionProgress[],
): NonNullable<RegionProgress["subtasks"]> {
  const node = plan.nodes.find((one) => one["headgate-vertices"].includes(id));
  const head = node?.["headgate-vertices"][0];
  return progress.flatMap((one) => one.subtasks ?? []).filter((one) => one.vertex === head);
}

function sinksOf(id: string, plan: Plan): number {
  const region = plan["headgate-regions"]?.find((one) => one.id === id);
  return region ? region.sinks.length : 0;
}

/** Whether a message names a vertex: an id such as `out` is also a word of English. */
function names(message: string, vertex: string): boolean {
  return new RegExp(`\\b(vertex|source|sink) '?${vertex}\\b`).test(message);
}

/** Null: nothing is known. */
function sumOfKnown(values: readonly (number | null)[]): number | null {
  const known = values.filter((one) => one !== null);
  return known.length ? known.reduce((total, one) => total + one, 0) : null;
}
