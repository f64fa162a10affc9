// Who uses the page: the token, kept for this browser tab only, and what its role may do.

import type { Role, WhoAmI } from "../generated/shapes";

const KEY = "headgate.token";

/** Where a token is kept: the browser's `sessionStorage`, which ends with the tab. */
export type TokenStorage = Pick<Storage, "getItem" | "setItem" | "removeItem">;

export type SessionState =
  | { kind: "asking" }
  | { kind: "in"; who: WhoAmI }
  | { kind: "out"; reason: string };

export class Session {
  state: SessionState = { kind: "asking" };
  /** Counts sign-ins: what was fetched for another user is fetched again. */
  generation = 0;
  private readonly watchers = new Set<() => void>();

  constructor(private readonly storage: TokenStorage) {}

  /** For every request of the page. A token is never part of an address. */
  headers(): Record<string, string> {
    const token = this.storage.getItem(KEY);
    return token ? { Authorization: `Bearer ${token}` } : {};
  }

  get hasToken(): boolean {
    return this.storage.getItem(KEY) !== null;
  }

  /** The server told who we are. */
  welcomed(who: WhoAmI): void {
    this.set({ kind: "in", who });
  }

  /** The server answered 401: no token, or a token that is unknown, expired or revoked. */
  refused(reason: string): void {
    const hadToken = this.hasToken;
    this.storage.removeItem(KEY);
    if (this.state.kind === "out" && !hadToken) return;
    this.set({ kind: "out", reason: hadToken ? reason : "" });
  }

  signIn(token: string): void {
    this.storage.setItem(KEY, token.trim());
    this.generation += 1;
    this.set({ kind: "asking" });
  }

  signOut(): void {
    this.storage.removeItem(KEY);
    this.set({ kind: "out", reason: "" });
  }

  /** Why the user may not do what needs this role; null: the user may. */
  bar(needed: Role): string | null {
    if (this.state.kind !== "in") return "not known yet what you may do";
    const { covers, name, role } = this.state.who;
    if (covers.includes(needed)) return null;
    return `needs the role ${needed}: the token ${name} has the role ${role}`;
  }

  onChange(watcher: () => void): () => void {
    this.watchers.add(watcher);
    return () => this.watchers.delete(watcher);
  }

  private set(state: SessionState): void {
    this.state = state;
    for (const watcher of this.watchers) watcher();
  }
}

/** Storage for a browser that keeps none: the token lasts until the page is loaded again. */
export function inMemory(): TokenStorage {
  const kept = new Map<string, string>();
  return {
    getItem: (key) => kept.get(key) ?? null,
    setItem: (key, value) => void kept.set(key, value),
    removeItem: (key) => void kept.delete(key),
  };
}

function ofTheTab(): TokenStorage {
  try {
    sessionStorage.getItem(KEY);
    return sessionStorage;
  } catch {
    return inMemory();
  }
}

export const session = new Session(ofTheTab());
