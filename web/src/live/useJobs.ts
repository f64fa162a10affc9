// The live list of jobs for a view: connects store, feed and stream of events.

import { useEffect, useMemo, useState } from "preact/hooks";
import { ApiError, ask, type SummaryPage } from "../api";
import { useInterval } from "../hooks";
import { type Fetches, JobsFeed, RETRY_MS } from "./jobsFeed";
import { JobsStore } from "./jobsStore";
import { live } from "./stream";

/** How many jobs are shown, the newest first. */
export const MOST_JOBS = 2000;

const FETCHES: Fetches = {
  page: () => ask<SummaryPage>("/jobs/summary", { query: { limit: MOST_JOBS } }),
  jobs: async (ids) => {
    const named = ids.map((id) => `job=${id}`).join("&");
    return (await ask<SummaryPage>(`/jobs/summary?limit=${ids.length}&${named}`)).items;
  },
};

export function useJobs(): { jobs: JobsStore; error: ApiError | null; reload: () => void } {
  const [, draw] = useState(0);
  const { store, feed } = useMemo(() => {
    const store = new JobsStore();
    return { store, feed: new JobsFeed(store, FETCHES, () => draw((n) => n + 1)) };
  }, []);
  useEffect(() => {
    feed.soon(0);
    const forget = [
      live.onReturn(() => feed.reload()),
      live.onEvent((event) => {
        store.see(event);
        feed.soon();
        if (event.kind === "progress_summary") draw((n) => n + 1);
      }),
      () => feed.stop(),
    ];
    return () => {
      for (const one of forget) one();
    };
  }, [store, feed]);
  useInterval(() => feed.reload(), RETRY_MS);
  return { jobs: store, error: asApiError(feed.error), reload: () => feed.reload() };
}

function asApiError(error: unknown): ApiError | null {
  if (error === null || error instanceof ApiError) return error;
  return new ApiError(String(error), 0);
}
