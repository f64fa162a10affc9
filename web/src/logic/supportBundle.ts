// What a bundle for support has in it: the same files as that of `headgate support-bundle`, without
// the checks of the machine. No clock and no network: both are given.

import { textWithoutSecrets, withoutSecrets } from "./secretsInText";
import type { ZipEntry } from "./zip";

const LOG_LINES = 5000;
const DAY = 24 * 60 * 60_000;

/** By the name of the file, the path that is asked for. */
export function partsOf(job: string, now: number): [name: string, path: string][] {
  const since = new Date(now - DAY).toISOString();
  const of = (part: string): string => `/jobs/${job}${part}`;
  const at = `jobs/${job}`;
  return [
    ["server/overview.json", "/overview"],
    ["server/config.json", "/config"],
    ["server/jobmanagers.json", "/jobmanagers"],
    ["server/runners.json", "/runners"],
    ["server/inspector.json", "/inspector"],
    ["server/jobs.json", "/jobs/summary?limit=200"],
    ["server/savepoints.json", "/savepoints?limit=200"],
    [`${at}/status.json`, of("/status")],
    [`${at}/job.json`, of("")],
    [`${at}/graph.json`, of("/graph")],
    [`${at}/revisions.json`, of("/revisions")],
    [`${at}/plan.json`, of("/plan")],
    [`${at}/key-groups.json`, of("/key-groups")],
    [`${at}/exceptions.json`, of("/exceptions")],
    [`${at}/checkpoints.json`, of("/checkpoints")],
    [`${at}/operations.json`, of("/operations")],
    [`${at}/history.json`, of("/history?limit=1000&newest_first=true")],
    [`${at}/samples.json`, of(`/samples?since=${encodeURIComponent(since)}`)],
    [`${at}/runner.log`, of(`/logs?tail=${LOG_LINES}`)],
  ];
}

/** Asks for all parts, and leaves out secrets. A part that is not answered is named in README. */
export async function entriesOf(
  job: string,
  now: number,
  get: (path: string) => Promise<string>,
): Promise<ZipEntry[]> {
  const found: ZipEntry[] = [];
  const missing: string[] = [];
  for (const [name, path] of partsOf(job, now)) {
    try {
      found.push({ name, content: shown(name, await get(path)) });
    } catch (error) {
      missing.push(`not there: ${name}: ${error instanceof Error ? error.message : String(error)}`);
    }
  }
  const readme = [
    `A bundle for support of Headgate, about job ${job}, made by the dashboard at ${new Date(now).toISOString()}.`,
    "",
    "Values that look like secrets appear as ***. Logs and exceptions may quote data of the job.",
    "",
    ...found.map((one) => one.name),
    ...(missing.length ? ["", ...missing] : []),
    "",
  ];
  return [...found, { name: "README.txt", content: textWithoutSecrets(readme.join("\n")) }];
}

export function bundleName(name: string, now: number): string {
  const time = new Date(now).toISOString().replace(/[-:]/g, "").slice(0, 15);
  const safe = name.replace(/[^A-Za-z0-9_-]+/g, "-").slice(0, 60);
  return `headgate-support-${safe}-${time}.zip`;
}

function shown(name: string, text: string): string {
  if (!name.endsWith(".json")) return textWithoutSecrets(text);
  return JSON.stringify(withoutSecrets(JSON.parse(text)), null, 2);
}
