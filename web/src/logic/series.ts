// Samples as columns for a chart: one time axis for all regions, gaps where nothing was sampled.

import type { SampleSeries, Samples } from "../api";

export type Column = (number | null)[];

export const PHASES: [name: string, label: string][] = [
  ["add_batch_ms", "run the batch"],
  ["commit_offsets_ms", "commit"],
  ["wal_commit_ms", "write offsets"],
  ["planning_ms", "plan"],
  ["get_batch_ms", "get the batch"],
  ["latest_offset_ms", "ask sources"],
];

/** The time axis in seconds: every bin from the first to the last sample, also missing bins. */
export function axis(samples: Samples): number[] {
  const starts = samples.regions.flatMap((one) => one.at.map((at) => Date.parse(at)));
  if (!starts.length) return [];
  const found: number[] = [];
  const last = Math.max(...starts);
  for (let at = Math.min(...starts); at <= last; at += samples.step_ms) found.push(at / 1000);
  return found;
}

/** The values of a region at each time of the axis. */
export function column(
  times: readonly number[],
  series: SampleSeries,
  values: readonly (number | null)[],
): Column {
  const at = new Map(
    series.at.map((one, index) => [Date.parse(one) / 1000, values[index] ?? null]),
  );
  return times.map((time) => at.get(time) ?? null);
}

export function total(columns: readonly Column[]): Column {
  const [first] = columns;
  if (!first) return [];
  return first.map((_, index) => {
    const known = columns.map((one) => one[index]).filter((one) => one != null);
    return known.length ? known.reduce((sum, one) => sum + one, 0) : null;
  });
}

/** Stacks the series, so that the last is the sum of all. */
export function stacked(columns: readonly Column[]): Column[] {
  const sum: Column = [];
  return columns.map((one) =>
    one.map((value, index) => {
      if (value === null) return null;
      const top = (sum[index] ?? 0) + value;
      sum[index] = top;
      return top;
    }),
  );
}

export const RANGES: [name: string, label: string, ms: number][] = [
  ["15m", "15 min", 15 * 60_000],
  ["1h", "1 h", 60 * 60_000],
  ["6h", "6 h", 6 * 60 * 60_000],
  ["24h", "24 h", 24 * 60 * 60_000],
  ["7d", "7 d", 7 * 24 * 60 * 60_000],
  ["30d", "30 d", 30 * 24 * 60 * 60_000],
];

export function rangeMs(name: string | undefined): number {
  return RANGES.find(([one]) => one === name)?.[2] ?? RANGES[0]![2];
}
