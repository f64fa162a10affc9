// The last 72 hours of a job on one bar, and the marks that charts draw.

import { useMemo } from "preact/hooks";
import { type HistoryPage, serverNow } from "../api";
import { about, useNow, useResource } from "../hooks";
import {
  BAR_MS,
  grouped,
  kindOf,
  LETTERS,
  MARK_NAMES,
  MARKED,
  type Mark,
  type MarkKind,
  marksOf,
  summed,
} from "../logic/marks";
import { link } from "../logic/route";
import { Section } from "./basics";

const HOUR = 60 * 60_000;
const MOST = 1000;

/** The marks of a job since a time; `null` until they are known. */
export function useMarks(job: string, sinceMs: number): Mark[] | null {
  // whole hours: the same question for a while
  const since = new Date(Math.floor(sinceMs / HOUR) * HOUR).toISOString();
  const asked = MARKED.map((kind) => `kind=${kind}`).join("&");
  const found = useResource<HistoryPage>(
    `/jobs/${job}/history?${asked}&newest_first=true&limit=${MOST}&since=${since}`,
    { on: about(job) },
  );
  return useMemo(() => (found.data ? marksOf(found.data.items) : null), [found.data]);
}

export function HistoryBar({ job }: { job: string }) {
  const now = useNow();
  const marks = useMarks(job, serverNow() - BAR_MS);
  if (marks === null) return null;
  const from = now - BAR_MS;
  const shown = marks.filter((one) => one.at >= from);
  return (
    <Section title="Last 72 hours" aside={summed(shown)}>
      <ol class="bar72" aria-label="What changed how the job runs, in the last 72 hours">
        {grouped(shown, from, now).map((group) => {
          const kind = kindOf(group);
          const said = group.marks
            .map((one) => `${new Date(one.at).toLocaleString()}: ${one.label}`)
            .join("\n");
          const text = group.marks.length > 1 ? String(group.marks.length) : LETTERS[kind];
          return (
            <li key={group.marks[0]!.at} style={{ left: `${(group.place * 100).toFixed(2)}%` }}>
              <a
                class={`mark mark-${kind}`}
                href={link(["jobs", job, "history"])}
                title={said}
                aria-label={`${text}: ${said}`}
              >
                {text}
              </a>
            </li>
          );
        })}
      </ol>
      <div class="bar72-times" aria-hidden="true">
        <span>72 h ago</span>
        <span>48 h</span>
        <span>24 h</span>
        <span>now</span>
      </div>
      <Legend marks={shown} />
    </Section>
  );
}

function Legend({ marks }: { marks: readonly Mark[] }) {
  const kinds = (Object.keys(MARK_NAMES) as MarkKind[]).filter((kind) =>
    marks.some((one) => one.kind === kind),
  );
  if (!kinds.length) return null;
  return (
    <p class="hint mark-legend">
      {kinds.map((kind) => (
        <span key={kind}>
          <span class={`mark mark-${kind}`} aria-hidden="true">
            {LETTERS[kind]}
          </span>{" "}
          {MARK_NAMES[kind][0]}
        </span>
      ))}
    </p>
  );
}
