// Fetches what a `JobsStore` wants: one request at a time, one for a burst of events, and less
// often while the server does not answer.

import type { JobSummary, SummaryPage } from "../api";
import type { JobsStore } from "./jobsStore";

export const GATHER_MS = 400;
export const RETRY_MS = 30_000;

export interface Fetches {
  page: () => Promise<SummaryPage>;
  jobs: (ids: readonly string[]) => Promise<JobSummary[]>;
}

export class JobsFeed {
  /** Why the last fetch of the list failed; null: it succeeded. */
  error: unknown = null;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private dueAt = Number.POSITIVE_INFINITY;
  private isFetching = false;
  private isStopped = false;

  constructor(
    private readonly store: JobsStore,
    private readonly fetches: Fetches,
    private readonly onChange: () => void,
  ) {}

  /** Must be called whenever the store may want something. */
  soon(pauseMs = GATHER_MS): void {
    const { page, jobs } = this.store.wants;
    if (this.isStopped || this.isFetching || !(page || jobs.length)) return;
    const dueAt = Date.now() + pauseMs;
    if (dueAt >= this.dueAt) return;
    clearTimeout(this.timer);
    this.dueAt = dueAt;
    this.timer = setTimeout(() => void this.fetch(), pauseMs);
  }

  /** Fetches the whole list again, at once. */
  reload(): void {
    this.store.missedEvents();
    this.soon(0);
  }

  stop(): void {
    this.isStopped = true;
    clearTimeout(this.timer);
  }

  private async fetch(): Promise<void> {
    this.isFetching = true;
    this.dueAt = Number.POSITIVE_INFINITY;
    const { page, jobs } = this.store.wants;
    const outcomes = [page ? await this.fetchPage() : true, await this.fetchJobs(jobs)];
    this.isFetching = false;
    if (this.isStopped) return;
    this.onChange();
    this.soon(outcomes.every(Boolean) ? GATHER_MS : RETRY_MS);
  }

  private async fetchPage(): Promise<boolean> {
    const asked = this.store.pageAsked();
    try {
      this.store.pageCame(await this.fetches.page(), asked);
      this.error = null;
      return true;
    } catch (error) {
      this.store.pageFailed();
      this.error = error;
      return false;
    }
  }

  private async fetchJobs(ids: string[]): Promise<boolean> {
    if (ids.length === 0) return true;
    this.store.jobsAsked(ids);
    try {
      this.store.jobsCame(await this.fetches.jobs(ids));
      return true;
    } catch {
      this.store.jobsFailed(ids);
      return false;
    }
  }
}
