// One stream of events for the whole page. When the connection is lost, it reconnects by itself
// and continues after its last entry; views then fetch their data again.

import { url } from "../api";
import { session } from "./session";
import { EventParser } from "./sse";

export interface LiveEvent {
  kind: string;
  data: Record<string, unknown> & { job?: string };
}

export type LinkState = "connecting" | "live" | "lost";

export interface Link {
  state: LinkState;
  /** When the stream entered this state. */
  since: number;
  reason: string;
}

const SILENCE_MS = 25_000; // the server sends something every 15 s
const RETRY_MS = [500, 1_000, 2_000, 4_000];
const SOON_MS = 1_500; // a stream that is back so soon is not shown as lost

type Listener = (event: LiveEvent) => void;

class LiveStream {
  link: Link = { state: "connecting", since: Date.now(), reason: "" };
  private path: string | null = null;
  private lastId: string | null = null;
  private aborter: AbortController | null = null;
  private tries = 0;
  private readonly listeners = new Set<Listener>();
  private readonly watchers = new Set<(link: Link) => void>();
  private readonly returns = new Set<() => void>();

  /** Follows these events from now on, and no others. */
  follow(path: string): void {
    if (path === this.path) return;
    this.path = path;
    this.lastId = null;
    this.tries = 0;
    this.aborter?.abort();
    void this.run(path);
  }

  onEvent(listener: Listener): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  onLink(watcher: (link: Link) => void): () => void {
    this.watchers.add(watcher);
    return () => this.watchers.delete(watcher);
  }

  /** Called after a reconnect: data that was fetched before may be out of date. */
  onReturn(again: () => void): () => void {
    this.returns.add(again);
    return () => this.returns.delete(again);
  }

  /** Follows nothing, until `follow` is called. */
  stop(): void {
    this.path = null;
    this.aborter?.abort();
  }

  /** Reconnects at once. */
  hurry(): void {
    const path = this.path;
    this.path = null;
    if (path) this.follow(path);
  }

  private async run(path: string): Promise<void> {
    while (this.path === path) {
      const reason = await this.once(path);
      if (this.path !== path) return;
      const pause = RETRY_MS[Math.min(this.tries, RETRY_MS.length - 1)]!;
      this.tries += 1;
      if (this.tries > 1) this.set("lost", reason);
      else
        setTimeout(() => this.path === path && this.tries > 0 && this.set("lost", reason), SOON_MS);
      await new Promise((done) => setTimeout(done, pause));
    }
  }

  /** Reads the stream until it ends; returns why it ended. */
  private async once(path: string): Promise<string> {
    const aborter = new AbortController();
    this.aborter = aborter;
    let silence = setTimeout(() => aborter.abort(), SILENCE_MS);
    const heard = (): void => {
      clearTimeout(silence);
      silence = setTimeout(() => aborter.abort(), SILENCE_MS);
    };
    try {
      const after = this.lastId
        ? `${path.includes("?") ? "&" : "?"}last_event_id=${this.lastId}`
        : "";
      const answer = await fetch(url(path) + after, {
        headers: session.headers(),
        signal: aborter.signal,
        cache: "no-store",
      });
      if (answer.status === 401) session.refused("the server does not accept the token any more");
      if (!answer.ok || !answer.body) return `it answered ${answer.status}`;
      const wasLost = this.tries > 0;
      this.tries = 0;
      this.set("live", "");
      if (wasLost) for (const again of this.returns) again();
      const parser = new EventParser((event) => {
        if (event.id) this.lastId = event.id;
        this.tell({ kind: event.kind, data: JSON.parse(event.data) as LiveEvent["data"] });
      });
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      for (;;) {
        const { done, value } = await reader.read();
        if (done) return "the server ended the stream";
        heard();
        parser.feed(value);
      }
    } catch {
      return aborter.signal.aborted ? "the server sends nothing" : "the server cannot be reached";
    } finally {
      clearTimeout(silence);
    }
  }

  private tell(event: LiveEvent): void {
    for (const one of this.listeners) one(event);
  }

  private set(state: LinkState, reason: string): void {
    if (this.link.state === state) return;
    this.link = { state, since: Date.now(), reason };
    for (const one of this.watchers) one(this.link);
  }
}

export const live = new LiveStream();
