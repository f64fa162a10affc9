// The frame around every view: navigation, the connection to the server, and the theme.

import { useEffect } from "preact/hooks";
import { type Theme, useBar, useLink, useNow, useRoute, useSession, useTheme } from "./hooks";
import { session } from "./live/session";
import { live } from "./live/stream";
import { duration } from "./logic/format";
import { link, type Route } from "./logic/route";
import { Access } from "./views/access";
import { Cluster } from "./views/cluster";
import { Job } from "./views/job";
import { Jobs } from "./views/jobs";
import { Savepoints } from "./views/savepoints";
import { SignIn } from "./views/signIn";
import { Submit } from "./views/submit";
import { Webhooks } from "./views/webhooks";

const NAV: [path: string, title: string][] = [
  ["jobs", "Jobs"],
  ["savepoints", "Savepoints"],
  ["cluster", "Cluster"],
];

const WEBHOOKS: [path: string, title: string] = ["webhooks", "Webhooks"];
const ACCESS: [path: string, title: string] = ["access", "Access"];

export function App() {
  const route = useRoute();
  const [first = "jobs", second] = route.path;
  const job = first === "jobs" && second ? second : null;
  const { state, generation } = useSession();
  const isOut = state.kind === "out";
  const isAdmin = useBar("admin") === null;
  const isOperator = useBar("operator") === null;
  const pages = [...NAV, ...(isOperator ? [WEBHOOKS] : []), ...(isAdmin ? [ACCESS] : [])];
  useEffect(() => {
    if (isOut) live.stop();
    else live.follow(job ? `/jobs/${job}/events` : "/events?progress=summary");
  }, [job, isOut]);
  useEffect(() => {
    document.title = `${titleOf(route)} · Headgate`;
  }, [route]);
  return (
    <>
      {/* biome-ignore lint/a11y/useValidAnchor: what is behind the # of the address is the view */}
      <a class="skip" href="#main" onClick={skip}>
        Skip to content
      </a>
      <header class="top">
        <a class="brand" href={link(["jobs"])}>
          Headgate
        </a>
        <nav aria-label="Main">
          {pages.map(([path, title]) => (
            <a
              key={path}
              href={link([path])}
              aria-current={
                first === path || (path === "jobs" && first === "submit") ? "page" : undefined
              }
            >
              {title}
            </a>
          ))}
          <a href="docs">API</a>
        </nav>
        <LinkState />
        <User />
        <ThemeChoice />
      </header>
      {!isOut && <Lost />}
      <main id="main" tabIndex={-1}>
        {isOut ? <SignIn reason={state.reason} /> : <View key={generation} route={route} />}
      </main>
    </>
  );
}

function View({ route }: { route: Route }) {
  const [first = "jobs", second] = route.path;
  switch (first) {
    case "jobs":
      return second ? <Job key={second} route={route} /> : <Jobs route={route} />;
    case "submit":
      return <Submit route={route} />;
    case "savepoints":
      return <Savepoints route={route} />;
    case "cluster":
      return <Cluster route={route} />;
    case "webhooks":
      return <Webhooks />;
    case "access":
      return <Access />;
    default:
      return (
        <div class="empty">
          <p class="empty-title">There is no such page</p>
          <a href={link(["jobs"])}>All jobs</a>
        </div>
      );
  }
}

/** The token's name and role; nothing where no token is used. */
function User() {
  const { state } = session;
  if (state.kind !== "in" || !session.hasToken) return null;
  return (
    <span class="user">
      <span title={`The token ${state.who.name}, with the role ${state.who.role}`}>
        {state.who.name} · {state.who.role}
      </span>
      <button type="button" class="quiet" onClick={() => session.signOut()}>
        Sign out
      </button>
    </span>
  );
}

function LinkState() {
  const { state } = useLink();
  const said = { live: "live", lost: "server lost", connecting: "connecting" }[state];
  return (
    <span class={`link link-${state}`} role="status">
      <span class="dot" aria-hidden="true" />
      {said}
    </span>
  );
}

/** A prominent warning: everything below may be out of date. */
function Lost() {
  const found = useLink();
  const now = useNow();
  if (found.state !== "lost") return null;
  return (
    <div class="lost" role="alert">
      <strong>The connection to the server is lost</strong>
      <span>
        {found.reason}; the page is at least {duration(Math.max(0, now - found.since))} old. It
        reconnects by itself.
      </span>
      <button type="button" onClick={() => live.hurry()}>
        Reconnect now
      </button>
    </div>
  );
}

function ThemeChoice() {
  const [theme, choose] = useTheme();
  return (
    <label class="theme">
      <span class="visually-hidden">Theme</span>
      <select value={theme} onChange={(event) => choose(event.currentTarget.value as Theme)}>
        <option value="system">System</option>
        <option value="light">Light</option>
        <option value="dark">Dark</option>
      </select>
    </label>
  );
}

function skip(event: Event): void {
  event.preventDefault();
  document.getElementById("main")?.focus();
}

function titleOf(route: Route): string {
  const [first = "jobs", second, third] = route.path;
  if (first === "jobs" && second) return `${second.slice(0, 8)} ${third ?? "graph"}`;
  return (
    {
      jobs: "Jobs",
      submit: "Submit",
      savepoints: "Savepoints",
      cluster: "Cluster",
      webhooks: "Webhooks",
      access: "Access",
    }[first] ?? "Not found"
  );
}
