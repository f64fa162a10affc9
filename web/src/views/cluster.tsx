// The cluster: runners, JobManagers and the leader.

import type { JobManagers, Runner, RunnerPage, SummaryPage } from "../api";
import { setQuery, useResource } from "../hooks";
import { bytes, duration, NONE, plural } from "../logic/format";
import { link, type Route } from "../logic/route";
import {
  Empty,
  Fact,
  Id,
  Lasting,
  Loading,
  Problem,
  Section,
  State,
  Table,
  When,
} from "../parts/basics";

export function Cluster({ route }: { route: Route }) {
  const all = route.query.show === "all";
  const runners = useResource<RunnerPage>("/runners", {
    query: { limit: 200, alive: !all },
    every: 2_000,
  });
  const managers = useResource<JobManagers>("/jobmanagers", { every: 2_000 });
  const jobs = useResource<SummaryPage>("/jobs/summary", { query: { limit: 2000 }, every: 30_000 });
  const names = new Map((jobs.data?.items ?? []).map((one) => [one.id, one.name]));
  return (
    <>
      <div class="page-head">
        <h1>Cluster</h1>
      </div>
      {managers.error && !managers.data ? (
        <Problem error={managers.error} retry={managers.reload} />
      ) : managers.data ? (
        <Managers found={managers.data} />
      ) : (
        <Loading what="JobManagers" />
      )}
      {managers.data && <WarmPool found={managers.data} />}
      <Section
        title="Runners"
        aside={
          <label class="check">
            <input
              type="checkbox"
              checked={all}
              onChange={(event) =>
                setQuery(route, { show: event.currentTarget.checked ? "all" : undefined })
              }
            />
            show exited runners, too
          </label>
        }
      >
        {runners.error && !runners.data ? (
          <Problem error={runners.error} retry={runners.reload} />
        ) : !runners.data ? (
          <Loading what="runners" />
        ) : runners.data.items.length === 0 ? (
          <Empty title="No runner is running">
            A runner is started with each job, or taken from the warm pool.
          </Empty>
        ) : (
          <Runners items={runners.data.items} names={names} />
        )}
      </Section>
    </>
  );
}

function Managers({ found }: { found: JobManagers }) {
  return (
    <Section title="JobManagers" aside={plural(found.items.length, "server")}>
      <dl class="facts">
        <Fact name="Leader">
          {found.leader ?? (
            <span class="warn">nobody leads: writes are refused until one does</span>
          )}
        </Fact>
        <Fact name="Term">{found.term}</Fact>
        <Fact name="Lease">
          {found.lease.is_in_force
            ? `in force, ${duration(found.lease.remaining_ms)} left`
            : "expired"}
        </Fact>
      </dl>
      <Table label="JobManagers">
        <thead>
          <tr>
            <th scope="col">Server</th>
            <th scope="col">Role</th>
            <th scope="col">Host</th>
            <th scope="col" class="num">
              Pid
            </th>
            <th scope="col">Version</th>
            <th scope="col" class="num">
              Up
            </th>
            <th scope="col" class="num">
              Last seen
            </th>
          </tr>
        </thead>
        <tbody>
          {found.items.map((one) => (
            <tr key={one.id}>
              <th scope="row" class="mono">
                {one.url}
              </th>
              <td>{one.is_leader ? <State state="leads" /> : "follows"}</td>
              <td>{one.host}</td>
              <td class="num">{one.pid}</td>
              <td>{one.version}</td>
              <td class="num">
                <Lasting from={one.started_at} />
              </td>
              <td class="num">
                <When at={one.seen_at} />
              </td>
            </tr>
          ))}
        </tbody>
      </Table>
    </Section>
  );
}

function WarmPool({ found }: { found: JobManagers }) {
  const warm = found.items.find((one) => one.is_leader)?.warm;
  return (
    <Section title="Warm pool" aside="processes with a primed Spark session, ready for a job">
      {warm ? (
        <dl class="facts">
          <Fact name="Ready">{warm.primed}</Fact>
          <Fact name="Starting">{warm.starting}</Fact>
          <Fact name="Wanted">{warm.wanted}</Fact>
        </dl>
      ) : (
        <p class="hint">Only the leader keeps warm runners.</p>
      )}
      {warm?.wanted === 0 && (
        <p class="hint">
          Jobs start faster with warm runners: <code>headgate serve --warm-runners 1</code>
        </p>
      )}
    </Section>
  );
}

function Runners({ items, names }: { items: Runner[]; names: Map<string, string> }) {
  return (
    <Table label="Runners">
      <thead>
        <tr>
          <th scope="col">Runner</th>
          <th scope="col">State</th>
          <th scope="col">Job</th>
          <th scope="col" class="num">
            Attempt
          </th>
          <th scope="col">Host</th>
          <th scope="col" class="num">
            Pid
          </th>
          <th scope="col" class="num">
            Slots
          </th>
          <th scope="col" class="num">
            Memory
          </th>
          <th scope="col" class="num">
            JVM heap
          </th>
          <th scope="col">Versions</th>
          <th scope="col" class="num">
            Up
          </th>
          <th scope="col" class="num">
            Heartbeat
          </th>
          <th scope="col">Log</th>
        </tr>
      </thead>
      <tbody>
        {items.map((one) => (
          <tr key={one.id}>
            <th scope="row">
              <Id id={one.id} />
            </th>
            <td title={one.exit ?? ""}>
              <State
                state={one.exited_at ? "exited" : one.registered_at ? "running" : "starting"}
              />
              {one.exit && (
                <span class="reason" title={one.exit}>
                  {one.exit}
                </span>
              )}
            </td>
            <td>
              <a href={link(["jobs", one.job])}>{names.get(one.job) ?? one.job.slice(0, 8)}</a>
            </td>
            <td class="num">{one.attempt}</td>
            <td>{one.host}</td>
            <td
              class="num"
              title={one.is_shared ? "the process runs several jobs at the same time" : undefined}
            >
              {one.pid ?? NONE}
              {one.is_shared && " shared"}
            </td>
            <td class="num">{one.slots ?? NONE}</td>
            <td class="num" title="memory of all processes of the runner">
              {bytes(one.resident_bytes)}
            </td>
            <td class="num">
              {one.heap_max_bytes
                ? `${bytes(one.heap_used_bytes)} of ${bytes(one.heap_max_bytes)}`
                : NONE}
            </td>
            <td class="small nowrap">
              {Object.entries(one.versions)
                .map(([name, version]) => `${name} ${version}`)
                .join(", ") || NONE}
            </td>
            <td class="num">
              <Lasting from={one.launched_at} to={one.exited_at} />
            </td>
            <td class="num">{one.exited_at ? NONE : <When at={one.heartbeat_at} />}</td>
            <td>
              <a href={link(["jobs", one.job, "logs"], { attempt: String(one.attempt) })}>log</a>
            </td>
          </tr>
        ))}
      </tbody>
    </Table>
  );
}
