// The actions on a job. Each asks for confirmation, and shows the equivalent command.

import { useEffect, useState } from "preact/hooks";
import {
  ApiError,
  ask,
  type CheckpointTriggered,
  type GraphAnswer,
  type JobStatus,
  type Operation,
  type UpgradePlan,
} from "../api";
import { useBar } from "../hooks";
import { command } from "../logic/commands";
import { shortId } from "../logic/format";
import { isLive } from "../logic/jobsTable";
import { divisors } from "../logic/keyGroups";
import { toYaml } from "../logic/yaml";
import { Problem } from "../parts/basics";
import { Changes } from "../parts/changes";
import { Confirm } from "../parts/dialog";
import { Editor } from "../parts/editor";

type Name =
  | "checkpoint"
  | "savepoint"
  | "rescale"
  | "upgrade"
  | "pause"
  | "resume"
  | "stop"
  | "cancel";

export function Actions({
  id,
  status,
  graph,
  operations,
}: {
  id: string;
  status: JobStatus;
  graph: GraphAnswer;
  operations: Operation[];
}) {
  const [open, setOpen] = useState<Name | null>(null);
  const isRunning = ["running", "stalled", "degraded"].includes(status.state);
  const isStreaming = (graph.graph.mode ?? "streaming") === "streaming";
  const underWay = operations.find(
    (one) => one.status === "in_progress" && one.kind !== "savepoint",
  );
  const bar = useBar("operator");
  const why = (needsRunning: boolean): string | null => {
    if (bar) return bar;
    if (!isLive(status.state)) return `the job is ${status.state}`;
    if (status.state === "cancelling") return "the job is being cancelled";
    if (needsRunning && !isStreaming) return "a batch job has no checkpoints";
    if (needsRunning && !isRunning) return `the job is ${status.state}: this needs a running job`;
    return needsRunning && underWay ? `a ${underWay.kind} is under way` : null;
  };
  const isResting = ["pausing", "paused"].includes(status.state);
  const whyNotPause =
    why(false) ??
    (isStreaming ? null : "a batch job has no boundary before its end") ??
    (underWay ? `a ${underWay.kind} is under way` : null);
  const close = (): void => setOpen(null);
  const props = { id, graph, close };
  return (
    <div class="actions" role="group" aria-label="Actions">
      <Action name="Checkpoint" why={why(true)} act={() => setOpen("checkpoint")} />
      <Action name="Savepoint" why={why(true)} act={() => setOpen("savepoint")} />
      <Action name="Rescale" why={why(true)} act={() => setOpen("rescale")} />
      <Action name="Upgrade" why={why(true)} act={() => setOpen("upgrade")} />
      {isResting ? (
        <Action name="Resume" why={why(false)} act={() => setOpen("resume")} />
      ) : (
        <Action name="Pause" why={whyNotPause} act={() => setOpen("pause")} />
      )}
      <Action name="Stop" why={why(true)} act={() => setOpen("stop")} />
      <Action name="Cancel" why={why(false)} act={() => setOpen("cancel")} isDangerous />
      {open === "checkpoint" && <TakeCheckpoint {...props} />}
      {open === "savepoint" && <TakeSavepoint {...props} />}
      {open === "rescale" && <Rescale {...props} />}
      {open === "upgrade" && <Upgrade {...props} />}
      {open === "pause" && <Pause {...props} />}
      {open === "resume" && <Resume {...props} />}
      {open === "stop" && <Stop {...props} />}
      {open === "cancel" && <Cancel {...props} />}
    </div>
  );
}

function Action({
  name,
  why,
  act,
  isDangerous = false,
}: {
  name: string;
  why: string | null;
  act: () => void;
  isDangerous?: boolean;
}) {
  return (
    <button
      type="button"
      class={isDangerous ? "danger" : ""}
      disabled={why !== null}
      title={why ?? ""}
      onClick={act}
    >
      {name}
    </button>
  );
}

interface ActionProps {
  id: string;
  graph: GraphAnswer;
  close: () => void;
}

function TakeCheckpoint({ id, close }: ActionProps) {
  const act = async (): Promise<void> => {
    const taken = await ask<CheckpointTriggered>(`/jobs/${id}/checkpoints`, { method: "POST" });
    location.hash = `#/jobs/${id}/checkpoints?n=${taken.number}`;
  };
  return (
    <Confirm
      title="Take a checkpoint now"
      verb="Take it"
      act={act}
      command={command("checkpoint", shortId(id), "--wait")}
      onClose={close}
    >
      <p>In addition to the periodic checkpoints. The job's retention applies to it, too.</p>
    </Confirm>
  );
}

function TakeSavepoint({ id, close }: ActionProps) {
  const act = async (): Promise<void> => {
    await ask(`/jobs/${id}/savepoints`, { method: "POST", json: {} });
  };
  return (
    <Confirm
      title="Take a savepoint"
      verb="Take it"
      act={act}
      command={command("savepoint", shortId(id))}
      onClose={close}
    >
      <p>
        A snapshot in a directory of its own, kept until you dispose of it. The job keeps running.
      </p>
    </Confirm>
  );
}

function Pause({ id, close }: ActionProps) {
  const act = async (): Promise<void> => {
    await ask(`/jobs/${id}/pause`, { method: "POST" });
  };
  return (
    <Confirm
      title="Pause the job"
      verb="Pause it"
      act={act}
      command={command("pause", shortId(id))}
      onClose={close}
    >
      <p>
        The batch under way is finished; then nothing runs until the job is resumed. Its state is
        kept, and its runner for an hour: it continues a second or two after you resume it.
      </p>
    </Confirm>
  );
}

function Resume({ id, close }: ActionProps) {
  const act = async (): Promise<void> => {
    await ask(`/jobs/${id}/resume`, { method: "POST" });
  };
  return (
    <Confirm
      title="Resume the job"
      verb="Resume it"
      act={act}
      command={command("resume", shortId(id))}
      onClose={close}
    >
      <p>The job continues from its last batch.</p>
    </Confirm>
  );
}

function Rescale({ id, graph, close }: ActionProps) {
  const groups = graph.graph.max_parallelism ?? 720;
  const offered = divisors(groups).filter((one) => one !== graph.parallelism);
  const next = offered.find((one) => one > graph.parallelism) ?? offered.at(-1) ?? 1;
  const [wanted, setWanted] = useState(next);
  const act = async (): Promise<void> => {
    await ask(`/jobs/${id}/rescaling`, { method: "PATCH", query: { parallelism: wanted } });
  };
  return (
    <Confirm
      title="Rescale"
      verb={`Rescale to ${wanted}`}
      act={act}
      command={command("rescale", shortId(id), wanted)}
      onClose={close}
    >
      <p>
        The job stops with a savepoint, its keyed state is repartitioned, and it continues. If
        anything fails, it continues from that savepoint with the old parallelism.
      </p>
      <label class="field">
        Parallelism: now {graph.parallelism}; choose a divisor of the {groups} key groups
        <select value={wanted} onChange={(event) => setWanted(Number(event.currentTarget.value))}>
          {offered.map((one) => (
            <option key={one} value={one}>
              {one}
            </option>
          ))}
        </select>
      </label>
    </Confirm>
  );
}

function Stop({ id, close }: ActionProps) {
  const [drain, setDrain] = useState(false);
  const act = async (): Promise<void> => {
    await ask(`/jobs/${id}/stop`, { method: "POST", json: { drain } });
  };
  return (
    <Confirm
      title="Stop with a savepoint"
      verb="Stop the job"
      isDangerous
      act={act}
      command={command("stop", shortId(id), drain && "--drain")}
      onClose={close}
    >
      <p>
        The job stops after its current batch, with a savepoint. A job started from the savepoint
        continues exactly there.
      </p>
      <label class="check">
        <input
          type="checkbox"
          checked={drain}
          onChange={(event) => setDrain(event.currentTarget.checked)}
        />
        Drain: first emit every open window, as at the end of the input
      </label>
    </Confirm>
  );
}

function Cancel({ id, graph, close }: ActionProps) {
  const act = async (): Promise<void> => {
    await ask(`/jobs/${id}`, { method: "PATCH", query: { mode: "cancel" } });
  };
  return (
    <Confirm
      title={`Cancel ${graph.graph.name}`}
      verb="Cancel the job"
      isDangerous
      act={act}
      command={command("cancel", shortId(id), "--wait")}
      onClose={close}
    >
      <p>
        The job ends after its current batch, without a savepoint. Retained checkpoints are kept.
      </p>
    </Confirm>
  );
}

function Upgrade({ id, graph, close }: ActionProps) {
  const [text, setText] = useState(() => toYaml(graph.graph));
  const [isAllowed, setAllowed] = useState(false);
  const [plan, setPlan] = useState<{ for: string; plan: UpgradePlan } | null>(null);
  const [error, setError] = useState<ApiError | null>(null);
  const [isAsking, setAsking] = useState(false);
  const query = { allow_non_restored_state: isAllowed };
  const key = JSON.stringify([text, isAllowed]);
  useEffect(() => setError(null), [key]);
  const show = async (): Promise<void> => {
    setAsking(true);
    try {
      const made = await ask<UpgradePlan>(`/jobs/${id}/upgrade`, {
        method: "POST",
        yaml: text,
        query: { ...query, dry_run: true },
      });
      setPlan({ for: key, plan: made });
      setError(null);
    } catch (caught) {
      setError(caught instanceof ApiError ? caught : new ApiError(String(caught), 0));
    }
    setAsking(false);
  };
  const act = async (): Promise<void> => {
    await ask(`/jobs/${id}/upgrade`, { method: "POST", yaml: text, query });
  };
  const shown = plan?.for === key ? plan.plan : null;
  return (
    <Confirm
      title="Upgrade to another graph"
      verb="Upgrade"
      wide
      isReady={shown?.verdict === "compatible"}
      act={act}
      command={command(
        "upgrade",
        shortId(id),
        "new.yaml",
        isAllowed && "--allow-non-restored-state",
      )}
      onClose={close}
    >
      <p>
        Change the graph, check the plan, then upgrade: the job stops with a savepoint and starts
        with the new graph. If that fails, it goes back to the old graph.
      </p>
      <Editor text={text} onText={setText} label="Job graph" />
      <label class="check">
        <input
          type="checkbox"
          checked={isAllowed}
          onChange={(event) => setAllowed(event.currentTarget.checked)}
        />
        Allow saved state that the new graph has no vertex for to be dropped
      </label>
      <div>
        <button type="button" disabled={isAsking} onClick={() => void show()}>
          {isAsking ? "Asking Spark with a copy of the newest checkpoint …" : "Show the plan"}
        </button>
      </div>
      {error && <Problem error={error} />}
      {shown && <PlanShown plan={shown} />}
    </Confirm>
  );
}

function PlanShown({ plan }: { plan: UpgradePlan }) {
  return (
    <div class={`plan verdict-${plan.verdict}`} role="status">
      <p>
        <strong>
          {
            {
              compatible: "Compatible",
              needs_flag: "Needs your consent",
              impossible: "Impossible",
            }[plan.verdict]
          }
        </strong>
      </p>
      <ul class="plain">
        {plan.reasons.map((one) => (
          <li key={one}>{one}</li>
        ))}
        <Changes changes={plan.changes} />
        {!plan.needs_restart && <li>Only meta changes: the job runs on, nothing stops.</li>}
        {(plan.needs_restart ? plan.state : []).map((one, index) => (
          <li key={index}>
            {one.vertex ? `state of ${one.vertex}` : `offsets of region ${one.region}`}:{" "}
            <b>{one.fate}</b>
          </li>
        ))}
        {plan.spark.map((one) => (
          <li key={one.region}>
            Spark, region {one.region}: {one.accepted ? "accepts the state" : one.error}
          </li>
        ))}
      </ul>
    </div>
  );
}
