// Hooks that views share: fetched resources, events, time, the address, the theme.

import { useCallback, useEffect, useMemo, useRef, useState } from "preact/hooks";
import { ApiError, ask, type Role, serverNow, type WhoAmI } from "./api";
import { type SessionState, session } from "./live/session";
import { type Link, type LiveEvent, live } from "./live/stream";
import { link as linkTo, parse, type Route } from "./logic/route";

const LEAST_PAUSE_MS = 300;

export interface Resource<T> {
  data: T | null;
  error: ApiError | null;
  isLoading: boolean;
  reload: () => void;
}

/** A GET that is repeated when an event concerns it, every `every` ms, and after an outage. */
export function useResource<T>(
  path: string | null,
  options: {
    on?: ((event: LiveEvent) => boolean) | undefined;
    every?: number | null | undefined;
    query?: Record<string, string | number | boolean | undefined | null>;
  } = {},
): Resource<T> {
  const key = path === null ? null : path + JSON.stringify(options.query ?? {});
  const [answer, setAnswer] = useState<{
    key: string | null;
    data: T | null;
    error: ApiError | null;
  }>({
    key: null,
    data: null,
    error: null,
  });
  const [round, setRound] = useState(0);
  const reload = useCallback(() => setRound((n) => n + 1), []);
  const concerns = useRef(options.on);
  concerns.current = options.on;

  useEffect(() => {
    if (path === null) return;
    const aborter = new AbortController();
    ask<T>(path, { signal: aborter.signal, ...(options.query ? { query: options.query } : {}) })
      .then((data) => setAnswer({ key, data, error: null }))
      .catch((error: unknown) => {
        if (aborter.signal.aborted) return;
        const known = error instanceof ApiError ? error : new ApiError(String(error), 0);
        setAnswer((old) => ({ key, data: old.key === key ? old.data : null, error: known }));
      });
    return () => aborter.abort();
  }, [key, round]);

  useEffect(() => {
    if (path === null) return;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const soon = (): void => {
      timer ??= setTimeout(() => {
        timer = undefined;
        reload();
      }, LEAST_PAUSE_MS);
    };
    const forget = [
      live.onReturn(soon),
      live.onEvent((event) => concerns.current?.(event) && soon()),
    ];
    return () => {
      clearTimeout(timer);
      for (const one of forget) one();
    };
  }, [path]);

  useInterval(reload, path === null ? null : (options.every ?? null));
  const isHere = answer.key === key;
  return {
    data: isHere ? answer.data : null,
    error: isHere ? answer.error : null,
    isLoading: path !== null && !isHere,
    reload,
  };
}

export function useEvents(take: (event: LiveEvent) => void): void {
  const latest = useRef(take);
  latest.current = take;
  useEffect(() => live.onEvent((event) => latest.current(event)), []);
}

export function useLink(): Link {
  const [link, setLink] = useState(live.link);
  useEffect(() => live.onLink(setLink), []);
  return link;
}

/** The session, whose user is asked for at first, after a sign-in and after an outage. */
export function useSession(): { state: SessionState; generation: number } {
  const [, draw] = useState(0);
  useEffect(() => {
    const learn = (): void => {
      // a 401 has told the session already; another failure shows as a lost server
      if (session.state.kind !== "out")
        ask<WhoAmI>("/whoami").then(
          (who) => session.welcomed(who),
          () => undefined,
        );
    };
    const forget = [
      session.onChange(() => {
        draw((n) => n + 1);
        if (session.state.kind === "asking") learn();
      }),
      live.onReturn(learn),
    ];
    learn();
    return () => {
      for (const one of forget) one();
    };
  }, []);
  return { state: session.state, generation: session.generation };
}

/** Why the user may not do what needs this role; null: the user may. */
export function useBar(needed: Role): string | null {
  const [bar, setBar] = useState(() => session.bar(needed));
  useEffect(() => {
    const look = (): void => setBar(session.bar(needed));
    look();
    return session.onChange(look);
  }, [needed]);
  return bar;
}

export function useInterval(act: () => void, everyMs: number | null): void {
  const latest = useRef(act);
  latest.current = act;
  useEffect(() => {
    if (everyMs === null) return;
    const timer = setInterval(() => {
      if (!document.hidden) latest.current();
    }, everyMs);
    return () => clearInterval(timer);
  }, [everyMs]);
}

const ticking = new Set<(now: number) => void>();
setInterval(() => {
  if (!document.hidden) for (const one of ticking) one(serverNow());
}, 1000);

/** The server's time, updated every second. */
export function useNow(): number {
  const [now, setNow] = useState(serverNow);
  useEffect(() => {
    ticking.add(setNow);
    return () => {
      ticking.delete(setNow);
    };
  }, []);
  return Math.max(now, serverNow() - 1000);
}

export function useRoute(): Route {
  const [hash, setHash] = useState(location.hash);
  useEffect(() => {
    const changed = (): void => setHash(location.hash);
    addEventListener("hashchange", changed);
    return () => removeEventListener("hashchange", changed);
  }, []);
  return useMemo(() => parse(hash), [hash]);
}

/** Changes the parameters of the present view in the address, without a new history entry. */
export function setQuery(route: Route, changes: Record<string, string | undefined>): void {
  location.replace(linkTo(route.path, { ...route.query, ...changes }));
}

export type Theme = "system" | "light" | "dark";

export function useTheme(): [Theme, (theme: Theme) => void] {
  const [theme, setTheme] = useState<Theme>(
    () => (document.documentElement.dataset.theme as Theme | undefined) ?? "system",
  );
  const choose = useCallback((chosen: Theme) => {
    if (chosen === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = chosen;
    try {
      if (chosen === "system") localStorage.removeItem("headgate.theme");
      else localStorage.setItem("headgate.theme", chosen);
    } catch {
      // then it is not stored
    }
    setTheme(chosen);
    dispatchEvent(new Event("headgate-theme"));
  }, []);
  return [theme, choose];
}

/** Counts up when the colours change, so that canvases can be redrawn. */
export function useColours(): number {
  const [round, setRound] = useState(0);
  useEffect(() => {
    const changed = (): void => setRound((n) => n + 1);
    const system = matchMedia("(prefers-color-scheme: dark)");
    addEventListener("headgate-theme", changed);
    system.addEventListener("change", changed);
    return () => {
      removeEventListener("headgate-theme", changed);
      system.removeEventListener("change", changed);
    };
  }, []);
  return round;
}

/** Whether an event is about this job; progress events, which come every second, do not count. */
export function about(job: string): (event: LiveEvent) => boolean {
  return (event) => event.data.job === job && event.kind !== "progress";
}
