import { describe, expect, test } from "vitest";
import type { Lag } from "../api";
import { catchUp, crashCost } from "./outlook";

function lag(changes: Partial<Lag>): Lag {
  return {
    lag_ms: 60_000,
    lag_ms_per_second: -200,
    backlog_rows: null,
    backlog_rows_per_second: null,
    trend: "shrinking",
    caught_up_in_ms: 250_000,
    ...changes,
  };
}

describe("catching up", () => {
  test("says how fast, and when", () => {
    expect(catchUp(lag({}))).toBe("↓ 12 s a minute, caught up in about 4m 10s");
    expect(catchUp(lag({ backlog_rows: 50_000, backlog_rows_per_second: -200 }))).toBe(
      "50.0k rows left, ↓ 200 rows/s, caught up in about 4m 10s",
    );
  });
  test("says that it does not", () => {
    expect(catchUp(lag({ trend: "growing", lag_ms_per_second: 500, caught_up_in_ms: null }))).toBe(
      "↑ 30 s a minute",
    );
    expect(catchUp(lag({ trend: "steady", caught_up_in_ms: null }))).toBe("does not change");
  });
  test("says nothing where there is nothing to say", () => {
    expect(catchUp(lag({ trend: "steady", caught_up_in_ms: 0 }))).toBeNull();
    expect(catchUp(lag({ trend: "unknown", caught_up_in_ms: null }))).toBeNull();
  });
});

describe("the cost of a crash", () => {
  test("is rows and time, with the time to start", () => {
    const cost = { rows: 1200, replay_ms: 1200, start_ms: 2000, is_at_least: false };
    expect(crashCost(cost)).toMatch(/^1.200 rows again, about 3\.2 s$/);
    expect(crashCost({ ...cost, rows: 1, start_ms: null, is_at_least: true })).toBe(
      "at least 1 row again, about 1.2 s",
    );
  });
});
