// Checkpoints: duration and size over time, each checkpoint with every ack, live while under way.

import { useMemo, useState } from "preact/hooks";
import {
  ApiError,
  ask,
  type Checkpoint,
  type CheckpointsAnswer,
  type CheckpointsConfig,
  type FlinkCheckpoint,
  type Verification,
} from "../api";
import { about, setQuery, useBar, useNow, useResource } from "../hooks";
import { type AckPart, ackParts } from "../logic/ackParts";
import { command } from "../logic/commands";
import { bytes, duration, grouped, NONE, plural, shortId, spanMs } from "../logic/format";
import {
  Clock,
  Command,
  Empty,
  Fact,
  Lasting,
  Loading,
  Problem,
  Section,
  State,
  Table,
  When,
} from "../parts/basics";
import { Chart } from "../parts/chart";
import { useMarks } from "../parts/marks";
import type { JobProps } from "./job";

export function Checkpoints({ id, route, status }: JobProps) {
  const found = useResource<CheckpointsAnswer>(`/jobs/${id}/checkpoints`, { on: about(id) });
  const config = useResource<CheckpointsConfig>(`/jobs/${id}/checkpoints/config`);
  const chosen = route.query.n ? Number(route.query.n) : (found.data?.history[0]?.id ?? null);
  if (found.error && !found.data) return <Problem error={found.error} retry={found.reload} />;
  if (!found.data) return <Loading what="checkpoints" />;
  const { counts, history } = found.data;
  if (history.length === 0) {
    return (
      <Empty
        title={status.state === "running" ? "No checkpoint yet" : "The job took no checkpoint"}
      >
        <p>
          Checkpoints are taken every {duration(config.data?.interval)} while the job runs, or now:
        </p>
        <Command text={command("checkpoint", shortId(id), "--wait")} />
      </Empty>
    );
  }
  return (
    <>
      <dl class="facts boxed">
        <Fact name="Completed">{grouped(counts.completed)}</Fact>
        <Fact name="In progress">{grouped(counts.in_progress)}</Fact>
        <Fact name="Failed">
          <span class={counts.failed ? "warn" : ""}>{grouped(counts.failed)}</span>
        </Fact>
        <Fact name="Restored from">{grouped(counts.restored)}</Fact>
        <Fact name="Interval">{duration(config.data?.interval)}</Fact>
        <Fact name="Timeout">{duration(config.data?.timeout)}</Fact>
        <Fact name="Tolerated failures">{config.data?.tolerable_failed_checkpoints ?? NONE}</Fact>
      </dl>
      <Timeline job={id} history={history} />
      <div class="split">
        <HistoryTable
          history={history}
          chosen={chosen}
          choose={(n) => setQuery(route, { n: String(n) })}
        />
        {chosen !== null && <Detail id={id} number={chosen} />}
      </div>
    </>
  );
}

function Timeline({ job, history }: { job: string; history: FlinkCheckpoint[] }) {
  const marks = useMarks(job, history.at(-1)?.trigger_timestamp ?? 0);
  const [times, lines] = useMemo(() => {
    const shown = [...history].filter((one) => one.status !== "IN_PROGRESS").reverse();
    const value = (pick: (one: FlinkCheckpoint) => number | null): (number | null)[] =>
      shown.map(pick);
    const failed = (one: FlinkCheckpoint): number =>
      Math.max(0, (one.failure_timestamp ?? 0) - one.trigger_timestamp);
    return [
      shown.map((one) => one.trigger_timestamp / 1000),
      [
        {
          label: "Duration",
          colour: "--accent",
          bars: true,
          values: value((one) =>
            one.status === "COMPLETED" && !one.is_savepoint ? one.end_to_end_duration : null,
          ),
        },
        {
          label: "Savepoint",
          colour: "--savepoint",
          bars: true,
          values: value((one) =>
            one.status === "COMPLETED" && one.is_savepoint ? one.end_to_end_duration : null,
          ),
        },
        {
          label: "Failed after",
          colour: "--failed",
          bars: true,
          values: value((one) => (one.status === "FAILED" ? failed(one) : null)),
        },
        {
          label: "State",
          colour: "--size",
          isRight: true,
          points: shown.length < 40,
          values: value((one) => (one.status === "COMPLETED" ? one.state_size : null)),
        },
      ],
    ] as const;
  }, [history]);
  return (
    <Section title="Duration and size" aside={`the last ${times.length}`}>
      <Chart
        label="Duration and size of checkpoints"
        times={[...times]}
        lines={[...lines]}
        format={duration}
        formatRight={bytes}
        binary="right"
        height={170}
        marks={marks}
      />
    </Section>
  );
}

function HistoryTable({
  history,
  chosen,
  choose,
}: {
  history: FlinkCheckpoint[];
  chosen: number | null;
  choose: (n: number) => void;
}) {
  return (
    <Section title="History" aside={`the last ${history.length}`}>
      <Table label="Checkpoints" class="checkpoints">
        <thead>
          <tr>
            <th scope="col" class="num">
              #
            </th>
            <th scope="col">Status</th>
            <th scope="col" class="num">
              Acks
            </th>
            <th scope="col" class="num">
              Triggered
            </th>
            <th scope="col" class="num">
              Took
            </th>
            <th scope="col" class="num">
              Size
            </th>
            <th scope="col" class="num">
              New
            </th>
          </tr>
        </thead>
        <tbody>
          {history.map((one) => (
            <tr key={one.id} class={one.id === chosen ? "chosen" : ""}>
              <th scope="row" class="num">
                <button
                  type="button"
                  class="linky"
                  aria-pressed={one.id === chosen}
                  onClick={() => choose(one.id)}
                >
                  {one.id}
                </button>
              </th>
              <td>
                <State state={one.status === "FAILED" ? "failed" : one.status.toLowerCase()} />
                {one.is_savepoint && <span class="tag">savepoint</span>}
                {one.discarded && <span class="muted"> discarded</span>}
                {one.failure_message && (
                  <span class="reason" title={one.failure_message}>
                    {one.failure_message}
                  </span>
                )}
              </td>
              <td class="num">
                {one.num_acknowledged_subtasks}/{one.num_subtasks}
              </td>
              <td class="num">
                <When at={one.trigger_timestamp} />
              </td>
              <td class="num">
                {one.status === "IN_PROGRESS" ? (
                  <Lasting from={new Date(one.trigger_timestamp).toISOString()} />
                ) : (
                  duration(one.end_to_end_duration < 0 ? null : one.end_to_end_duration)
                )}
              </td>
              <td class="num">{one.status === "COMPLETED" ? bytes(one.state_size) : NONE}</td>
              <td class="num">
                {one.status === "COMPLETED" ? bytes(one.checkpointed_size) : NONE}
              </td>
            </tr>
          ))}
        </tbody>
      </Table>
    </Section>
  );
}

function Detail({ id, number }: { id: string; number: number }) {
  const found = useResource<Checkpoint>(`/jobs/${id}/checkpoints/${number}`, {
    on: (event) => event.data.job === id && event.data.checkpoint === number,
  });
  const [verified, setVerified] = useState<{
    number: number;
    said: Verification | ApiError;
  } | null>(null);
  const [isBusy, setBusy] = useState(false);
  const bar = useBar("operator");
  const now = useNow();
  const one = found.data;
  if (found.error && !one) return <Problem error={found.error} retry={found.reload} />;
  if (!one) return <Loading what={`checkpoint ${number}`} />;
  const verify = async (): Promise<void> => {
    setBusy(true);
    try {
      setVerified({
        number,
        said: await ask<Verification>(`/jobs/${id}/checkpoints/${number}/verify`, {
          method: "POST",
        }),
      });
    } catch (error) {
      setVerified({ number, said: error as ApiError });
    }
    setBusy(false);
  };
  const rows = [
    ...one.acks.map((ack) => ({ ...ack, key: `${ack.region}/${ack.vertex}/${ack.subtask}` })),
    ...one.awaited.map((ref) => ({
      ...ref,
      key: `${ref.region}/${ref.vertex}/${ref.subtask}`,
      acked_at: null,
      waited_ms: null,
      snapshot_ms: null,
      kind: "",
      pointer: null,
      version: null,
      bytes: 0,
      offsets: null,
      watermark: null,
    })),
  ].sort((a, b) => a.key.localeCompare(b.key, "en", { numeric: true }));
  const total = rows.length;
  const isOpen = one.status === "in_progress";
  // of a checkpoint that failed only the acks are known
  const acks = one.acks.map((ack) => ack.acked_at).sort();
  const ended = one.completed_at ?? acks.at(-1) ?? one.triggered_at;
  const whole = Math.max(
    ...rows.map((row) => spanMs(one.triggered_at, row.acked_at ?? (isOpen ? null : ended), now)),
    spanMs(one.triggered_at, isOpen ? null : ended, now),
  );
  return (
    <Section
      title={`Checkpoint ${number}`}
      aside={
        one.status === "completed" &&
        !one.discarded_at && (
          <button
            type="button"
            disabled={bar !== null || isBusy}
            title={bar ?? ""}
            onClick={() => void verify()}
          >
            {isBusy ? "Verifying …" : "Verify files"}
          </button>
        )
      }
    >
      <dl class="facts">
        <Fact name="Status">
          <State state={one.status} />
        </Fact>
        <Fact name="Kind">{one.kind}</Fact>
        <Fact name="Triggered">
          <Clock at={one.triggered_at} />
        </Fact>
        <Fact name="Took">
          <Lasting
            from={one.triggered_at}
            to={one.completed_at ?? (one.failure ? one.triggered_at : null)}
          />
        </Fact>
        <Fact name="Size">
          {bytes(one.bytes)}, new {bytes(one.new_bytes)}
        </Fact>
        <Fact name="Batch">
          {Object.entries(one.batch)
            .map(([region, batch]) => `${region} ${batch ?? "none"}`)
            .join(", ") || NONE}
        </Fact>
        <Fact name="Attempt">{one.attempt}</Fact>
      </dl>
      <div
        class="ack-progress"
        role="progressbar"
        aria-valuemin={0}
        aria-valuemax={total}
        aria-valuenow={one.acks.length}
        aria-label="Acks"
      >
        <span style={{ width: `${total ? (100 * one.acks.length) / total : 0}%` }} />
      </div>
      <p class="hint" data-testid="acks">
        {one.acks.length} of {plural(total, "subtask")} acked
      </p>
      {one.failure && (
        <div class="problem" role="alert">
          <p>
            <b>{one.failure.reason.replaceAll("_", " ")}</b>
            {one.failure.detail ? `: ${one.failure.detail}` : ""}
          </p>
        </div>
      )}
      {verified?.number === number && <Verified said={verified.said} />}
      <Table label={`Acks of checkpoint ${number}`}>
        <thead>
          <tr>
            <th scope="col">Subtask</th>
            <th scope="col">Acked</th>
            <th scope="col" class="num">
              After
            </th>
            <th scope="col">From the barrier to the ack</th>
            <th scope="col">Kind</th>
            <th scope="col" class="num">
              Bytes
            </th>
            <th scope="col" class="num">
              Version
            </th>
            <th scope="col">State pointer, or offsets</th>
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={row.key} class={row.acked_at ? "" : "awaited"}>
              <th scope="row" class="mono">
                {row.vertex}/{row.subtask}
              </th>
              <td>
                {row.acked_at ? (
                  <Clock at={row.acked_at} />
                ) : one.status === "in_progress" ? (
                  "awaited"
                ) : (
                  "no ack"
                )}
              </td>
              <td class="num">
                {row.acked_at
                  ? duration(Date.parse(row.acked_at) - Date.parse(one.triggered_at))
                  : NONE}
              </td>
              <td>
                <Span
                  parts={ackParts(
                    spanMs(one.triggered_at, row.acked_at ?? (isOpen ? null : ended), now),
                    row,
                  )}
                  of={whole}
                  kind={row.acked_at ? "acked" : isOpen ? "awaited" : "missing"}
                />
              </td>
              <td>{row.kind || NONE}</td>
              <td class="num">{row.kind === "state" ? bytes(row.bytes) : NONE}</td>
              <td class="num">{row.version ?? NONE}</td>
              <td class="mono clip" title={row.pointer ?? ""}>
                {row.pointer ?? (row.offsets == null ? NONE : JSON.stringify(row.offsets))}
              </td>
            </tr>
          ))}
        </tbody>
      </Table>
      <Command text={command("checkpoints", shortId(id), number)} />
    </Section>
  );
}

/** The time from the barrier to an ack as a bar; the longest span of the checkpoint is the whole. */
function Span({ parts, of, kind }: { parts: AckPart[]; of: number; kind: string }) {
  const told = parts.map((one) => `${one.name} ${duration(one.ms)}`).join(", ");
  return (
    <span class={`span span-${kind}`} title={told} role="img" aria-label={told}>
      {parts.map((one) => (
        <span
          key={one.part}
          class={`part-${one.part}`}
          style={{ width: `${of > 0 ? Math.max(1, (100 * one.ms) / of).toFixed(1) : 0}%` }}
        />
      ))}
    </span>
  );
}

export function Verified({ said }: { said: Verification | ApiError }) {
  if (said instanceof ApiError) return <Problem error={said} />;
  return (
    <div class={said.faults.length ? "problem" : "good"} role="status">
      <p>
        {said.faults.length
          ? `${plural(said.faults.length, "fault")} in `
          : "Every file is as it was written: "}
        {plural(said.files, "file")}, {bytes(said.bytes)}
      </p>
      <ul class="plain">
        {said.faults.map((one) => (
          <li key={one}>{one}</li>
        ))}
      </ul>
    </div>
  );
}
