import { describe, expect, test } from "vitest";
import type { HistoryItem } from "../api";
import { grouped, kindOf, type Mark, marksOf, summed } from "./marks";

function entry(kind: string, at: string, cause = ""): HistoryItem {
  return {
    id: 1,
    at,
    kind,
    cause,
    actor: "jobmanager",
    actor_name: null,
    attempt: 1,
    checkpoint: null,
    detail: {},
  };
}

const mark = (at: number, kind: Mark["kind"] = "restart"): Mark => ({ kind, at, label: "" });

describe("marks", () => {
  test("are what changed how the job runs, the oldest first", () => {
    const found = marksOf([
      entry("upgrade_completed", "2026-11-18T10:02:00Z", "revision 2"),
      entry("checkpoint_aborted", "2026-11-18T10:01:00Z"),
      entry("job_restarting", "2026-11-18T10:00:00Z"),
    ]);
    expect(found.map((one) => [one.kind, one.label])).toEqual([
      ["restart", "Restart"],
      ["deploy", "Upgraded: revision 2"],
    ]);
  });
  test("that are too close are one group, and those outside are left out", () => {
    const groups = grouped([mark(-1), mark(0), mark(5), mark(500, "leader"), mark(1001)], 0, 1000);
    expect(groups.map((one) => [one.place, one.marks.length])).toEqual([
      [0, 2],
      [0.5, 1],
    ]);
  });
  test("of a group show what matters most", () => {
    expect(kindOf({ place: 0, marks: [mark(0, "leader"), mark(1, "failure")] })).toBe("failure");
  });
  test("are summed up in words", () => {
    expect(summed([mark(0), mark(1), mark(2, "leader")])).toBe("2 restarts, 1 change of leader");
    expect(summed([])).toBe("nothing");
  });
});
