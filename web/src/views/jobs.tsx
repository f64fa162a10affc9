// The first page: a live list of all jobs.

import type { JobSummary } from "../api";
import { setQuery, useBar } from "../hooks";
import { MOST_JOBS, useJobs } from "../live/useJobs";
import { bytes, compact, duration, grouped, NONE } from "../logic/format";
import {
  isLive,
  labelsIn,
  labelsOf,
  matching,
  PAGE,
  type SortKey,
  STATES,
  sorted,
  toggled,
  type View,
} from "../logic/jobsTable";
import { link, type Route } from "../logic/route";
import {
  Command,
  Empty,
  Lasting,
  Loading,
  Problem,
  Sparkline,
  State,
  Table,
  When,
} from "../parts/basics";

const COLUMNS: [SortKey | null, string, string][] = [
  ["name", "Job", ""],
  ["state", "State", ""],
  ["uptime", "Up", "num"],
  ["rate", "Rows/s in", "num"],
  [null, "Last 5 min", ""],
  ["lag", "Lag", "num"],
  ["checkpoint", "Checkpoint", "num"],
  [null, "Took", "num"],
  [null, "Size", "num"],
  ["restarts", "Restarts", "num"],
  ["submitted", "Submitted", "num"],
];

export function Jobs({ route }: { route: Route }) {
  const { jobs, error, reload } = useJobs();
  const bar = useBar("operator");
  const view: View = {
    text: route.query.q ?? "",
    states: route.query.state ? route.query.state.split(",") : [],
    labels: labelsIn(route.query.label),
    sort: (route.query.sort as SortKey | undefined) ?? "submitted",
    descending: route.query.order !== "up",
  };
  const at = Math.max(0, Number(route.query.page ?? 1) - 1);
  if (error && !jobs.isLoaded) return <Problem error={error} retry={reload} />;
  if (!jobs.isLoaded) return <Loading what="jobs" />;
  const shown = sorted(matching(jobs.rows, view), view, (job) => jobs.rateOf(job));
  const here = shown.slice(at * PAGE, (at + 1) * PAGE);
  const pages = Math.ceil(shown.length / PAGE);
  const counts = jobs.counts;
  const set = (changes: Record<string, string | undefined>): void =>
    setQuery(route, { page: undefined, ...changes });
  const filter = (label: string): void => {
    const chosen = toggled(view.labels, label);
    set({ label: chosen.length ? JSON.stringify(chosen) : undefined });
  };
  return (
    <>
      <div class="page-head">
        <h1>Jobs</h1>
        <div class="filters" role="group" aria-label="Filter by state">
          <Chip
            label="all"
            count={Object.values(counts).reduce((a, b) => a + b, 0)}
            isOn={!view.states.length}
            act={() => set({ state: undefined })}
          />
          {STATES.filter((one) => counts[one]).map((one) => (
            <Chip
              key={one}
              label={one}
              count={counts[one] ?? 0}
              isOn={view.states.includes(one)}
              act={() => set({ state: toggled(view.states, one).join(",") || undefined })}
            />
          ))}
        </div>
        <input
          type="search"
          class="search"
          placeholder="Name, id, owner or label"
          aria-label="Search jobs"
          value={view.text}
          onInput={(event) => set({ q: event.currentTarget.value || undefined })}
        />
        {bar ? (
          <button type="button" class="primary" disabled title={bar}>
            Submit a job
          </button>
        ) : (
          <a class="button primary" href={link(["submit"])}>
            Submit a job
          </a>
        )}
      </div>
      {view.labels.length > 0 && (
        <div class="filters" role="group" aria-label="Filter by label">
          {view.labels.map((one) => (
            <button
              key={one}
              type="button"
              class="chip"
              aria-pressed={true}
              title="Stop filtering by this label"
              onClick={() => filter(one)}
            >
              {one} <span aria-hidden="true">✕</span>
            </button>
          ))}
        </div>
      )}
      {jobs.rows.length === 0 ? (
        <Empty title="No jobs yet">
          <p>Submit a job here, or from a shell:</p>
          <Command text="headgate submit examples/quickstart.yaml" />
        </Empty>
      ) : shown.length === 0 ? (
        <Empty title="No job matches">
          <button
            type="button"
            onClick={() => set({ q: undefined, state: undefined, label: undefined })}
          >
            Show all {grouped(jobs.rows.length)}
          </button>
        </Empty>
      ) : (
        <Table label="Jobs" class="jobs">
          <thead>
            <tr>
              {COLUMNS.map(([key, title, kind]) => (
                <Heading key={title} name={key} title={title} kind={kind} view={view} set={set} />
              ))}
            </tr>
          </thead>
          <tbody>
            {here.map((job) => (
              <Row
                key={job.id}
                job={job}
                rate={jobs.rateOf(job)}
                sparks={jobs.sparksOf(job)}
                labels={view.labels}
                filter={filter}
              />
            ))}
          </tbody>
        </Table>
      )}
      {pages > 1 && (
        <nav class="pager" aria-label="Pages">
          <button
            type="button"
            disabled={at === 0}
            onClick={() => setQuery(route, { page: String(at) })}
          >
            Newer
          </button>
          <span>
            {grouped(at * PAGE + 1)}–{grouped(Math.min(shown.length, (at + 1) * PAGE))} of{" "}
            {grouped(shown.length)}
          </span>
          <button
            type="button"
            disabled={at + 1 >= pages}
            onClick={() => setQuery(route, { page: String(at + 2) })}
          >
            Older
          </button>
        </nav>
      )}
      {jobs.hasMore && (
        <p class="hint">The newest {grouped(MOST_JOBS)} jobs are shown; only these are searched.</p>
      )}
    </>
  );
}

function Row({
  job,
  rate,
  sparks,
  labels,
  filter,
}: {
  job: JobSummary;
  rate: number | null;
  sparks: number[];
  labels: readonly string[];
  filter: (label: string) => void;
}) {
  const last = job.last_checkpoint;
  const isUnwell = ["failed", "stalled", "degraded", "restarting"].includes(job.state);
  return (
    <tr>
      <th scope="row">
        <a href={link(["jobs", job.id])} title={job.meta.description ?? undefined}>
          {job.name}
        </a>{" "}
        <span class="mono muted">{job.id.slice(0, 8)}</span>
        {(job.meta.owner || labelsOf(job).length > 0) && (
          <span class="job-labels">
            {job.meta.owner && <span class="muted">{job.meta.owner}</span>}
            {labelsOf(job).map((one) => (
              <button
                key={one}
                type="button"
                class="tag"
                aria-pressed={labels.includes(one)}
                title={`Only jobs with ${one}`}
                onClick={() => filter(one)}
              >
                {one}
              </button>
            ))}
          </span>
        )}
        {isUnwell && (
          <span class="reason" title={job.reason}>
            {job.reason}
          </span>
        )}
      </th>
      <td title={job.reason}>
        <State state={job.state} />{" "}
        <span class="muted nowrap">
          <When at={job.since} />
        </span>
      </td>
      <td class="num">{job.running_since ? <Lasting from={job.running_since} /> : NONE}</td>
      <td class="num">{rate === null ? NONE : compact(rate)}</td>
      <td>
        <Sparkline
          values={sparks}
          label={`Rows a second read by ${job.name} in the last minutes`}
        />
      </td>
      <td class="num">{isLive(job.state) ? duration(job.lag) : NONE}</td>
      <td class="num">
        {last ? (
          <span title={`number ${last.number}`}>
            <When at={last.completed_at} />
          </span>
        ) : (
          NONE
        )}
      </td>
      <td class="num">{last ? duration(last.duration_ms) : NONE}</td>
      <td class="num">{last ? bytes(last.bytes) : NONE}</td>
      <td class={`num ${job.restarts ? "warn" : ""}`}>{job.restarts}</td>
      <td class="num">
        <When at={job.submitted_at} />
      </td>
    </tr>
  );
}

function Heading({
  name,
  title,
  kind,
  view,
  set,
}: {
  name: SortKey | null;
  title: string;
  kind: string;
  view: View;
  set: (changes: Record<string, string | undefined>) => void;
}) {
  if (name === null)
    return (
      <th class={kind} scope="col">
        {title}
      </th>
    );
  const isOn = view.sort === name;
  const order = isOn ? (view.descending ? "descending" : "ascending") : "none";
  return (
    <th class={kind} scope="col" aria-sort={order}>
      <button
        type="button"
        class="sort"
        onClick={() => set({ sort: name, order: isOn && view.descending ? "up" : undefined })}
      >
        {title}
        <span aria-hidden="true">{isOn ? (view.descending ? " ↓" : " ↑") : ""}</span>
      </button>
    </th>
  );
}

function Chip({
  label,
  count,
  isOn,
  act,
}: {
  label: string;
  count: number;
  isOn: boolean;
  act: () => void;
}) {
  return (
    <button type="button" class={`chip state-${label}`} aria-pressed={isOn} onClick={act}>
      {label !== "all" && <span class="dot" aria-hidden="true" />}
      {label} <b>{grouped(count)}</b>
    </button>
  );
}
