// Why attempts failed, the root cause first; and the whole history, on one timeline.

import { useState } from "preact/hooks";
import {
  ask,
  type ExceptionEntry,
  type HistoryItem,
  type HistoryPage,
  type JobExceptions,
  type Revisions,
} from "../api";
import { about, useResource } from "../hooks";
import { duration, plural, words } from "../logic/format";
import { type Entry, stories } from "../logic/timeline";
import { Clock, Copy, Loading, Problem, Section, When } from "../parts/basics";
import { Changes } from "../parts/changes";
import type { JobProps } from "./job";
import { SupportBundle } from "./supportBundle";

export function History({ id, graph }: JobProps) {
  const failures = useResource<JobExceptions>(`/jobs/${id}/exceptions`, { on: about(id) });
  const found = useResource<HistoryPage>(`/jobs/${id}/history`, {
    on: about(id),
    query: { newest_first: true, limit: 200 },
  });
  const [older, setOlder] = useState<{
    after: string;
    items: HistoryItem[];
    next: string | null;
  } | null>(null);
  if (found.error && !found.data) return <Problem error={found.error} retry={found.reload} />;
  if (!found.data) return <Loading what="the history" />;
  const entries = failures.data?.exceptionHistory.entries ?? [];
  const first = found.data;
  const more = older && older.after === first.next ? older : null;
  const items = [...first.items, ...(more?.items ?? [])];
  const next = more ? more.next : first.next;
  const load = async (): Promise<void> => {
    const page = await ask<HistoryPage>(`/jobs/${id}/history`, {
      query: { newest_first: true, limit: 200, cursor: next },
    });
    setOlder({
      after: first.next!,
      items: [...(more?.items ?? []), ...page.items],
      next: page.next,
    });
  };
  return (
    <>
      <SupportBundle id={id} name={graph.graph.name} />
      <Failures entries={entries} />
      <RevisionsOf id={id} />
      <Section title="History" aside="newest first">
        <ol class="stories">
          {stories(items).map((story, index) => (
            <li key={`${story.attempt}-${index}`}>
              <h3>
                {story.attempt === null ? "Before the first attempt" : `Attempt ${story.attempt}`}
              </h3>
              <ol class="timeline">
                {story.entries.map((entry) => (
                  <Line key={entry.id} entry={entry} />
                ))}
              </ol>
            </li>
          ))}
        </ol>
        {next && (
          <button type="button" onClick={() => void load()}>
            Show older entries
          </button>
        )}
      </Section>
    </>
  );
}

/** What each upgrade and rescale changed. */
function RevisionsOf({ id }: { id: string }) {
  const found = useResource<Revisions>(`/jobs/${id}/revisions`, {
    on: (event) => event.data.job === id && /^(upgrade|rescale)_/.test(event.kind),
  });
  if (found.error && !found.data) return <Problem error={found.error} retry={found.reload} />;
  if (!found.data) return <Loading what="revisions" />;
  const { items, revision, submitted_at } = found.data;
  return (
    <Section title="Revisions" aside={`now revision ${revision}`}>
      {items.map((one) => (
        <details key={one.operation} class="revision">
          <summary>
            <strong>
              {one.kind === "upgrade"
                ? `Revision ${one.revision.from} → ${one.revision.to}`
                : `Parallelism ${one.parallelism.from} → ${one.parallelism.to}`}
            </strong>
            <span class="muted">
              {one.kind}, <When at={one.at} />
              {one.kind === "upgrade" && `, ${plural(one.changes.length, "change")}`}
              {!one.needs_restart && ", without a restart"}
            </span>
          </summary>
          <ul class="plain plan">
            {one.parallelism.from !== one.parallelism.to && (
              <li>
                parallelism in force: <del>{one.parallelism.from}</del>{" "}
                <ins>{one.parallelism.to}</ins>
              </li>
            )}
            {one.kind === "upgrade" && <Changes changes={one.changes} />}
          </ul>
        </details>
      ))}
      <p class="hint">
        {items.length ? "Submitted" : "As it was submitted"} <When at={submitted_at} />.
      </p>
    </Section>
  );
}

function Failures({ entries }: { entries: ExceptionEntry[] }) {
  const [latest, ...others] = entries;
  if (!latest) {
    return (
      <Section title="Exceptions">
        <p class="hint">No attempt has failed.</p>
      </Section>
    );
  }
  return (
    <Section title="Exceptions" aside={plural(entries.length, "failed attempt")}>
      <Failure entry={latest} isOpen />
      {others.map((one) => (
        <Failure key={one["headgate-attempt"]} entry={one} />
      ))}
    </Section>
  );
}

function Failure({ entry, isOpen = false }: { entry: ExceptionEntry; isOpen?: boolean }) {
  return (
    <details class="failure" open={isOpen}>
      <summary>
        <span class="state state-failed">
          <span class="dot" aria-hidden="true" />
          {entry.exceptionName.replaceAll("_", " ")}
        </span>
        <strong>{entry["headgate-message"]}</strong>
        <span class="muted nowrap">
          attempt {entry["headgate-attempt"]}
          {entry.taskName ? `, region ${entry.taskName}` : ""}
          {entry.failureLabels.restartable === "true" ? ", restartable" : ""},{" "}
          <When at={entry.timestamp} />
        </span>
      </summary>
      <div class="stack">
        <Copy text={entry.stacktrace} label="Copy the stack" />
        <pre tabIndex={0}>{entry.stacktrace}</pre>
      </div>
    </details>
  );
}

/** Some causes are names of events, such as RunnerRegistered. */
function plainly(cause: string): string {
  return /^([A-Z][a-z]+){2,}$/.test(cause)
    ? cause.replace(/(?!^)([A-Z])/g, " $1").toLowerCase()
    : cause;
}

function Line({ entry }: { entry: Entry }) {
  const phases = entry.detail.phases_ms as Record<string, number> | undefined;
  return (
    <li class={`event event-${entry.weight}`}>
      <Clock at={entry.at} />
      <span class="event-kind">{words(entry.kind)}</span>
      <span class="event-cause">
        {plainly(entry.cause)}
        {entry.checkpoint !== null && ` (checkpoint ${entry.checkpoint})`}
        {phases && (
          <span class="muted">
            {" "}
            ·{" "}
            {Object.entries(phases)
              .map(([name, ms]) => `${words(name).toLowerCase()} ${duration(ms)}`)
              .join(", ")}
          </span>
        )}
      </span>
      <span class="muted event-actor">{entry.actor_name ?? entry.actor}</span>
    </li>
  );
}
