// What comes next, in words: whether a job catches up, and what a crash would cost.

import type { CrashCost, Lag } from "../api";
import { compact, duration, plural } from "./format";

const MINUTE = 60;

/** "↓ 12 s a minute, caught up in about 4m 10s"; null: nothing is known, or all is well. */
export function catchUp(lag: Lag): string | null {
  if (lag.caught_up_in_ms === 0 || lag.trend === "unknown") return null;
  const behind = lag.backlog_rows ? `${compact(lag.backlog_rows)} rows left` : null;
  if (lag.trend === "steady") return [behind, "does not change"].filter(Boolean).join(", ");
  const arrow = lag.trend === "growing" ? "↑" : "↓";
  const end =
    lag.caught_up_in_ms === null ? null : `caught up in about ${duration(lag.caught_up_in_ms)}`;
  return [behind, `${arrow} ${speed(lag)}`, end].filter(Boolean).join(", ");
}

function speed(lag: Lag): string {
  if (lag.backlog_rows !== null && lag.backlog_rows_per_second !== null) {
    return `${compact(Math.abs(lag.backlog_rows_per_second))} rows/s`;
  }
  return `${duration(Math.abs(lag.lag_ms_per_second ?? 0) * MINUTE)} a minute`;
}

/** "at least 1 200 rows again, about 3.2 s". */
export function crashCost(cost: CrashCost): string {
  const rows = `${plural(cost.rows, "row")} again`;
  const time = cost.replay_ms + (cost.start_ms ?? 0);
  return `${cost.is_at_least ? "at least " : ""}${rows}, about ${duration(time)}`;
}
