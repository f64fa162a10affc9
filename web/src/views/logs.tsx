// The log of a runner: shows its end, follows it as it grows; the server searches.

import { useEffect, useRef, useState } from "preact/hooks";
import { ApiError, send } from "../api";
import { setQuery } from "../hooks";
import { command } from "../logic/commands";
import { grouped, shortId } from "../logic/format";
import type { Route } from "../logic/route";
import { Command, Problem, Section } from "../parts/basics";

const TAIL = 1000;
const MOST_LINES = 5000;

export function JobLog({ job, attempt, route }: { job: string; attempt: number; route: Route }) {
  const chosen = route.query.attempt ? Number(route.query.attempt) : attempt;
  const follow = route.query.follow !== "no";
  const search = route.query.search ?? "";
  const { lines, error, isOver } = useLog(job, chosen, follow, search);
  const box = useRef<HTMLPreElement>(null);
  const atEnd = useRef(true);
  useEffect(() => {
    const pane = box.current;
    if (pane && atEnd.current) pane.scrollTop = pane.scrollHeight;
  }, [lines]);
  return (
    <Section
      title={`Log of attempt ${chosen}`}
      aside={
        <>
          <input
            type="search"
            class="search"
            placeholder="Lines with …"
            aria-label="Search the log"
            value={search}
            onChange={(event) =>
              setQuery(route, { search: event.currentTarget.value || undefined })
            }
          />
          <label>
            Attempt{" "}
            <select
              value={chosen}
              onChange={(event) => setQuery(route, { attempt: event.currentTarget.value })}
            >
              {Array.from({ length: attempt }, (_, n) => attempt - n).map((n) => (
                <option key={n} value={n}>
                  {n}
                </option>
              ))}
            </select>
          </label>
          <label class="check">
            <input
              type="checkbox"
              checked={follow}
              onChange={(event) =>
                setQuery(route, { follow: event.currentTarget.checked ? undefined : "no" })
              }
            />
            Follow
          </label>
        </>
      }
    >
      {error ? (
        <Problem error={error} />
      ) : (
        <pre
          ref={box}
          class="log"
          role="region"
          tabIndex={0}
          aria-label={`Log of attempt ${chosen}`}
          onScroll={(event) => {
            const pane = event.currentTarget;
            atEnd.current = pane.scrollHeight - pane.scrollTop - pane.clientHeight < 40;
          }}
        >
          {lines.length
            ? lines.join("\n")
            : search
              ? "No line contains this text."
              : "The log is empty."}
        </pre>
      )}
      <p class="hint">
        {grouped(lines.length)} lines{search ? ` with “${search}”` : ""}
        {isOver ? (follow ? "; the runner has exited" : "") : "; following"}
      </p>
      <Command text={command("logs", shortId(job), follow && "-f")} />
    </Section>
  );
}

function useLog(
  job: string,
  attempt: number,
  follow: boolean,
  search: string,
): { lines: string[]; error: ApiError | null; isOver: boolean } {
  const [lines, setLines] = useState<string[]>([]);
  const [error, setError] = useState<ApiError | null>(null);
  const [isOver, setOver] = useState(false);
  useEffect(() => {
    const aborter = new AbortController();
    setLines([]);
    setError(null);
    setOver(false);
    const read = async (): Promise<void> => {
      const query = { attempt, follow, search, tail: TAIL };
      const answer = await send(`/jobs/${job}/logs`, { query, signal: aborter.signal });
      const reader = answer.body!.pipeThrough(new TextDecoderStream()).getReader();
      let kept: string[] = [];
      let rest = "";
      for (;;) {
        const { done, value } = await reader.read();
        if (done) break;
        const fresh = (rest + value).split("\n");
        rest = fresh.pop() ?? "";
        kept = [...kept, ...fresh].slice(-MOST_LINES);
        setLines(kept);
      }
      setOver(true);
    };
    read().catch((caught: unknown) => {
      if (aborter.signal.aborted) return;
      if (caught instanceof ApiError) setError(caught);
      else setOver(true); // the connection was lost: lines that were read stay
    });
    return () => aborter.abort();
  }, [job, attempt, follow, search]);
  return { lines, error, isOver };
}
