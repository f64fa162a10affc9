// Savepoints: a tree by lineage, and the actions on each.

import { useState } from "preact/hooks";
import {
  type ApiError,
  ask,
  type GraphAnswer,
  type JobSubmitted,
  type Savepoint,
  type SavepointPage,
  type SummaryPage,
  type Verification,
} from "../api";
import { useBar, useResource } from "../hooks";
import { command } from "../logic/commands";
import { bytes, NONE, shortId } from "../logic/format";
import { type Branch, tree } from "../logic/lineage";
import { link, type Route } from "../logic/route";
import { toYaml } from "../logic/yaml";
import {
  Command,
  Copy,
  Empty,
  Fact,
  Id,
  Loading,
  Problem,
  Section,
  State,
  Table,
  When,
} from "../parts/basics";
import { Confirm } from "../parts/dialog";
import { Editor } from "../parts/editor";
import { Verified } from "./checkpoints";
import { StateView } from "./state";

export function Savepoints({ route, job }: { route: Route; job?: string }) {
  const touches = (event: { kind: string; data: { job?: string } }): boolean =>
    event.kind !== "progress" &&
    event.kind !== "progress_summary" &&
    (job === undefined || event.data.job === job);
  const found = useResource<SavepointPage>("/savepoints", { on: touches, query: { limit: 1000 } });
  const jobs = useResource<SummaryPage>("/jobs/summary", { on: touches, query: { limit: 2000 } });
  const chosen = job === undefined ? route.path[1] : route.query.savepoint;
  if (found.error && !found.data) return <Problem error={found.error} retry={found.reload} />;
  if (!found.data) return <Loading what="savepoints" />;
  const branches = tree(found.data.items, jobs.data?.items ?? []);
  const shown = job === undefined ? branches : branches.filter((one) => one.savepoint.job === job);
  const names = new Map((jobs.data?.items ?? []).map((one) => [one.id, one.name]));
  const one = found.data.items.find((other) => other.id === chosen);
  const hrefOf = (id: string): string =>
    job === undefined
      ? link(["savepoints", id])
      : link(["jobs", job, "savepoints"], { savepoint: id });
  return (
    <>
      {job === undefined && (
        <div class="page-head">
          <h1>Savepoints</h1>
        </div>
      )}
      {shown.length === 0 ? (
        <Empty title={job ? "No savepoint of this job" : "No savepoint yet"}>
          <p>
            A savepoint is a snapshot that you own: to stop a job and continue, to fork, or to go
            back.
          </p>
          <Command text={command("savepoint", job ? shortId(job) : "JOB")} />
        </Empty>
      ) : (
        <Lineage
          branches={shown}
          names={names}
          chosen={chosen}
          hrefOf={hrefOf}
          isTree={job === undefined}
        />
      )}
      {chosen && !one && <Empty title={`There is no savepoint ${chosen}`} />}
      {one && (
        <Detail
          key={one.id}
          savepoint={one}
          name={one.job ? (names.get(one.job) ?? shortId(one.job)) : "adopted"}
          route={route}
          changed={found.reload}
        />
      )}
    </>
  );
}

function Lineage({
  branches,
  names,
  chosen,
  hrefOf,
  isTree,
}: {
  branches: Branch[];
  names: Map<string, string>;
  chosen: string | undefined;
  hrefOf: (id: string) => string;
  isTree: boolean;
}) {
  return (
    <Table label="Savepoints">
      <thead>
        <tr>
          <th scope="col">Savepoint</th>
          <th scope="col">Status</th>
          <th scope="col">Job</th>
          <th scope="col" class="num">
            Taken
          </th>
          <th scope="col" class="num">
            Size
          </th>
          <th scope="col" class="num">
            Subtasks
          </th>
          <th scope="col">Labels</th>
          <th scope="col">Jobs started from it</th>
        </tr>
      </thead>
      <tbody>
        {branches.map(({ savepoint: one, depth, forks }) => (
          <tr key={one.id} class={one.id === chosen ? "chosen" : ""}>
            <th
              scope="row"
              class="nowrap"
              style={{ paddingLeft: `${8 + (isTree ? depth : 0) * 20}px` }}
            >
              {isTree && depth > 0 && (
                <span class="muted" aria-hidden="true">
                  └{" "}
                </span>
              )}
              <Id id={one.id} href={hrefOf(one.id)} />
            </th>
            <td title={one.failure ?? ""}>
              <State state={one.status} />
              {one.drained && <span class="tag">drained</span>}
            </td>
            <td>
              {one.job ? (
                <a href={link(["jobs", one.job])}>{names.get(one.job) ?? shortId(one.job)}</a>
              ) : (
                <span title={one.parent ?? ""}>adopted from Spark</span>
              )}
            </td>
            <td class="num">
              <When at={one.created_at} />
            </td>
            <td class="num">{bytes(one.bytes)}</td>
            <td class="num">{one.parallelism}</td>
            <td>
              {Object.entries(one.labels).map(([name, text]) => (
                <span key={name} class="tag">
                  {name}={text}
                </span>
              ))}
            </td>
            <td>
              {forks.length === 0 && <span class="muted">{NONE}</span>}
              {forks.map((job) => (
                <a key={job.id} class="fork" href={link(["jobs", job.id])}>
                  {job.name} <State state={job.state} />
                </a>
              ))}
            </td>
          </tr>
        ))}
      </tbody>
    </Table>
  );
}

function Detail({
  savepoint: one,
  name,
  route,
  changed,
}: {
  savepoint: Savepoint;
  name: string;
  route: Route;
  changed: () => void;
}) {
  const [open, setOpen] = useState<"label" | "fork" | "dispose" | null>(null);
  const [verified, setVerified] = useState<Verification | ApiError | null>(null);
  const [isBusy, setBusy] = useState(false);
  const isThere = one.status === "completed";
  const bar = useBar("operator");
  const cannot = bar ?? (isThere ? null : `the savepoint is ${one.status}`);
  const close = (): void => setOpen(null);
  const verify = async (): Promise<void> => {
    setBusy(true);
    setVerified(
      await ask<Verification>(`/savepoints/${one.id}/verify`, { method: "POST" }).catch(
        (error: ApiError) => error,
      ),
    );
    setBusy(false);
  };
  return (
    <Section
      title={`Savepoint ${shortId(one.id)}`}
      aside={
        <div class="actions">
          <button
            type="button"
            disabled={cannot !== null || isBusy}
            title={cannot ?? ""}
            onClick={() => void verify()}
          >
            {isBusy ? "Verifying …" : "Verify"}
          </button>
          <button
            type="button"
            disabled={cannot !== null}
            title={cannot ?? ""}
            onClick={() => setOpen("label")}
          >
            Label
          </button>
          <button
            type="button"
            disabled={cannot !== null}
            title={cannot ?? ""}
            onClick={() => setOpen("fork")}
          >
            Start a job from it
          </button>
          <button
            type="button"
            class="danger"
            disabled={cannot !== null}
            title={cannot ?? ""}
            onClick={() => setOpen("dispose")}
          >
            Dispose
          </button>
        </div>
      }
    >
      <dl class="facts">
        <Fact name="Status">
          <State state={one.status} />
          {one.drained && " drained: time is over in it, start from it with --allow-drained"}
        </Fact>
        <Fact name="Job">{one.job ? <a href={link(["jobs", one.job])}>{name}</a> : name}</Fact>
        <Fact name="Checkpoint">
          #{one.checkpoint}, revision {one.graph_revision}
        </Fact>
        <Fact name="Size">{bytes(one.bytes)}</Fact>
        <Fact name="Parallelism">
          {one.parallelism} of {one.max_parallelism}
        </Fact>
        <Fact name="Descends from">{one.parent ?? "nothing: its job started without state"}</Fact>
        <Fact name="Id">
          <span class="mono small">{one.id}</span> <Copy text={one.id} />
        </Fact>
        <Fact name="Path">
          <span class="mono small wrap">{one.path}</span> <Copy text={one.path} />
        </Fact>
      </dl>
      {one.failure && (
        <div class="problem">
          <p>{one.failure}</p>
        </div>
      )}
      {verified && <Verified said={verified} />}
      <Command text={command("savepoints", one.id, "--verify")} />
      {isThere && (
        <details class="inset">
          <summary>State in this savepoint</summary>
          <StateView
            base={`/savepoints/${one.id}`}
            route={route}
            command={["state", "--savepoint", one.id]}
          />
        </details>
      )}
      {open === "label" && <Label savepoint={one} close={close} changed={changed} />}
      {open === "fork" && <Fork savepoint={one} close={close} />}
      {open === "dispose" && (
        <Confirm
          title={`Dispose of savepoint ${shortId(one.id)}`}
          verb="Delete its files"
          isDangerous
          onClose={close}
          command={command("savepoints", one.id, "--dispose")}
          act={async () => {
            await ask(`/savepoints/${one.id}`, { method: "DELETE" });
            changed();
          }}
        >
          <p>
            Its files are deleted, and no job can be started from it any more. This is refused while
            a job that was started from it still needs it.
          </p>
        </Confirm>
      )}
    </Section>
  );
}

function Label({
  savepoint,
  close,
  changed,
}: {
  savepoint: Savepoint;
  close: () => void;
  changed: () => void;
}) {
  const [name, setName] = useState("");
  const [text, setText] = useState("");
  const act = async (): Promise<void> => {
    await ask(`/savepoints/${savepoint.id}`, {
      method: "PATCH",
      json: { labels: { [name]: text || null } },
    });
    changed();
  };
  return (
    <Confirm
      title="Label"
      verb={text || !name ? "Label it" : "Remove the label"}
      isReady={name !== ""}
      act={act}
      onClose={close}
      command={command("savepoints", savepoint.id, "--label", `${name || "NAME"}=${text}`)}
    >
      <label class="field">
        Name{" "}
        <input
          value={name}
          list="labels"
          required
          onInput={(event) => setName(event.currentTarget.value)}
        />
      </label>
      <datalist id="labels">
        {Object.keys(savepoint.labels).map((one) => (
          <option key={one} value={one} />
        ))}
      </datalist>
      <label class="field">
        Text; empty removes the label{" "}
        <input value={text} onInput={(event) => setText(event.currentTarget.value)} />
      </label>
    </Confirm>
  );
}

function Fork({ savepoint, close }: { savepoint: Savepoint; close: () => void }) {
  const graph = useResource<GraphAnswer>(savepoint.job ? `/jobs/${savepoint.job}/graph` : null);
  const [edited, setEdited] = useState<string | null>(null);
  const [isAllowed, setAllowed] = useState(false);
  const [claims, setClaims] = useState(false);
  const text = edited ?? (graph.data ? toYaml(graph.data.graph) : "");
  const act = async (): Promise<void> => {
    const query = {
      savepoint: savepoint.id,
      allow_non_restored_state: isAllowed,
      restore_mode: claims ? "claim" : "no_claim",
    };
    const made = await ask<JobSubmitted>("/jobs", { method: "POST", yaml: text, query });
    location.hash = link(["jobs", made.jobid]);
  };
  return (
    <Confirm
      title="Start a job from this savepoint"
      verb="Start"
      wide
      isReady={text.trim() !== ""}
      act={act}
      onClose={close}
      command={command(
        "submit",
        "graph.yaml",
        "--from-savepoint",
        savepoint.id,
        isAllowed && "--allow-non-restored-state",
        claims && "--claim",
      )}
    >
      <p>Continue the job, if it has ended; or fork it while it runs, with another sink path.</p>
      <Editor text={text} onText={setEdited} label="Job graph" rows={16} />
      <label class="check">
        <input
          type="checkbox"
          checked={isAllowed}
          onChange={(event) => setAllowed(event.currentTarget.checked)}
        />
        Allow saved state that the graph has no vertex for to be dropped
      </label>
      <label class="check">
        <input
          type="checkbox"
          checked={claims}
          onChange={(event) => setClaims(event.currentTarget.checked)}
        />
        Claim: the savepoint is deleted after the job's first checkpoint
      </label>
    </Confirm>
  );
}
