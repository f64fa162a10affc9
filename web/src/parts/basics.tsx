// Small components that every view uses.

import type { ComponentChildren, JSX } from "preact";
import { useState } from "preact/hooks";
import type { ApiError, Fault } from "../api";
import { useNow } from "../hooks";
import { ago, duration, moment, NONE, words } from "../logic/format";

export function State({ state }: { state: string }) {
  return (
    <span class={`state state-${state}`}>
      <span class="dot" aria-hidden="true" />
      {state.replaceAll("_", " ")}
    </span>
  );
}

/** A relative time, with the exact time on hover and for screen readers. */
export function When({ at }: { at: string | number | null | undefined }) {
  const now = useNow();
  if (at == null || at === -1) return <>{NONE}</>;
  const date = new Date(at);
  return (
    <time dateTime={date.toISOString()} title={`${date.toLocaleString()} (${date.toISOString()})`}>
      {ago(now - date.getTime())}
    </time>
  );
}

/** The clock time, with the full time on hover. */
export function Clock({ at }: { at: string | number | null | undefined }) {
  if (at == null || at === -1) return <>{NONE}</>;
  const date = new Date(at);
  return (
    <time dateTime={date.toISOString()} title={date.toISOString()}>
      {moment(date, new Date())}
    </time>
  );
}

/** A duration, which grows every second until there is an end. */
export function Lasting({ from, to }: { from: string | null | undefined; to?: string | null }) {
  const now = useNow();
  if (!from) return <>{NONE}</>;
  const ms = (to ? Date.parse(to) : now) - Date.parse(from);
  return (
    <span title={`since ${new Date(from).toLocaleString()}`}>{duration(Math.max(0, ms))}</span>
  );
}

export function Copy({ text, label = "Copy" }: { text: string; label?: string }) {
  const [done, setDone] = useState(false);
  const copy = async (): Promise<void> => {
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      // no clipboard without https: select the text for the user instead
      const area = document.createElement("textarea");
      area.value = text;
      document.body.append(area);
      area.select();
      document.execCommand("copy");
      area.remove();
    }
    setDone(true);
    setTimeout(() => setDone(false), 1500);
  };
  return (
    <button type="button" class="quiet copy" onClick={() => void copy()} title={`Copy: ${text}`}>
      {done ? "Copied" : label}
    </button>
  );
}

/** The equivalent command line. */
export function Command({ text }: { text: string }) {
  return (
    <div class="command">
      <code>{text}</code>
      <Copy text={text} />
    </div>
  );
}

export function Id({ id, href }: { id: string; href?: string }) {
  const shown = <span class="mono">{id.slice(0, 8)}</span>;
  return href ? (
    <a href={href} title={id}>
      {shown}
    </a>
  ) : (
    <span title={id}>{shown}</span>
  );
}

export function Fact({
  name,
  children,
  title,
}: {
  name: string;
  children: ComponentChildren;
  title?: string | undefined;
}) {
  return (
    <div class="fact" title={title}>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

export function Empty({ title, children }: { title: string; children?: ComponentChildren }) {
  return (
    <div class="empty">
      <p class="empty-title">{title}</p>
      {children}
    </div>
  );
}

export function Problem({ error, retry }: { error: ApiError; retry?: () => void }) {
  return (
    <div class="problem" role="alert">
      <p>
        {error.status === 404 ? "Not there: " : error.status === 0 ? "" : `${error.status}: `}
        {error.message}
      </p>
      <Faults faults={error.faults} />
      {retry && (
        <button type="button" onClick={retry}>
          Try again
        </button>
      )}
    </div>
  );
}

export function Faults({ faults }: { faults: Fault[] }) {
  if (!faults.length) return null;
  return (
    <ul class="faults">
      {faults.map((one, index) => (
        <li key={index}>
          <span class="mono">{[one.vertex, one.field].filter(Boolean).join(".") || "graph"}</span>{" "}
          {one.message}
        </li>
      ))}
    </ul>
  );
}

export function Loading({ what }: { what: string }) {
  return (
    <p class="loading" role="status">
      Loading {what} …
    </p>
  );
}

export function Section({
  title,
  aside,
  children,
}: {
  title: string;
  aside?: ComponentChildren;
  children: ComponentChildren;
}) {
  return (
    <section class="panel">
      <header class="panel-head">
        <h2>{title}</h2>
        <div class="panel-aside">{aside}</div>
      </header>
      {children}
    </section>
  );
}

/** A table that scrolls sideways in its own box if it is too wide. */
export function Table({
  label,
  children,
  ...more
}: { label: string; children: ComponentChildren } & JSX.IntrinsicElements["table"]) {
  return (
    <div class="table-box" tabIndex={0} role="region" aria-label={label}>
      <table {...more}>{children}</table>
    </div>
  );
}

export function Sparkline({ values, label }: { values: number[]; label: string }) {
  const width = 84;
  const height = 18;
  if (values.length < 2) return <span class="spark-none" aria-hidden="true" />;
  const top = Math.max(...values, 1e-9);
  const step = width / (values.length - 1);
  const points = values.map(
    (one, i) => `${(i * step).toFixed(1)},${(height - 1 - (one / top) * (height - 3)).toFixed(1)}`,
  );
  return (
    <svg
      class="spark"
      viewBox={`0 0 ${width} ${height}`}
      width={width}
      height={height}
      role="img"
      aria-label={label}
    >
      <polygon points={`0,${height} ${points.join(" ")} ${width},${height}`} />
      <polyline points={points.join(" ")} />
    </svg>
  );
}

/** A bar of a share, 0 to 1, with the number beside it. */
export function Meter({ share, label }: { share: number | null; label: string }) {
  return (
    <span
      class="meter"
      role="img"
      aria-label={`${label}: ${share === null ? "unknown" : `${Math.round(share * 100)} %`}`}
    >
      <span class="meter-bar">
        <span style={{ width: `${Math.round((share ?? 0) * 100)}%` }} />
      </span>
      <span class="meter-text">{share === null ? NONE : `${Math.round(share * 100)} %`}</span>
    </span>
  );
}

export { words };
