import { describe, expect, test } from "vitest";
import type { ExceptionEntry, GraphDocument, Plan, RegionProgress } from "../api";
import { connectorsOf } from "./connectors";
import { Meters } from "./rates";

const GRAPH: GraphDocument = {
  name: "revenue",
  vertices: [
    { id: "bids", op: "source", connector: "kafka" },
    { id: "big", op: "filter" },
    { id: "out", op: "sink", connector: "files" },
  ],
};
const PLAN = {
  nodes: [{ "headgate-vertices": ["bids", "big"] }, { "headgate-vertices": ["revenue", "out"] }],
  "headgate-regions": [{ id: "out", vertices: [], sinks: ["out"] }],
} as unknown as Plan;

function region(changes: Partial<RegionProgress>): RegionProgress {
  return { region: "out", batch: 1, is_active: true, output_rows: 7, ...changes } as RegionProgress;
}

function failure(message: string): ExceptionEntry {
  return { "headgate-message": message } as ExceptionEntry;
}

describe("connectors", () => {
  test("have a line each, with what is known of them", () => {
    const progress = region({
      sources: [
        {
          vertex: "bids",
          input_rows_per_second: 5,
          processed_rows_per_second: 5,
          backlog_rows: 40,
          unreadable_rows: 2,
          lags: [],
        },
      ],
      subtasks: [
        { vertex: "bids", subtask: 0, records_in: 10, bytes_in: 100 },
        { vertex: "bids", subtask: 1, records_in: 20, bytes_in: 50 },
        { vertex: "revenue", subtask: 0, bytes_out: 9 },
      ] as unknown as RegionProgress["subtasks"],
    });
    const [bids, out] = connectorsOf(GRAPH, PLAN, [progress], new Meters(), []);
    expect(bids).toMatchObject({
      vertex: "bids",
      connector: "kafka",
      rate: 5,
      rows: 30,
      bytes: 150,
      backlogRows: 40,
      badRows: 2,
      errors: 0,
    });
    expect(out).toMatchObject({ vertex: "out", op: "sink", rows: 7, bytes: 9, badRows: null });
  });
  test("that report nothing show nothing", () => {
    const [bids, out] = connectorsOf(GRAPH, PLAN, [], new Meters(), []);
    expect(bids).toMatchObject({ rate: null, rows: null, bytes: null, badRows: null });
    expect(out).toMatchObject({ rate: null, rows: null, bytes: null });
  });
  test("have the errors that name them", () => {
    const failures = [
      failure("source bids: no broker answers"),
      failure("vertex outer: ran out of memory"),
    ];
    const [bids, out] = connectorsOf(GRAPH, PLAN, [], new Meters(), failures);
    expect([bids!.errors, bids!.lastError]).toEqual([1, "source bids: no broker answers"]);
    expect(out!.errors).toBe(0);
  });
});
