import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import type { JobSummary, SummaryPage } from "../api";
import { GATHER_MS, JobsFeed, RETRY_MS } from "./jobsFeed";
import { JobsStore } from "./jobsStore";

/** A server that answers when it is told to, and keeps what it was asked. */
class Server {
  asked: string[] = [];
  isDown = false;

  page = async (): Promise<SummaryPage> => {
    this.asked.push("page");
    if (this.isDown) throw new Error("down");
    return { items: [], next: null, counts: {} };
  };
  jobs = async (ids: readonly string[]): Promise<JobSummary[]> => {
    this.asked.push(ids.join("+"));
    if (this.isDown) throw new Error("down");
    return [];
  };
}

function running(server: Server): { store: JobsStore; feed: JobsFeed } {
  const store = new JobsStore();
  const feed = new JobsFeed(store, server, () => {});
  feed.soon(0);
  return { store, feed };
}

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

describe("the feed", () => {
  test("fetches the list at once, then nothing while nothing is wanted", async () => {
    const server = new Server();
    running(server);
    await vi.advanceTimersByTimeAsync(10 * RETRY_MS);
    expect(server.asked).toEqual(["page"]);
  });
  test("asks once for a burst of events", async () => {
    const server = new Server();
    const { store, feed } = running(server);
    await vi.advanceTimersByTimeAsync(1);
    for (const job of ["a", "b", "a"]) {
      store.see({ kind: "job_running", data: { job } });
      feed.soon();
      await vi.advanceTimersByTimeAsync(GATHER_MS / 4);
    }
    await vi.advanceTimersByTimeAsync(GATHER_MS);
    expect(server.asked).toEqual(["page", "a+b"]);
  });
  test("tries again slowly while the server is down, and at once when it is back", async () => {
    const server = new Server();
    server.isDown = true;
    const { feed } = running(server);
    await vi.advanceTimersByTimeAsync(RETRY_MS + 1);
    expect(server.asked).toEqual(["page", "page"]);
    expect(feed.error).toBeInstanceOf(Error);
    server.isDown = false;
    feed.reload();
    await vi.advanceTimersByTimeAsync(1);
    expect(server.asked).toEqual(["page", "page", "page"]);
    expect(feed.error).toBeNull();
  });
  test("that is stopped asks for nothing more", async () => {
    const server = new Server();
    const { feed } = running(server);
    await vi.advanceTimersByTimeAsync(1);
    feed.stop();
    feed.reload();
    await vi.advanceTimersByTimeAsync(RETRY_MS);
    expect(server.asked).toEqual(["page"]);
  });
});
