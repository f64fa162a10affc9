// What the server answers, as far as the dashboard reads it, and how it is asked.

export interface LastCheckpoint {
  number: number;
  completed_at: string;
  duration_ms: number;
  bytes: number;
}

export interface JobSummary {
  id: string;
  name: string;
  mode: string;
  state: string;
  reason: string;
  since: string;
  submitted_at: string;
  ended_at: string | null;
  running_since: string | null;
  attempt: number;
  restarts: number;
  parallelism: number;
  failed_checkpoints: number;
  restored_from: string | null;
  traffic: {
    input_rows: number;
    output_rows: number;
    input_rows_per_second: number;
    is_idle: boolean;
  } | null;
  lag: number | null;
  last_checkpoint: LastCheckpoint | null;
  recent: number[];
}

export interface SummaryPage {
  items: JobSummary[];
  next: string | null;
  counts: Record<string, number>;
}

export interface RegionProgress {
  region: string;
  batch: number | null;
  batches: number;
  is_active: boolean;
  is_idle: boolean;
  input_rows: number;
  output_rows: number;
  input_rows_per_second: number;
  processed_rows_per_second: number;
  batch_duration_ms: number;
  median_batch_ms: number;
  watermark: string | null;
  state_rows: number;
  state_bytes: number;
  offsets: Record<string, unknown>;
  progressed_at: string | null;
  input_waiting: boolean | null;
  activity: string | null;
  busy_ms?: number;
  sources?: {
    vertex: string;
    input_rows_per_second: number;
    processed_rows_per_second: number;
    backlog_rows: number | null;
  }[];
  operators?: {
    vertex: string;
    operator: string;
    updated_rows: number;
    dropped_rows: number;
    state_rows: number;
    state_bytes: number;
    commit_ms: number;
  }[];
}

export interface JobStatus {
  desired: string;
  observed: string;
  state: string;
  reason: string;
  since: string;
  running_since: string | null;
  attempt: number;
  runner: { id: string; host: string; pid: number | null } | null;
  region_states: RegionProgress[];
  restored: { region: string; origin: string; batch: number | null; why: string }[];
  last_checkpoint: LastCheckpoint | null;
  restarts: number;
  lag: number | null;
}

export interface Vertex {
  id: string;
  op: string;
  [field: string]: unknown;
}

export interface GraphDocument {
  name: string;
  mode?: string;
  max_parallelism?: number;
  vertices: Vertex[];
  [field: string]: unknown;
}

export interface GraphAnswer {
  graph: GraphDocument;
  revision: number;
  parallelism: number;
}

export interface PlanNode {
  id: string;
  parallelism: number;
  description: string;
  "headgate-vertices": string[];
  inputs?: { id: string; num: number; ship_strategy: string }[];
}

export interface Plan {
  nodes: PlanNode[];
  "headgate-regions"?: { id: string; vertices: string[]; "output-mode": string }[];
}

export interface FlinkCheckpoint {
  id: number;
  status: "IN_PROGRESS" | "COMPLETED" | "FAILED";
  is_savepoint: boolean;
  trigger_timestamp: number;
  latest_ack_timestamp: number;
  end_to_end_duration: number;
  state_size: number;
  checkpointed_size: number;
  num_subtasks: number;
  num_acknowledged_subtasks: number;
  discarded?: boolean;
  failure_timestamp?: number;
  failure_message?: string;
}

export interface CheckpointsAnswer {
  counts: { restored: number; total: number; in_progress: number; completed: number; failed: number };
  history: FlinkCheckpoint[];
}

export interface Ack {
  region: string;
  vertex: string;
  subtask: number;
  acked_at: string;
  kind: string;
  pointer: string | null;
  version: number | null;
  bytes: number;
  key_groups: number[];
  offsets: unknown;
  watermark: string | null;
}

export interface Checkpoint {
  number: number;
  kind: string;
  status: string;
  attempt: number;
  triggered_at: string;
  completed_at: string | null;
  batch: Record<string, number | null>;
  bytes: number;
  new_bytes: number;
  manifest: string | null;
  discarded_at: string | null;
  failure: { reason: string; detail: string | null } | null;
  acks: Ack[];
  awaited: { region: string; vertex: string; subtask: number }[];
}

export interface Savepoint {
  id: string;
  path: string;
  job: string | null;
  checkpoint: number;
  status: string;
  graph_revision: number;
  parallelism: number;
  max_parallelism: number;
  bytes: number | null;
  created_at: string;
  completed_at: string | null;
  disposed_at: string | null;
  failure: string | null;
  labels: Record<string, string>;
  parent: string | null;
}

export interface Operation {
  id: string;
  job: string;
  kind: string;
  status: "in_progress" | "completed" | "failed" | "rolled_back";
  phases: { name: string; started_at: string; ended_at: string | null; detail: string | null }[];
  result: {
    savepoint: string;
    path: string;
    parallelism?: { from: number; to: number };
    graph_revision?: { from: number; to: number };
    key_groups_moved?: number;
    moves?: { vertex: string; from: number; to: number; key_groups: number[] }[];
  } | null;
  error: string | null;
  created_at: string;
  ended_at: string | null;
}

export interface KeyGroupsAnswer {
  max_parallelism: number;
  parallelism: number;
  vertices: { vertex: string; subtasks: { subtask: number; key_groups: number[] }[] }[];
}

export interface Histogram {
  checkpoint: number;
  completed_at: string;
  max_parallelism: number;
  groups: { key_group: number | null; subtask: number; rows: number; bytes: number }[];
  empty_groups: number;
  skew: { rows: number | null; bytes: number | null };
}

export interface HistoryItem {
  id: number;
  at: string;
  kind: string;
  cause: string;
  actor: string;
  attempt: number | null;
  checkpoint: number | null;
  detail: Record<string, unknown>;
}

export interface ExceptionEntry {
  exceptionName: string;
  stacktrace: string;
  timestamp: number;
  taskName: string | null;
  failureLabels: Record<string, string>;
  "headgate-message": string;
  "headgate-attempt": number;
}

export interface StateDescription {
  region: string;
  vertex: string;
  name: string;
  operator: string;
  subtasks: number;
  key_schema: string;
  value_schema: string;
}

export interface StateList {
  checkpoint: number;
  savepoint: string | null;
  completed_at: string;
  items: StateDescription[];
}

export interface StateRows {
  checkpoint: number;
  savepoint: string | null;
  completed_at: string;
  items: {
    key: Record<string, unknown>;
    value: Record<string, unknown>;
    key_group: number | null;
    subtask: number;
  }[];
  next: string | null;
}

export interface Runner {
  id: string;
  job: string;
  attempt: number;
  host: string;
  pid: number | null;
  versions: Record<string, string>;
  slots: number | null;
  resident_bytes: number | null;
  heap_used_bytes: number | null;
  heap_max_bytes: number | null;
  launched_at: string;
  registered_at: string | null;
  heartbeat_at: string | null;
  exited_at: string | null;
  exit: string | null;
}

export interface JobManagers {
  items: {
    id: string;
    url: string;
    host: string;
    pid: number;
    version: string;
    started_at: string;
    seen_at: string;
    is_leader: boolean;
    warm: { wanted: number; primed: number; starting: number } | null;
  }[];
  leader: string | null;
  term: number;
  lease: { expires_at: string; is_in_force: boolean; remaining_ms: number };
}

export interface SampleSeries {
  region: string;
  at: string[];
  input_rows_per_second: number[];
  output_rows_per_second: number[];
  batches: number[];
  batch_ms: (number | null)[];
  phases_ms: Record<string, (number | null)[]>;
  busy: number[];
  state_rows: number[];
  state_bytes: number[];
  lag_ms: (number | null)[];
}

export interface Samples {
  since: string;
  until: string;
  step_ms: number;
  regions: SampleSeries[];
}

export interface Fault {
  vertex: string | null;
  field: string | null;
  message: string;
}

export interface DryRun {
  plan: Plan | null;
  faults: Fault[];
}

export interface UpgradePlan {
  verdict: "compatible" | "needs_flag" | "impossible";
  reasons: string[];
  changes: { vertex: string | null; field: string; before: unknown; after: unknown }[];
  state: { region: string; vertex: string | null; fate: string }[];
  spark: { region: string; accepted: boolean; error: string | null }[];
}

export interface Verification {
  files: number;
  bytes: number;
  faults: string[];
}

/** What the server said that is wrong, in its own words. */
export class ApiError extends Error {
  constructor(
    message: string,
    readonly status: number,
    readonly faults: Fault[] = [],
  ) {
    super(message);
  }
}

/** By how many milliseconds the server's clock is ahead of ours. */
export let clockSkew = 0;

export function serverNow(): number {
  return Date.now() + clockSkew;
}

/** Relative to the page, so that a proxy may put it under any prefix. */
export function url(path: string): string {
  return `v1${path}`;
}

interface Asked {
  method?: string;
  query?: Record<string, string | number | boolean | undefined | null>;
  json?: unknown;
  yaml?: string;
  headers?: Record<string, string>;
  signal?: AbortSignal;
}

export async function ask<T>(path: string, asked: Asked = {}): Promise<T> {
  const answer = await send(path, asked);
  return (answer.status === 204 ? undefined : await answer.json()) as T;
}

export async function send(path: string, asked: Asked = {}): Promise<Response> {
  const given = Object.entries(asked.query ?? {}).filter(([, value]) => value != null && value !== "");
  const query = new URLSearchParams(given.map(([name, value]) => [name, String(value)])).toString();
  const headers: Record<string, string> = { ...asked.headers };
  let body: string | null = null;
  if (asked.json !== undefined) {
    headers["Content-Type"] = "application/json";
    body = JSON.stringify(asked.json);
  } else if (asked.yaml !== undefined) {
    headers["Content-Type"] = "application/yaml";
    body = asked.yaml;
  }
  let answer: Response;
  try {
    answer = await fetch(url(path) + (query ? `?${query}` : ""), {
      method: asked.method ?? "GET",
      headers,
      body,
      cache: "no-store",
      ...(asked.signal ? { signal: asked.signal } : {}),
    });
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new ApiError("the server does not answer", 0);
  }
  noteClock(answer);
  if (!answer.ok) throw await errorOf(answer);
  return answer;
}

function noteClock(answer: Response): void {
  const said = Date.parse(answer.headers.get("Date") ?? "");
  // to the second only: a small difference is none
  if (!Number.isNaN(said)) clockSkew = Math.abs(said - Date.now()) > 3000 ? said - Date.now() : 0;
}

async function errorOf(answer: Response): Promise<ApiError> {
  try {
    const said = (await answer.json()) as {
      title?: string;
      detail?: string;
      errors?: string[];
      faults?: Fault[];
    };
    const message = said.detail ?? said.errors?.join("; ") ?? said.title ?? answer.statusText;
    return new ApiError(message, answer.status, said.faults ?? []);
  } catch {
    return new ApiError(`${answer.status} ${answer.statusText}`, answer.status);
  }
}
