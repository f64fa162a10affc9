// The graph with live figures, and the subtasks of the task that was clicked.

import { useMemo, useRef } from "preact/hooks";
import type { Checkpoint, JobExceptions, KeyGroupsAnswer, PlanNode } from "../api";
import { about, setQuery, useResource } from "../hooks";
import { connectorsOf } from "../logic/connectors";
import { bytes, compact, duration, grouped, NONE } from "../logic/format";
import { figuresOf, type TaskFigures } from "../logic/tasks";
import { Clock, Empty, Fact, Meter, Section, Table, When } from "../parts/basics";
import { Connectors } from "../parts/connectors";
import { backlog, Graph } from "../parts/graph";
import { LastRows } from "../parts/lastRows";
import { SubtaskFigures } from "../parts/subtaskFigures";
import type { JobProps } from "./job";

export function Overview({ id, plan, graph, status, progress, meters, route }: JobProps) {
  const figures = new Map(
    plan.nodes.map((node) => [node.id, figuresOf(node, plan, progress, meters)]),
  );
  const failures = useResource<JobExceptions>(`/jobs/${id}/exceptions`, {
    on: (event) => event.data.job === id && event.kind === "attempt_failed",
  });
  const selected = plan.nodes.find((node) => node["headgate-vertices"][0] === route.query.task);
  const sink = graph.graph.vertices.find(
    (one) => one.op === "sink" && selected?.["headgate-vertices"].includes(one.id),
  );
  const select = (taskId: string): void => {
    const head = plan.nodes.find((node) => node.id === taskId)?.["headgate-vertices"][0];
    setQuery(route, { task: head === route.query.task ? undefined : head });
  };
  return (
    <>
      <Graph
        plan={plan}
        graph={graph.graph}
        figures={figures}
        selected={selected?.id}
        onSelect={select}
      />
      {selected ? (
        <Subtasks
          key={id}
          id={id}
          node={selected}
          figures={figures.get(selected.id)!}
          last={status.last_checkpoint?.number ?? null}
        />
      ) : (
        <p class="hint">
          Click a task for its subtasks: key groups, state, offsets and acks; a sink for its rows.
        </p>
      )}
      {sink && <LastRows key={`${id}/${sink.id}`} job={id} sink={sink.id} />}
      <Connectors
        connectors={connectorsOf(
          graph.graph,
          plan,
          progress,
          meters,
          failures.data?.exceptionHistory.entries ?? [],
        )}
      />
      <Regions progress={progress} meters={meters} />
    </>
  );
}

interface SubtaskRow {
  key: string;
  vertex: string;
  subtask: number;
  kind: string;
  groups: number | null;
  bytes: number | null;
  version: number | null;
  detail: string;
  ackedAt: string | null;
}

function Subtasks({
  id,
  node,
  figures,
  last,
}: {
  id: string;
  node: PlanNode;
  figures: TaskFigures;
  last: number | null;
}) {
  const fetched = useResource<Checkpoint>(last === null ? null : `/jobs/${id}/checkpoints/${last}`);
  // the previous answer stays until the next is here, so that the table does not flicker
  const shown = useRef<Checkpoint | null>(null);
  shown.current = last === null ? null : (fetched.data ?? shown.current);
  const checkpoint = shown.current;
  const groups = useResource<KeyGroupsAnswer>(`/jobs/${id}/key-groups`, { on: about(id) });
  const rows = useMemo(
    () => rowsOf(node, checkpoint, groups.data),
    [node, checkpoint, groups.data],
  );
  const [, ...lines] = ["", ...node.description.split("<br/>")];
  return (
    <Section
      title={`Task ${node["headgate-vertices"].join(" → ")}`}
      aside={`parallelism ${node.parallelism}`}
    >
      <ul class="plain mono small">
        {lines.map((line) => (
          <li key={line}>{line}</li>
        ))}
      </ul>
      <dl class="facts">
        <Fact name="Rows/s in">{compact(figures.inRate)}</Fact>
        <Fact name="Rows/s out">{compact(figures.outRate)}</Fact>
        <Fact name="Busy">
          <Meter share={figures.busy} label="busy" />
        </Fact>
        <Fact name="Backlog">{backlog(figures)}</Fact>
        <Fact name="Watermark">
          <When at={figures.watermark} />
        </Fact>
        <Fact name="State in memory">{bytes(figures.stateBytes)}</Fact>
        <Fact name="Rows updated, last batch">{grouped(figures.updatedRows)}</Fact>
        <Fact name="Rows too late, last batch">{grouped(figures.droppedRows)}</Fact>
        {figures.unreadableRows === null || (
          <Fact name="Records not readable">{grouped(figures.unreadableRows)}</Fact>
        )}
      </dl>
      {figures.lags.length > 0 && <Lags lags={figures.lags} />}
      <SubtaskFigures measured={figures.measured} parallelism={node.parallelism} />
      {rows.length === 0 ? (
        <Empty title="No subtask of this task takes part in checkpoints" />
      ) : (
        <Table label="Subtasks">
          <thead>
            <tr>
              <th scope="col">Subtask</th>
              <th scope="col">Keeps</th>
              <th scope="col" class="num">
                Key groups
              </th>
              <th scope="col" class="num">
                Bytes
              </th>
              <th scope="col" class="num">
                Version
              </th>
              <th scope="col">Offsets or pointer</th>
              <th scope="col" class="num">
                Acked {checkpoint === null ? "" : `#${checkpoint.number}`}
              </th>
            </tr>
          </thead>
          <tbody>
            {rows.map((row) => (
              <tr key={row.key}>
                <th scope="row" class="mono">
                  {row.vertex}/{row.subtask}
                </th>
                <td>{row.kind}</td>
                <td class="num">{row.groups === null ? NONE : grouped(row.groups)}</td>
                <td class="num">{bytes(row.bytes)}</td>
                <td class="num">{row.version ?? NONE}</td>
                <td class="mono clip" title={row.detail}>
                  {row.detail || NONE}
                </td>
                <td class="num">
                  <Clock at={row.ackedAt} />
                </td>
              </tr>
            ))}
          </tbody>
        </Table>
      )}
    </Section>
  );
}

/** How far the sources are behind, partition by partition. */
function Lags({ lags }: { lags: TaskFigures["lags"] }) {
  return (
    <Table label="Lag">
      <thead>
        <tr>
          <th scope="col">Partition</th>
          <th scope="col" class="num">
            Read up to
          </th>
          <th scope="col" class="num">
            End
          </th>
          <th scope="col" class="num">
            Lag, records
          </th>
          <th scope="col" class="num">
            Lag, time
          </th>
        </tr>
      </thead>
      <tbody>
        {lags.map((one) => (
          <tr key={one.partition}>
            <th scope="row" class="mono">
              {one.partition}
            </th>
            <td class="num">{grouped(one.position)}</td>
            <td class="num">{grouped(one.end)}</td>
            <td class="num">{grouped(one.rows)}</td>
            <td class="num">{one.seconds == null ? NONE : duration(one.seconds * 1000)}</td>
          </tr>
        ))}
      </tbody>
    </Table>
  );
}

function rowsOf(
  node: PlanNode,
  checkpoint: Checkpoint | null,
  groups: KeyGroupsAnswer | null,
): SubtaskRow[] {
  const mine = new Set(node["headgate-vertices"]);
  const acks = (checkpoint?.acks ?? []).filter((one) => mine.has(one.vertex));
  const seen = new Set(acks.map((one) => `${one.vertex}/${one.subtask}`));
  const owned = new Map<string, number>();
  for (const vertex of groups?.vertices ?? []) {
    for (const one of vertex.subtasks)
      owned.set(`${vertex.vertex}/${one.subtask}`, one.key_groups.length);
  }
  const rows = acks.map((one) => ({
    key: `${one.region}/${one.vertex}/${one.subtask}`,
    vertex: one.vertex,
    subtask: one.subtask,
    kind: one.kind,
    groups: owned.get(`${one.vertex}/${one.subtask}`) ?? null,
    bytes: one.kind === "state" ? one.bytes : null,
    version: one.version,
    detail: one.pointer ?? (one.offsets == null ? "" : JSON.stringify(one.offsets)),
    ackedAt: one.acked_at,
  }));
  for (const [name, count] of owned) {
    const [vertex, subtask] = name.split("/") as [string, string];
    if (mine.has(vertex) && !seen.has(name)) {
      rows.push({
        key: name,
        vertex,
        subtask: Number(subtask),
        kind: "state",
        groups: count,
        bytes: null,
        version: null,
        detail: "",
        ackedAt: null as unknown as string,
      });
    }
  }
  return rows;
}

function Regions({ progress, meters }: Pick<JobProps, "progress" | "meters">) {
  if (!progress.length)
    return (
      <Empty title="No progress was reported yet">
        The job is starting, or it ended before its first batch.
      </Empty>
    );
  return (
    <Section title="Regions" aside="one Spark query each">
      <Table label="Regions">
        <thead>
          <tr>
            <th scope="col">Region</th>
            <th scope="col">Doing</th>
            <th scope="col" class="num">
              Batch
            </th>
            <th scope="col" class="num">
              Batch took
            </th>
            <th scope="col" class="num">
              Median
            </th>
            <th scope="col" class="num">
              Rows in
            </th>
            <th scope="col" class="num">
              Rows out
            </th>
            <th scope="col" class="num">
              In/s
            </th>
            <th scope="col" class="num">
              Out/s
            </th>
            <th scope="col" class="num">
              Watermark
            </th>
            <th scope="col" class="num">
              Last batch
            </th>
          </tr>
        </thead>
        <tbody>
          {progress.map((one) => (
            <tr key={one.region}>
              <th scope="row" class="mono">
                {one.region}
              </th>
              <td class="clip" title={one.activity ?? ""}>
                {one.is_active ? (one.activity ?? "running") : "ended"}
              </td>
              <td class="num">{one.batch === null ? NONE : grouped(one.batch)}</td>
              <td class="num">{duration(one.batch_duration_ms)}</td>
              <td class="num">{duration(one.median_batch_ms)}</td>
              <td class="num">{grouped(one.input_rows)}</td>
              <td class="num">{grouped(one.output_rows)}</td>
              <td class="num">
                {compact(meters.rate(`in:${one.region}`) ?? one.input_rows_per_second)}
              </td>
              <td class="num">{compact(meters.rate(`out:${one.region}`))}</td>
              <td class="num">
                <When at={one.watermark} />
              </td>
              <td class="num">
                <When at={one.progressed_at} />
              </td>
            </tr>
          ))}
        </tbody>
      </Table>
    </Section>
  );
}
