// Operations of a job: the current operation with its phases, the last one with its outcome.

import { useState } from "preact/hooks";
import type { Operation } from "../api";
import { duration, plural, words } from "../logic/format";
import { link } from "../logic/route";
import { Id, Lasting, When } from "../parts/basics";

const PHASES: Record<string, string[]> = {
  savepoint: ["savepoint"],
  stop: ["savepoint", "stop"],
  cancel: ["savepoint", "stop"],
  rescale: ["savepoint", "stop", "repartition", "start", "first_batch"],
  upgrade: ["savepoint", "stop", "restore", "start", "first_checkpoint"],
};

export function Operations({
  job,
  operations,
}: {
  job: string;
  operations: Operation[];
  isLive: boolean;
}) {
  const [dismissed, setDismissed] = useState<string | null>(null);
  const [latest] = operations;
  if (!latest || latest.id === dismissed) return null;
  return (
    <section
      class={`operation operation-${latest.status}`}
      aria-live="polite"
      aria-label="Last operation"
    >
      <div class="operation-line">
        <strong>{words(latest.kind)}</strong>
        <span class="operation-status">{latest.status.replaceAll("_", " ")}</span>
        <span class="muted">
          {latest.status === "in_progress" ? (
            <Lasting from={latest.created_at} />
          ) : (
            <When at={latest.ended_at} />
          )}
        </span>
        <Outcome operation={latest} job={job} />
        {latest.status !== "in_progress" && (
          <button
            type="button"
            class="quiet"
            aria-label="Hide this outcome"
            onClick={() => setDismissed(latest.id)}
          >
            ✕
          </button>
        )}
      </div>
      <ol class="phases">
        {phasesOf(latest).map((name) => (
          <Phase key={name} name={name} operation={latest} />
        ))}
      </ol>
      {latest.error && <p class="operation-error">{latest.error}</p>}
    </section>
  );
}

/** An upgrade that changes only `meta` has one phase, and stops nothing. */
function phasesOf(operation: Operation): string[] {
  const expected = PHASES[operation.kind] ?? [];
  const begun = operation.phases.map((one) => one.name);
  return begun.every((one) => expected.includes(one)) ? expected : begun;
}

function Phase({ name, operation }: { name: string; operation: Operation }) {
  const phase = operation.phases.find((one) => one.name === name);
  const isOver = operation.status !== "in_progress";
  const state = !phase ? "waiting" : phase.ended_at ? "done" : isOver ? "broken" : "running";
  return (
    <li class={`phase phase-${state}`} title={phase?.detail ?? ""}>
      <span>{words(name)}</span>{" "}
      <span class="phase-time">
        {!phase ? (
          ""
        ) : phase.ended_at ? (
          duration(Date.parse(phase.ended_at) - Date.parse(phase.started_at))
        ) : isOver ? (
          "broken off"
        ) : (
          <Lasting from={phase.started_at} />
        )}
      </span>
    </li>
  );
}

function Outcome({ operation, job }: { operation: Operation; job: string }) {
  const result = operation.result;
  if (!result || operation.status === "in_progress") return null;
  const change = "moves" in result ? result : null;
  const changed = change?.parallelism;
  const revision = change?.graph_revision;
  return (
    <span class="outcome">
      {result.savepoint === null ? (
        "only meta changed: the job ran on"
      ) : (
        <>
          savepoint <Id id={result.savepoint} href={link(["savepoints", result.savepoint])} />
        </>
      )}
      {changed && changed.from !== changed.to && (
        <>
          {" "}
          · {changed.from} → {changed.to} subtasks ·{" "}
          <a href={link(["jobs", job, "key-groups"])}>
            {plural(change?.key_groups_moved ?? 0, "key group")} moved
          </a>
        </>
      )}
      {revision && revision.from !== revision.to && ` · revision ${revision.from} → ${revision.to}`}
    </span>
  );
}
