// One job: its state and figures, the actions on it, and its details in tabs.

import { useMemo, useRef, useState } from "preact/hooks";
import type {
  GraphAnswer,
  JobMeta,
  JobPlanResponse,
  JobState,
  JobStatus,
  Lag,
  Operation,
  OperationList,
  Plan,
  ProgressEvent,
  RegionProgress,
} from "../api";
import { about, useEvents, useResource } from "../hooks";
import { bytes, compact, duration, plural } from "../logic/format";
import { isLive, labelsOf } from "../logic/jobsTable";
import { catchUp, crashCost } from "../logic/outlook";
import { Meters } from "../logic/rates";
import { link, type Route } from "../logic/route";
import { look } from "../logic/tasks";
import { Copy, Fact, Id, Lasting, Loading, Problem, State, When } from "../parts/basics";
import { Actions } from "./actions";
import { Checkpoints } from "./checkpoints";
import { History } from "./history";
import { KeyGroups } from "./keyGroups";
import { JobLog } from "./logs";
import { Metrics } from "./metrics";
import { Operations } from "./operations";
import { Overview } from "./overview";
import { Savepoints } from "./savepoints";
import { StateView } from "./state";

const TABS = [
  ["", "Graph"],
  ["checkpoints", "Checkpoints"],
  ["key-groups", "Key groups"],
  ["state", "State"],
  ["metrics", "Metrics"],
  ["history", "Exceptions & history"],
  ["savepoints", "Savepoints"],
  ["logs", "Logs"],
] as const;

export interface JobProps {
  id: string;
  status: JobStatus;
  graph: GraphAnswer;
  plan: Plan;
  progress: RegionProgress[];
  meters: Meters;
  operations: Operation[];
  route: Route;
}

export function Job({ route }: { route: Route }) {
  const id = route.path[1]!;
  const tab = route.path[2] ?? "";
  const concerns = about(id);
  const status = useResource<JobStatus>(`/jobs/${id}/status`, { on: concerns, every: 15_000 });
  const shape = (event: Parameters<typeof concerns>[0]): boolean =>
    concerns(event) && /(job_|rescale|upgrade|attempt_)/.test(event.kind);
  const graph = useResource<GraphAnswer>(`/jobs/${id}/graph`, { on: shape });
  const plan = useResource<JobPlanResponse>(`/jobs/${id}/plan`, { on: shape });
  const [isWorking, setWorking] = useState(false);
  const operations = useResource<OperationList>(`/jobs/${id}/operations`, {
    on: concerns,
    every: isWorking ? 700 : null,
  });
  const underWay = (operations.data?.items ?? []).some((one) => one.status === "in_progress");
  if (underWay !== isWorking) setWorking(underWay);
  const { progress, state, meters } = useProgress(id, status.data);

  const error = status.error ?? graph.error ?? plan.error;
  if (error && !(status.data && graph.data && plan.data)) {
    const reload = (): void => {
      for (const one of [status, graph, plan]) one.reload();
    };
    return <Problem error={error} retry={reload} />;
  }
  if (!status.data || !graph.data || !plan.data) return <Loading what="the job" />;
  const now: JobStatus = { ...status.data, state: state ?? status.data.state };
  const props: JobProps = {
    id,
    status: now,
    graph: graph.data,
    plan: plan.data.plan,
    progress,
    meters,
    operations: operations.data?.items ?? [],
    route,
  };
  return (
    <>
      <Header {...props} />
      <Operations job={id} operations={props.operations} isLive={isLive(now.state)} />
      <nav class="tabs" aria-label="Parts of the job">
        {TABS.map(([name, title]) => (
          <a
            key={name}
            href={link(["jobs", id, ...(name ? [name] : [])])}
            aria-current={tab === name ? "page" : undefined}
          >
            {title}
          </a>
        ))}
      </nav>
      <Tab name={tab} {...props} />
    </>
  );
}

function Tab({ name, ...props }: JobProps & { name: string }) {
  switch (name) {
    case "":
      return <Overview {...props} />;
    case "checkpoints":
      return <Checkpoints {...props} />;
    case "key-groups":
      return <KeyGroups {...props} />;
    case "state":
      return (
        <StateView base={`/jobs/${props.id}`} route={props.route} command={["state", props.id]} />
      );
    case "metrics":
      return <Metrics {...props} />;
    case "history":
      return <History {...props} />;
    case "savepoints":
      return <Savepoints route={props.route} job={props.id} />;
    case "logs":
      return <JobLog job={props.id} attempt={props.status.attempt} route={props.route} />;
    default:
      return <p>There is no such tab.</p>;
  }
}

/** The fetched status, updated with the progress that the runner reports every second. */
function useProgress(
  id: string,
  status: JobStatus | null,
): { progress: RegionProgress[]; state: JobState | null; meters: Meters } {
  const meters = useRef({ id, meters: new Meters() });
  if (meters.current.id !== id) meters.current = { id, meters: new Meters() };
  const [heard, setHeard] = useState<{
    id: string;
    attempt: number;
    at: number;
    state: JobState;
    regions: RegionProgress[];
  } | null>(null);
  useEvents((event) => {
    if (event.kind !== "progress" || event.data.job !== id) return;
    const { attempt, at: told, state, regions } = event.data as unknown as ProgressEvent;
    const at = Date.parse(told);
    look(regions, at, meters.current.meters);
    setHeard({ id, attempt, at, state, regions });
  });
  const isNewer =
    heard?.id === id && status !== null && heard.attempt === status.attempt && isLive(status.state);
  return {
    progress: isNewer ? heard.regions : (status?.region_states ?? []),
    state: isNewer ? heard.state : null,
    meters: meters.current.meters,
  };
}

function Header({ id, status, graph, progress, meters, operations }: JobProps) {
  const inRate = sumOf(
    progress,
    (one) => meters.rate(`in:${one.region}`) ?? one.input_rows_per_second,
  );
  const outRate = sumOf(progress, (one) => meters.rate(`out:${one.region}`));
  const last = status.last_checkpoint;
  const lag = useMemo(() => lagOf(progress) ?? status.lag, [progress, status.lag]);
  const running = isLive(status.state);
  const trend = useResource<Lag>(running ? `/jobs/${id}/lag` : null, { every: 10_000 });
  return (
    <header class="job-head">
      <div class="job-title">
        <a class="crumb" href={link(["jobs"])}>
          Jobs
        </a>
        <h1>{graph.graph.name}</h1>
        <State state={status.state} />
        <span class="muted">
          <When at={status.since} />
        </span>
        <span class="mono muted">{id.slice(0, 8)}</span>
        <Copy text={id} label="Copy id" />
        <Actions id={id} status={status} graph={graph} operations={operations} />
      </div>
      <p
        class={`job-reason ${["failed", "stalled", "degraded", "restarting"].includes(status.state) ? "is-unwell" : ""}`}
      >
        {status.reason}
        {status.restored.map((one) => (
          <span key={one.region} class="muted">
            {" "}
            · start of {one.region}: {one.why}
          </span>
        ))}
      </p>
      <Meta meta={status.meta} />
      <dl class="facts">
        <Fact name="Up">
          {status.running_since ? <Lasting from={status.running_since} /> : "–"}
        </Fact>
        <Fact name="Rows/s in" title="Read by all regions">
          {running ? compact(inRate) : "–"}
        </Fact>
        <Fact name="Rows/s out" title="Given to all sinks">
          {running ? compact(outRate) : "–"}
        </Fact>
        <Fact name="Lag" title="How far the slowest watermark is behind its region's last batch">
          {running ? duration(lag) : "–"}
          {running && trend.data && <LagTrend lag={trend.data} />}
        </Fact>
        {running && status.crash_cost && (
          <Fact
            name="A crash now"
            title="What is done again since the last completed checkpoint, if the runner's directory is lost, too"
          >
            {crashCost(status.crash_cost)}
          </Fact>
        )}
        <Fact name="Checkpoint">
          {last ? (
            <a href={link(["jobs", id, "checkpoints"], { n: String(last.number) })}>
              #{last.number}, <When at={last.completed_at} />, {duration(last.duration_ms)},{" "}
              {bytes(last.bytes)}
            </a>
          ) : (
            "none yet"
          )}
        </Fact>
        <Fact name="Parallelism">
          {graph.parallelism} of {graph.graph.max_parallelism ?? 720}
        </Fact>
        <Fact name="Revision">{graph.revision}</Fact>
        <Fact name="Attempt">
          {status.attempt}, {plural(status.restarts, "restart")}
        </Fact>
        <Fact name="Runner">
          {status.runner ? (
            <>
              <Id id={status.runner.id} href={link(["cluster"])} /> on {status.runner.host}, pid{" "}
              {status.runner.pid ?? "–"}
              {status.runner.is_shared && ", shared with other jobs"}
            </>
          ) : (
            "none"
          )}
        </Fact>
      </dl>
    </header>
  );
}

/** Whether the job catches up, and when. */
function LagTrend({ lag }: { lag: Lag }) {
  const said = catchUp(lag);
  return said ? <span class={`trend trend-${lag.trend}`}>{said}</span> : null;
}

/** What people said about the job, in its graph. */
function Meta({ meta }: { meta: JobMeta }) {
  const labels = labelsOf({ meta });
  if (!meta.owner && !meta.description && !meta.runbook && !labels.length) return null;
  return (
    <div class="job-meta">
      {meta.description && <p>{meta.description}</p>}
      <p class="job-labels">
        {meta.owner && <span>Owner: {meta.owner}</span>}
        {meta.runbook && (
          <a href={meta.runbook} target="_blank" rel="noreferrer noopener">
            Runbook
          </a>
        )}
        {labels.map((one) => (
          <a
            key={one}
            class="tag"
            href={link(["jobs"], { label: JSON.stringify([one]) })}
            title={`All jobs with ${one}`}
          >
            {one}
          </a>
        ))}
      </p>
    </div>
  );
}

function sumOf(
  progress: RegionProgress[],
  value: (one: RegionProgress) => number | null,
): number | null {
  const known = progress.map(value).filter((one) => one !== null);
  return known.length ? known.reduce((total, one) => total + one, 0) : null;
}

function lagOf(progress: RegionProgress[]): number | null {
  const lags = progress
    .filter((one) => one.watermark && one.progressed_at)
    .map((one) => Date.parse(one.progressed_at!) - Date.parse(one.watermark!));
  return lags.length ? Math.max(...lags) : null;
}
