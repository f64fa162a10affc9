// A job graph as YAML, checked by the server as the user types, with its plan.

import { useEffect, useRef, useState } from "preact/hooks";
import { type ApiError, ask, type DryRun, type JobSubmitted } from "../api";
import { useBar } from "../hooks";
import { command } from "../logic/commands";
import { plural } from "../logic/format";
import { link, type Route } from "../logic/route";
import { Command, Faults, Problem } from "../parts/basics";
import { Editor } from "../parts/editor";
import { Graph } from "../parts/graph";

const EXAMPLE = `# Revenue per auction in windows of five seconds, over made-up bids.
name: quickstart
parallelism: 2 # subtasks of the window
checkpointing: {interval: 5s, timeout: 1m, retained: 3}
vertices:
  - id: bids
    op: source
    connector: generator
    rows_per_second: 200
    columns: {auction: "id % 20", price: "(id * 104729) % 1000 + 1", ts: "ts"}
    watermark: {column: ts, delay: 2s}
  - {id: big, op: filter, inputs: [bids], where: "price > 100"}
  - id: revenue
    op: window
    inputs: [big]
    key: [auction]
    time: ts
    window: {tumbling: 5s}
    aggregate: {bids: "count(*)", revenue: "sum(price)", top: "max(price)"}
  - {id: out, op: sink, inputs: [revenue], connector: files, format: parquet, path: out/revenue}
`;
const PAUSE_MS = 300;
const DRAFT = "headgate.draft";

export function Submit({ route }: { route: Route }) {
  const [text, setText] = useState(() => sessionStorage.getItem(DRAFT) ?? EXAMPLE);
  const [parallelism, setParallelism] = useState("");
  const [from, setFrom] = useState(route.query.savepoint ?? "");
  const [isAllowed, setAllowed] = useState(false);
  const [error, setError] = useState<ApiError | null>(null);
  const [isBusy, setBusy] = useState(false);
  const bar = useBar("operator");
  const checked = useCheck(text, parallelism);
  // one key for each graph: a second click, or a retry after a lost answer, makes no second job
  const key = useRef({ of: "", key: "" });
  const submit = async (event: Event): Promise<void> => {
    event.preventDefault();
    setBusy(true);
    setError(null);
    const of = JSON.stringify([text, parallelism, from, isAllowed]);
    if (key.current.of !== of) key.current = { of, key: randomKey() };
    try {
      const query = {
        parallelism,
        savepoint: from,
        allow_non_restored_state: isAllowed || undefined,
      };
      const made = await ask<JobSubmitted>("/jobs", {
        method: "POST",
        yaml: text,
        query,
        headers: { "Idempotency-Key": key.current.key },
      });
      sessionStorage.removeItem(DRAFT);
      location.hash = link(["jobs", made.jobid]);
    } catch (caught) {
      setError(caught as ApiError);
      setBusy(false);
    }
  };
  return (
    <>
      <div class="page-head">
        <h1>Submit a job</h1>
        <button type="button" onClick={() => setText(EXAMPLE)}>
          Start from the quickstart
        </button>
      </div>
      <form class="submit" onSubmit={(event) => void submit(event)}>
        <div>
          <Editor
            text={text}
            label="Job graph as YAML"
            rows={28}
            onText={(typed) => {
              setText(typed);
              sessionStorage.setItem(DRAFT, typed);
            }}
          />
          <div class="options">
            <label class="field">
              Parallelism, instead of the graph's{" "}
              <input
                inputMode="numeric"
                pattern="[0-9]*"
                value={parallelism}
                onInput={(event) => setParallelism(event.currentTarget.value)}
              />
            </label>
            <label class="field">
              Start from savepoint: id or path{" "}
              <input
                class="mono"
                value={from}
                onInput={(event) => setFrom(event.currentTarget.value)}
              />
            </label>
            <label class="check">
              <input
                type="checkbox"
                checked={isAllowed}
                onChange={(event) => setAllowed(event.currentTarget.checked)}
              />
              Allow saved state without a vertex to be dropped
            </label>
          </div>
        </div>
        <div class="verdict" aria-live="polite">
          <Verdict checked={checked} />
          {error && <Problem error={error} />}
          <div class="actions">
            <button
              type="submit"
              class="primary"
              disabled={bar !== null || isBusy || checked.isOld || !checked.answer?.plan}
              title={bar ?? ""}
            >
              {isBusy ? "Submitting …" : "Submit"}
            </button>
          </div>
          <Command
            text={command(
              "submit",
              "graph.yaml",
              ...(parallelism ? ["--parallelism", parallelism] : []),
              ...(from ? ["--from-savepoint", from] : []),
            )}
          />
        </div>
      </form>
    </>
  );
}

interface Checked {
  answer: DryRun | null;
  error: ApiError | null;
  /** The text has changed since. */
  isOld: boolean;
}

/** The server's check of the graph, some moments after the last keystroke. */
function useCheck(text: string, parallelism: string): Checked {
  const [found, setFound] = useState<Checked & { of: string }>({
    of: "",
    answer: null,
    error: null,
    isOld: true,
  });
  const of = JSON.stringify([text, parallelism]);
  useEffect(() => {
    const aborter = new AbortController();
    const timer = setTimeout(() => {
      ask<DryRun>("/jobs", {
        method: "POST",
        yaml: text,
        query: { dry_run: true, parallelism },
        signal: aborter.signal,
      })
        .then((answer) => setFound({ of, answer, error: null, isOld: false }))
        .catch((error: unknown) => {
          if (!aborter.signal.aborted)
            setFound({ of, answer: null, error: error as ApiError, isOld: false });
        });
    }, PAUSE_MS);
    return () => {
      clearTimeout(timer);
      aborter.abort();
    };
  }, [of]);
  return { ...found, isOld: found.of !== of };
}

function Verdict({ checked }: { checked: Checked }) {
  const { answer, error } = checked;
  if (!answer && !error) return <p class="hint">Checking …</p>;
  const faults = answer?.faults ?? [];
  return (
    <div class={checked.isOld ? "is-old" : ""}>
      {error && <Problem error={error} />}
      {faults.length > 0 && (
        <div class="problem" role="alert">
          <p>{plural(faults.length, "fault")}:</p>
          <Faults faults={faults} />
        </div>
      )}
      {answer?.plan && (
        <>
          <p class="good">
            The graph is sound. It would run as {plural(answer.plan.nodes.length, "task")}:
          </p>
          <Graph plan={answer.plan} />
        </>
      )}
    </div>
  );
}

function randomKey(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (one) =>
    one.toString(16).padStart(2, "0"),
  ).join("");
}
