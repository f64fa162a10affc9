// Formats numbers and times for people. Everything here is pure.

export const NONE = "–";

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** A duration in at most two units: 340 ms, 2.5 s, 4m 05s, 3h 20m, 2d 4h. */
export function duration(ms: number | null | undefined): string {
  if (ms == null || !Number.isFinite(ms)) return NONE;
  if (ms < 0) return `-${duration(-ms)}`;
  if (ms < SECOND) return `${Math.round(ms)} ms`;
  if (ms < 10 * SECOND) return `${(ms / SECOND).toFixed(1)} s`;
  if (ms < MINUTE) return `${Math.floor(ms / SECOND)} s`;
  if (ms < HOUR) return `${Math.floor(ms / MINUTE)}m ${two(Math.floor((ms % MINUTE) / SECOND))}s`;
  if (ms < DAY) return `${Math.floor(ms / HOUR)}h ${two(Math.floor((ms % HOUR) / MINUTE))}m`;
  return `${Math.floor(ms / DAY)}d ${Math.floor((ms % DAY) / HOUR)}h`;
}

/** How long ago, in one unit: coarse enough not to flicker. */
export function ago(ms: number): string {
  if (ms < -2 * SECOND) return `in ${span(-ms)}`;
  if (ms < 2 * SECOND) return "now";
  return `${span(ms)} ago`;
}

function span(ms: number): string {
  if (ms < MINUTE) return `${Math.floor(ms / SECOND)} s`;
  if (ms < HOUR) return `${Math.floor(ms / MINUTE)} min`;
  if (ms < DAY) return `${Math.floor(ms / HOUR)} h`;
  return `${Math.floor(ms / DAY)} d`;
}

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

export function bytes(count: number | null | undefined): string {
  if (count == null || !Number.isFinite(count)) return NONE;
  let unit = 0;
  let value = count;
  while (Math.abs(value) >= 1024 && unit < UNITS.length - 1) {
    value /= 1024;
    unit += 1;
  }
  const digits = unit === 0 || Math.abs(value) >= 100 ? 0 : 1;
  return `${value.toFixed(digits)} ${UNITS[unit]}`;
}

/** 950, 1.2k, 34k, 1.5M: for rates and counts in a narrow column. */
export function compact(value: number | null | undefined): string {
  if (value == null || !Number.isFinite(value)) return NONE;
  const size = Math.abs(value);
  if (size >= 1e9) return `${trim(value / 1e9)}G`;
  if (size >= 1e6) return `${trim(value / 1e6)}M`;
  if (size >= 1e4) return `${trim(value / 1e3)}k`;
  if (size >= 100 || Number.isInteger(value)) return grouped(Math.round(value));
  return value.toFixed(1);
}

function trim(value: number): string {
  return Math.abs(value) >= 100 ? value.toFixed(0) : value.toFixed(1);
}

/** A number with thin spaces between thousands. */
export function grouped(value: number | null | undefined): string {
  if (value == null) return NONE;
  return String(Math.round(value)).replace(/\B(?=(\d{3})+(?!\d))/g, " ");
}

export function percent(share: number | null | undefined): string {
  return share == null || !Number.isFinite(share) ? NONE : `${Math.round(share * 100)} %`;
}

/** Milliseconds from one time to another, or until now; never less than none. */
export function spanMs(from: string, to: string | null, now: number): number {
  return Math.max(0, (to === null ? now : Date.parse(to)) - Date.parse(from));
}

function two(value: number): string {
  return String(value).padStart(2, "0");
}

/** Local time with seconds, and with the date if it is not today. */
export function moment(at: Date, today: Date): string {
  const time = `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
  if (at.toDateString() === today.toDateString()) return time;
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ${time}`;
}

export function shortId(id: string): string {
  return id.slice(0, 8);
}

/** "attempt_failed" as words. */
export function words(kind: string): string {
  const text = kind.replaceAll("_", " ");
  return text.charAt(0).toUpperCase() + text.slice(1);
}

export function plural(count: number, one: string, many = `${one}s`): string {
  return `${grouped(count)} ${count === 1 ? one : many}`;
}

/** A value of a column, as text. */
export function shownValue(value: unknown): string {
  if (value === undefined) return "";
  return value !== null && typeof value === "object" ? JSON.stringify(value) : String(value);
}
