// Requests to the server and the types of its answers. The types are generated from the API
// (`make types`); here they get the names that the dashboard uses.

import type * as shapes from "./generated/shapes";
import { session } from "./live/session";

export type {
  AuditPage,
  CheckpointsConfig,
  CheckpointTriggered,
  DeliveryPage,
  DryRun,
  HistoryItem,
  HistoryPage,
  JobExceptions,
  JobPlanResponse,
  JobSubmitted,
  LastCheckpoint,
  OperationList,
  PartitionLag,
  PlanNode,
  ProgressEvent,
  ProgressLine,
  ProgressSummaryEvent,
  RegionProgress,
  Role,
  RunnerPage,
  SavepointPage,
  StateList,
  SubtaskProgress,
  SummaryPage,
  TokenList,
  WebhookEvent,
  WebhookList,
  WebhookTest,
  WhoAmI,
} from "./generated/shapes";

export type Ack = shapes.AckResponse;
export type Checkpoint = shapes.CheckpointResponse;
export type CheckpointsAnswer = shapes.CheckpointsStatistics;
export type ExceptionEntry = shapes.FailedAttempt;
export type Fault = shapes.GraphFault;
export type FlinkCheckpoint = shapes.CheckpointLine;
export type GraphAnswer = shapes.GraphResponse;
export type GraphDocument = shapes.GraphResponse["graph"];
export type Histogram = shapes.KeyGroupHistogram;
export type JobManagers = shapes.JobManagerList;
export type JobState = shapes.StatusResponse["state"];
export type JobStatus = shapes.StatusResponse;
export type JobSummary = shapes.SummaryItem;
export type KeyGroupsAnswer = shapes.KeyGroupsResponse;
export type JobMeta = shapes.MetaResponse;
export type CrashCost = shapes.CrashCostResponse;
export type Lag = shapes.LagResponse;
export type Revisions = shapes.RevisionList;
export type NewToken = shapes.NewTokenResponse;
export type NewWebhook = shapes.NewWebhookResponse;
export type Operation = shapes.OperationResponse;
export type Plan = shapes.JobPlan;
export type Runner = shapes.RunnerItem;
export type SampleSeries = shapes.SeriesResponse;
export type Samples = shapes.SamplesResponse;
export type Savepoint = shapes.SavepointResponse;
export type StateDescription = shapes.StateResponse;
export type SinkRows = shapes.SinkRowsResponse;
export type StateRows = shapes.RowPage;
export type UpgradePlan = shapes.PlanResponse;
export type Verification = shapes.VerificationResponse;
export type Vertex = GraphDocument["vertices"][number];

/** An error with the server's own message. */
export class ApiError extends Error {
  constructor(
    message: string,
    readonly status: number,
    readonly faults: Fault[] = [],
  ) {
    super(message);
  }
}

/** How many milliseconds the server's clock is ahead of the browser's. */
export let clockSkew = 0;

export function serverNow(): number {
  return Date.now() + clockSkew;
}

/** Relative to the page, so that a proxy may serve it under any prefix. */
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
  const given = Object.entries(asked.query ?? {}).filter(
    ([, value]) => value != null && value !== "",
  );
  const query = new URLSearchParams(given.map(([name, value]) => [name, String(value)])).toString();
  const headers: Record<string, string> = { ...session.headers(), ...asked.headers };
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
  if (!answer.ok) {
    const error = await errorOf(answer);
    if (answer.status === 401) session.refused(error.message);
    throw error;
  }
  return answer;
}

function noteClock(answer: Response): void {
  const said = Date.parse(answer.headers.get("Date") ?? "");
  // the header has whole seconds: a small difference counts as none
  if (!Number.isNaN(said)) clockSkew = Math.abs(said - Date.now()) > 3000 ? said - Date.now() : 0;
}

async function errorOf(answer: Response): Promise<ApiError> {
  try {
    const said = (await answer.json()) as Partial<shapes.Problem & shapes.FlinkErrors>;
    const message = said.detail ?? said.errors?.join("; ") ?? said.title ?? answer.statusText;
    return new ApiError(message, answer.status, said.faults ?? []);
  } catch {
    return new ApiError(`${answer.status} ${answer.statusText}`, answer.status);
  }
}
