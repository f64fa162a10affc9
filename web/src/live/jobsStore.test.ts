import { describe, expect, test } from "vitest";
import type { JobSummary, SummaryPage } from "../api";
import { JobsStore, MOST_ASKED } from "./jobsStore";

function aJob(id: string, changes: Partial<JobSummary> = {}): JobSummary {
  return {
    id,
    name: `job ${id}`,
    mode: "streaming",
    state: "running",
    reason: "all queries are running",
    since: "2026-11-17T10:00:00Z",
    submitted_at: "2026-11-17T10:00:00Z",
    ended_at: null,
    running_since: "2026-11-17T10:00:00Z",
    attempt: 1,
    restarts: 0,
    parallelism: 1,
    failed_checkpoints: 0,
    restored_from: null,
    traffic: null,
    lag: null,
    last_checkpoint: null,
    recent: [],
    meta: { owner: null, description: null, runbook: null, labels: {} },
    ...changes,
  };
}

function aPage(items: JobSummary[], changes: Partial<SummaryPage> = {}): SummaryPage {
  return { items, next: null, counts: {}, ...changes };
}

function loaded(...items: JobSummary[]): JobsStore {
  const store = new JobsStore();
  store.pageCame(aPage(items), store.pageAsked());
  return store;
}

function progress(
  store: JobsStore,
  job: string,
  seconds: number,
  rows: number,
  state = "running",
): void {
  const at = new Date(Date.UTC(2026, 10, 17, 11) + seconds * 1000).toISOString();
  const line = {
    job,
    state,
    attempt: 2,
    at,
    input_rows: rows,
    output_rows: 0,
    is_idle: false,
    lag: 7,
  };
  store.see({ kind: "progress_summary", data: { jobs: [line] } });
}

describe("a store that has nothing", () => {
  test("wants the list, and no rows are no list", () => {
    const store = new JobsStore();
    expect(store.wants).toEqual({ page: true, jobs: [] });
    expect(store.isLoaded).toBe(false);
    store.pageCame(aPage([]), store.pageAsked());
    expect(store.isLoaded).toBe(true);
    expect(store.wants.page).toBe(false);
  });
  test("wants the list again when it could not be had", () => {
    const store = new JobsStore();
    store.pageAsked();
    store.pageFailed();
    expect(store.wants.page).toBe(true);
  });
});

describe("progress", () => {
  test("changes state, lag and attempt of its row, and nothing else", () => {
    const store = loaded(aJob("a", { reason: "as it was" }), aJob("b"));
    progress(store, "a", 0, 100, "stalled");
    const [a, b] = store.rows;
    expect(a).toMatchObject({ id: "a", state: "stalled", lag: 7, attempt: 2, reason: "as it was" });
    expect(b).toEqual(aJob("b"));
  });
  test("makes a rate from counts, and a bar for each ten seconds", () => {
    const store = loaded(aJob("a", { recent: [1, 2] }));
    for (let s = 0; s <= 20; s += 1) progress(store, "a", s, s * 50);
    const [a] = store.rows;
    expect(store.rateOf(a!)).toBe(50);
    expect(store.sparksOf(a!)).toEqual([1, 2, 50, 50]);
  });
  test("of a job that is not in the list asks for it, and it comes first", () => {
    const store = loaded(aJob("a"));
    progress(store, "new", 0, 10);
    expect(store.wants.jobs).toEqual(["new"]);
    store.jobsAsked(["new"]);
    store.jobsCame([aJob("new")]);
    expect(store.rows.map((one) => one.id)).toEqual(["new", "a"]);
    expect(store.wants.jobs).toEqual([]);
  });
});

describe("an event", () => {
  test("asks for the job that it is about", () => {
    const store = loaded(aJob("a"), aJob("b"));
    store.see({ kind: "job_failed", data: { job: "b" } });
    store.see({ kind: "checkpoint_triggered", data: { job: "a" } });
    store.see({ kind: "leader_changed", data: {} });
    expect(store.wants.jobs).toEqual(["b"]);
    store.jobsAsked(["b"]);
    store.jobsCame([aJob("b", { state: "failed" })]);
    expect(store.rows.map((one) => one.state)).toEqual(["running", "failed"]);
    expect(store.counts).toEqual({ running: 1, failed: 1 });
  });
  test("of each of many jobs is answered, some at a time", () => {
    const store = loaded();
    const ids = Array.from({ length: MOST_ASKED + 5 }, (_, n) => `job${n}`);
    for (const job of ids) store.see({ kind: "job_running", data: { job } });
    const first = store.wants.jobs;
    expect(first).toHaveLength(MOST_ASKED);
    store.jobsAsked(first);
    expect([...first, ...store.wants.jobs]).toEqual(ids);
  });
  test("is not forgotten when the answer fails, nor when another comes meanwhile", () => {
    const store = loaded(aJob("a"));
    store.see({ kind: "job_failed", data: { job: "a" } });
    store.jobsAsked(["a"]);
    store.jobsFailed(["a"]);
    expect(store.wants.jobs).toEqual(["a"]);
    store.jobsAsked(["a"]);
    store.see({ kind: "job_restarting", data: { job: "a" } });
    store.jobsCame([aJob("a", { state: "failed" })]);
    expect(store.wants.jobs).toEqual(["a"]);
  });
});

describe("a gap in the events", () => {
  test("wants the whole list, and shows what it has until it is there", () => {
    const store = loaded(aJob("a"), aJob("gone"));
    store.missedEvents();
    expect(store.wants.page).toBe(true);
    expect(store.rows).toHaveLength(2);
    store.pageCame(aPage([aJob("a", { state: "failed" })]), store.pageAsked());
    expect(store.wants.page).toBe(false);
    expect(store.rows).toEqual([aJob("a", { state: "failed" })]);
  });
  test("what came while the list was under way is newer than the list", () => {
    const store = loaded(aJob("a"), aJob("b"));
    progress(store, "b", 0, 10, "stalled");
    const asked = store.pageAsked();
    store.jobsCame([aJob("a", { state: "cancelled" })]);
    store.pageCame(aPage([aJob("a"), aJob("b", { restarts: 3 })]), asked);
    expect(store.rows.map((one) => one.state)).toEqual(["cancelled", "running"]);
    store.pageCame(aPage([aJob("a"), aJob("b")]), store.pageAsked());
    expect(store.rows.map((one) => one.state)).toEqual(["running", "running"]);
  });
  test("progress while the list is under way does not bring the rest of an old row back", () => {
    const store = loaded(aJob("a", { restarts: 0 }));
    const asked = store.pageAsked();
    progress(store, "a", 0, 10, "degraded");
    store.pageCame(aPage([aJob("a", { restarts: 4 })]), asked);
    expect(store.rows[0]).toMatchObject({ state: "degraded", restarts: 4 });
  });
});

describe("figures", () => {
  test("a job that has ended has neither a rate nor bars", () => {
    const store = loaded(aJob("a", { state: "finished", recent: [5] }));
    expect(store.rateOf(store.rows[0]!)).toBeNull();
    expect(store.sparksOf(store.rows[0]!)).toEqual([]);
  });
  test("counts are the server's where it has more jobs than the list", () => {
    const store = new JobsStore();
    const page = aPage([aJob("a")], { next: "more", counts: { running: 9, failed: 3 } });
    store.pageCame(page, store.pageAsked());
    expect(store.hasMore).toBe(true);
    expect(store.counts).toEqual({ running: 9, failed: 3 });
  });
});
