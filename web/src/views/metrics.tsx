// Charts from stored samples, which are kept after the page, the runner and the job have ended.

import { useMemo, useState } from "preact/hooks";
import { type Samples, serverNow } from "../api";
import { setQuery, useInterval, useResource } from "../hooks";
import { bytes, compact, duration, percent } from "../logic/format";
import type { Mark } from "../logic/marks";
import { axis, type Column, column, PHASES, RANGES, rangeMs, stacked } from "../logic/series";
import { Empty, Loading, Problem, Section } from "../parts/basics";
import { Chart, type Line } from "../parts/chart";
import { HistoryBar, useMarks } from "../parts/marks";
import type { JobProps } from "./job";

const HUES = ["--hue-0", "--hue-1", "--hue-2", "--hue-3", "--hue-4", "--hue-5"];

export function Metrics({ id, route, status }: JobProps) {
  const range = route.query.range ?? "15m";
  const [until, setUntil] = useState(() => Math.floor(serverNow() / 10_000) * 10_000);
  useInterval(() => setUntil(Math.floor(serverNow() / 10_000) * 10_000), 5_000);
  const since = until - rangeMs(range);
  const found = useResource<Samples>(`/jobs/${id}/samples`, {
    query: {
      since: new Date(since).toISOString(),
      until: new Date(until).toISOString(),
      points: 300,
    },
  });
  const [kept, setKept] = useState<Samples | null>(null);
  // the charts stay while the next time range is fetched
  if (found.data && found.data !== kept) setKept(found.data);
  const samples = found.data ?? kept;
  const marks = useMarks(id, since);
  return (
    <>
      <HistoryBar job={id} />
      <div class="page-head">
        <div class="filters" role="group" aria-label="Time range">
          {RANGES.map(([name, label]) => (
            <button
              key={name}
              type="button"
              class="chip"
              aria-pressed={range === name}
              onClick={() => setQuery(route, { range: name === "15m" ? undefined : name })}
            >
              {label}
            </button>
          ))}
        </div>
        {samples && (
          <span class="hint">
            one point every {duration(samples.step_ms)}; samples are kept for 30 days
          </span>
        )}
      </div>
      {found.error && !samples ? (
        <Problem error={found.error} retry={found.reload} />
      ) : !samples ? (
        <Loading what="samples" />
      ) : samples.regions.length === 0 ? (
        <Empty title="There are no samples in this time range">
          <p>
            {status.state === "running"
              ? "The first sample is taken within twenty seconds."
              : "The job did not run in this time: choose a longer range."}
          </p>
        </Empty>
      ) : (
        <Charts samples={samples} range={[since / 1000, until / 1000]} marks={marks} />
      )}
    </>
  );
}

function Charts({
  samples,
  range,
  marks,
}: {
  samples: Samples;
  range: [number, number];
  marks: Mark[] | null;
}) {
  const times = useMemo(() => axis(samples), [samples]);
  const lines = useMemo(() => linesOf(samples, times), [samples, times]);
  const shared = { times, range, sync: "metrics", height: 190, marks };
  return (
    <div class="charts">
      <Section title="Throughput" aside="rows a second">
        <Chart {...shared} label="Throughput" lines={lines.throughput} format={compact} />
      </Section>
      <Section title="Batch duration" aside="average of a batch, by phase">
        <Chart {...shared} label="Batch duration by phase" lines={lines.phases} format={duration} />
      </Section>
      <Section title="State" aside="in the memory of state stores">
        <Chart {...shared} label="State size" lines={lines.state} format={bytes} binary="left" />
      </Section>
      <Section title="Watermark lag" aside="behind the last batch">
        <Chart {...shared} label="Watermark lag" lines={lines.lag} format={duration} />
      </Section>
      {lines.backlog.length > 0 && (
        <Section title="Backlog" aside="rows that sources have not read">
          <Chart {...shared} label="Backlog" lines={lines.backlog} format={compact} />
        </Section>
      )}
      <Section title="Busy" aside="share of the time in which batches run">
        <Chart {...shared} label="Busy" lines={lines.busy} format={percent} />
      </Section>
    </div>
  );
}

function linesOf(
  samples: Samples,
  times: number[],
): Record<"throughput" | "phases" | "state" | "lag" | "backlog" | "busy", Line[]> {
  const { regions } = samples;
  const each = (pick: (one: Samples["regions"][number]) => (number | null)[], what = ""): Line[] =>
    regions.map((one, index) => ({
      label: regions.length > 1 ? `${what}${one.region}` : what.trim() || one.region,
      colour: HUES[index % HUES.length]!,
      values: column(times, one, pick(one)),
    }));
  const slowest = regions.reduce((a, b) => (mean(a.batch_ms) >= mean(b.batch_ms) ? a : b));
  const parts = PHASES.map(([name]) => column(times, slowest, slowest.phases_ms[name] ?? []));
  const sums = stacked(parts);
  return {
    throughput: [
      ...each((one) => one.input_rows_per_second, "in "),
      ...each((one) => one.output_rows_per_second, "out ").map((line, index) => ({
        ...line,
        colour: HUES[(index + 2) % HUES.length]!,
      })),
    ],
    // the sum of all phases first, so that each phase is drawn over those above it
    phases: PHASES.map(([, label], index) => ({
      label,
      colour: HUES[index % HUES.length]!,
      fill: true,
      values: sums[index] as Column,
    })).reverse(),
    state: each((one) => one.state_bytes, "state "),
    lag: each((one) => one.lag_ms, "lag "),
    backlog: each((one) => one.backlog_rows, "backlog ").filter((line) =>
      line.values.some((value) => value !== null),
    ),
    busy: each((one) => one.busy, "busy "),
  };
}

function mean(values: (number | null)[]): number {
  const known = values.filter((one) => one !== null);
  return known.length ? known.reduce((a, b) => a + b, 0) / known.length : 0;
}
