// The live list of jobs: pages, events and answers in, rows out. No clock, no network, no DOM:
// the feed fetches what `wants` says and reports the outcome.

import type { JobSummary, ProgressLine, SummaryPage } from "../api";
import { isLive } from "../logic/jobsTable";
import { Meters } from "../logic/rates";
import type { LiveEvent } from "./stream";

/** How many jobs are fetched by id at a time. */
export const MOST_ASKED = 50;
const SPARK_BINS = 30;
const BIN_MS = 10_000;

export interface Wants {
  /** The whole list: there is none yet, or events were missed. */
  page: boolean;
  /** Jobs that had an event; at most `MOST_ASKED`. */
  jobs: string[];
}

/** The fields of a job that a progress line updates; the rest of its row stays. */
type Patch = Pick<JobSummary, "state" | "lag" | "attempt">;

interface Spark {
  bin: number;
  values: number[];
}

export class JobsStore {
  private page: SummaryPage | null = null;
  private isPageWanted = true;
  private readonly wanted = new Set<string>();
  private fetched = new Map<string, JobSummary>();
  private readonly renewed = new Map<string, { job: JobSummary; at: number }>();
  private readonly patches = new Map<string, { patch: Patch; at: number }>();
  private readonly meters = new Meters(BIN_MS);
  private readonly sparks = new Map<string, Spark>();
  private rowsNow: JobSummary[] | null = null;
  /** Counts what came in, so that answers to earlier requests are known to be older. */
  private now = 0;

  get wants(): Wants {
    return { page: this.isPageWanted, jobs: [...this.wanted].slice(0, MOST_ASKED) };
  }

  /** False: nothing was fetched yet. */
  get isLoaded(): boolean {
    return this.page !== null;
  }

  /** There are more jobs than the page has. */
  get hasMore(): boolean {
    return this.page?.next != null;
  }

  /** Events were missed: the present rows stay until the list was fetched again. */
  missedEvents(): void {
    this.isPageWanted = true;
  }

  /** The list is being fetched. Pass the returned value to `pageCame`. */
  pageAsked(): number {
    this.isPageWanted = false;
    return this.now;
  }

  /** Rows that came by events while the list was fetched are newer, and stay. */
  pageCame(page: SummaryPage, asked: number): void {
    this.page = page;
    this.fetched = new Map(page.items.map((one) => [one.id, one]));
    for (const [id, { at }] of this.renewed) if (at <= asked) this.renewed.delete(id);
    for (const [id, { at }] of this.patches) if (at <= asked) this.patches.delete(id);
    this.sparks.clear();
    this.altered();
    this.meters.keepOnly(new Set(this.rows.map((one) => one.id)));
  }

  pageFailed(): void {
    this.isPageWanted = true;
  }

  /** These jobs are being fetched. */
  jobsAsked(ids: readonly string[]): void {
    for (const id of ids) this.wanted.delete(id);
  }

  jobsCame(jobs: readonly JobSummary[]): void {
    this.altered();
    for (const job of jobs) {
      this.renewed.set(job.id, { job, at: this.now });
      this.patches.delete(job.id);
    }
  }

  jobsFailed(ids: readonly string[]): void {
    for (const id of ids) this.wanted.add(id);
  }

  see(event: LiveEvent): void {
    if (event.kind === "progress_summary") {
      for (const line of event.data.jobs as ProgressLine[]) this.progressed(line);
    } else if (event.data.job && event.kind !== "checkpoint_triggered") {
      this.wanted.add(event.data.job);
    }
  }

  /** Jobs that are not in the page come first: they were submitted since. */
  get rows(): JobSummary[] {
    this.rowsNow ??= this.merged();
    return this.rowsNow;
  }

  /** How many jobs are in each state. */
  get counts(): Record<string, number> {
    if (this.page?.next != null) return this.page.counts; // there are more than we have
    const counts: Record<string, number> = {};
    for (const one of this.rows) counts[one.state] = (counts[one.state] ?? 0) + 1;
    return counts;
  }

  /** Rows a second. */
  rateOf(job: JobSummary): number | null {
    if (!isLive(job.state)) return null;
    const said = job.recent.at(-1) ?? job.traffic?.input_rows_per_second ?? null;
    return this.meters.rate(job.id) ?? said;
  }

  /** Rows a second, for each ten seconds of the last five minutes. */
  sparksOf(job: JobSummary): number[] {
    return isLive(job.state) ? (this.sparks.get(job.id)?.values ?? job.recent) : [];
  }

  private progressed(line: ProgressLine): void {
    const at = Date.parse(line.at);
    this.meters.see(line.job, at, line.input_rows);
    const known = this.renewed.get(line.job)?.job ?? this.fetched.get(line.job);
    if (!known) {
      this.wanted.add(line.job);
      return;
    }
    this.altered();
    const patch = { state: line.state, lag: line.lag, attempt: line.attempt };
    this.patches.set(line.job, { patch, at: this.now });
    const rate = this.meters.rate(line.job);
    const bin = Math.floor(at / BIN_MS);
    const spark = this.sparks.get(line.job) ?? { bin, values: [...known.recent] };
    if (rate !== null && bin !== spark.bin) {
      spark.bin = bin;
      spark.values = [...spark.values, rate].slice(-SPARK_BINS);
    }
    this.sparks.set(line.job, spark);
  }

  private altered(): void {
    this.now += 1;
    this.rowsNow = null;
  }

  private merged(): JobSummary[] {
    const added = [...this.renewed.values()].filter(({ job }) => !this.fetched.has(job.id));
    const known = [
      ...added.map(({ job }) => job),
      ...[...this.fetched.values()].map((one) => this.renewed.get(one.id)?.job ?? one),
    ];
    return known.map((job) => ({ ...job, ...this.patches.get(job.id)?.patch }));
  }
}
