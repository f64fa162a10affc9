import { describe, expect, test } from "vitest";
import type {
  HistoryItem,
  JobSummary,
  KeyGroupsAnswer,
  Operation,
  PlanNode,
  RegionProgress,
  Samples,
  Savepoint,
  SubtaskProgress,
} from "../api";
import { EventParser, type ServerEvent } from "../live/sse";
import { command, quoted } from "./commands";
import { curve, draw } from "./graphLayout";
import { labelsIn, matching, sorted, toggled, type View } from "./jobsTable";
import { cells, divisors, fill, lastMoves, shares, skew } from "./keyGroups";
import { tree } from "./lineage";
import { Meters, RateMeter } from "./rates";
import { link, parse } from "./route";
import { axis, column, rangeMs, stacked } from "./series";
import { busyShare, figuresOf, look, waitingShare } from "./tasks";
import { rootCause, stories } from "./timeline";
import { toYaml } from "./yaml";

describe("server-sent events", () => {
  const parsed = (...chunks: string[]): { events: ServerEvent[]; comments: number } => {
    const events: ServerEvent[] = [];
    let comments = 0;
    const parser = new EventParser(
      (event) => events.push(event),
      () => (comments += 1),
    );
    for (const chunk of chunks) parser.feed(chunk);
    return { events, comments };
  };
  test("an event may come in pieces", () => {
    const { events } = parsed("id: 7\nev", "ent: job_running\nda", 'ta: {"a":1}\n', "\n");
    expect(events).toEqual([{ id: "7", kind: "job_running", data: '{"a":1}' }]);
  });
  test("a comment is no event, and an id belongs to its event only", () => {
    const { events, comments } = parsed(": alive\n\nid: 1\ndata: a\n\ndata: b\n\n");
    expect(comments).toBe(1);
    expect(events.map((one) => one.id)).toEqual(["1", null]);
  });
  test("several lines of data are one, and carriage returns go", () => {
    expect(parsed("data: a\r\ndata: b\r\n\r\n").events[0]?.data).toBe("a\nb");
  });
});

describe("the address", () => {
  test("what is linked is parsed again", () => {
    const there = link(["jobs", "a b", "state"], { key: '{"a": 5}', none: undefined });
    expect(parse(there)).toEqual({ path: ["jobs", "a b", "state"], query: { key: '{"a": 5}' } });
  });
  test("a broken escape is no error", () => expect(parse("#/jobs/%E0%A4%A").path[0]).toBe("jobs"));
});

describe("rates", () => {
  test("are the difference over the window", () => {
    const meter = new RateMeter(4_000);
    for (let s = 0; s <= 10; s += 1) meter.see(s * 1000, s * 50);
    expect(meter.perSecond).toBe(50);
  });
  test("one look is no rate, and a count that goes back begins anew", () => {
    const meter = new RateMeter();
    meter.see(0, 100);
    expect(meter.perSecond).toBeNull();
    meter.see(1000, 300);
    expect(meter.perSecond).toBe(200);
    meter.see(2000, 10);
    expect(meter.perSecond).toBeNull();
  });
  test("looks do not pile up", () => {
    const meter = new RateMeter(5_000);
    for (let n = 0; n < 10_000; n += 1) meter.see(n * 1000, n);
    expect((meter as unknown as { looks: unknown[] }).looks.length).toBeLessThan(10);
  });
});

function job(id: string, more: Partial<JobSummary> = {}): JobSummary {
  return {
    id,
    name: id,
    mode: "streaming",
    state: "running",
    reason: "",
    since: "",
    submitted_at: "2026-11-16T12:00:00Z",
    ended_at: null,
    running_since: null,
    attempt: 1,
    restarts: 0,
    parallelism: 2,
    failed_checkpoints: 0,
    restored_from: null,
    traffic: null,
    lag: null,
    last_checkpoint: null,
    recent: [],
    meta: { owner: null, description: null, runbook: null, labels: {} },
    ...more,
  };
}

describe("the table of jobs", () => {
  const view: View = { text: "", states: [], labels: [], sort: "lag", descending: true };
  const jobs = [
    job("a", { lag: 5 }),
    job("b", { lag: null }),
    job("c", { lag: 50, state: "failed" }),
  ];
  const ids = (found: JobSummary[]): string => found.map((one) => one.id).join("");
  test("sorts either way, what has no figure last", () => {
    expect(ids(sorted(jobs, view, () => null))).toBe("cab");
    expect(ids(sorted(jobs, { ...view, descending: false }, () => null))).toBe("acb");
  });
  test("filters by state, name and the start of an id", () => {
    expect(ids(matching(jobs, { ...view, states: ["failed"] }))).toBe("c");
    expect(
      ids(matching([job("xyz1"), job("q", { name: "Revenue" })], { ...view, text: "reven" })),
    ).toBe("q");
    expect(ids(matching([job("xyz1"), job("q")], { ...view, text: "xyz" }))).toBe("xyz1");
  });
  test("filters by all chosen labels, and finds owners and labels", () => {
    const meta = { owner: "Payments", description: null, runbook: null };
    const labelled = [
      job("a", { meta: { ...meta, labels: { tier: "1", area: "a=b" } } }),
      job("b", { meta: { ...meta, owner: null, labels: { tier: "1" } } }),
      job("c"),
    ];
    expect(ids(matching(labelled, { ...view, labels: ["tier=1"] }))).toBe("ab");
    expect(ids(matching(labelled, { ...view, labels: ["tier=1", "area=a=b"] }))).toBe("a");
    expect(ids(matching(labelled, { ...view, labels: ["tier=2"] }))).toBe("");
    expect(ids(matching(labelled, { ...view, text: "paym" }))).toBe("a");
    expect(ids(matching(labelled, { ...view, text: "tier=" }))).toBe("ab");
  });
  test("takes the labels of an address as they are, and nothing for nonsense", () => {
    expect(labelsIn('["tier=1"]')).toEqual(["tier=1"]);
    expect(labelsIn(undefined)).toEqual([]);
    expect(labelsIn("tier=1")).toEqual([]);
    expect(labelsIn('{"tier": 1}')).toEqual([]);
    expect(toggled(["a=1"], "b=2")).toEqual(["a=1", "b=2"]);
    expect(toggled(["a=1", "b=2"], "a=1")).toEqual(["b=2"]);
  });
});

describe("key groups", () => {
  const owned = (p: number, groups: number): KeyGroupsAnswer["vertices"][number] => ({
    vertex: "v",
    subtasks: Array.from({ length: p }, (_, subtask) => ({
      subtask,
      key_groups: Array.from({ length: groups }, (_, g) => g).filter((g) => g % p === subtask),
    })),
  });
  test("each group has one cell with its owner", () => {
    const map = cells(owned(3, 12), 12, null, new Map([[5, 1]]));
    expect(map.map((one) => one.subtask)).toEqual([0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2]);
    expect(map[5]?.movedFrom).toBe(1);
    expect(shares(map).map((one) => one.groups)).toEqual([4, 4, 4]);
  });
  test("only the last completed change counts as moved", () => {
    const change = (status: Operation["status"], group: number): Operation => ({
      id: "o",
      job: "j",
      kind: "rescale",
      status,
      phases: [],
      error: null,
      created_at: "",
      ended_at: null,
      result: {
        savepoint: "s",
        path: "p",
        moves: [{ vertex: "v", from: 0, to: 1, key_groups: [group] }],
      },
    });
    const found = lastMoves(
      [change("rolled_back", 1), change("completed", 2), change("completed", 3)],
      "v",
    );
    expect([...found]).toEqual([[2, 0]]);
  });
  test("skew is the largest by the mean", () => {
    expect(skew([10, 10, 10])).toBe(1);
    expect(skew([0, 0, 30])).toBe(3);
    expect(skew([null])).toBeNull();
  });
  test("only divisors are offered", () => expect(divisors(12)).toEqual([1, 2, 3, 4, 6, 12]));
  test("an empty group is not filled, the largest is", () => {
    expect(fill(0, 10)).toBe(0);
    expect(fill(10, 10)).toBe(1);
    expect(fill(null, 10)).toBe(1);
  });
});

describe("lineage", () => {
  const savepoint = (id: string, parent: string | null, at: number): Savepoint => ({
    id,
    parent,
    path: `file:///s/${id}`,
    job: "j",
    drained: false,
    checkpoint: 1,
    status: "completed",
    graph_revision: 1,
    parallelism: 2,
    max_parallelism: 4,
    bytes: 1,
    created_at: new Date(at).toISOString(),
    completed_at: null,
    disposed_at: null,
    failure: null,
    labels: {},
    regions: {},
  });
  const A = "a".repeat(32);
  const B = "b".repeat(32);
  const C = "c".repeat(32);
  test("children are below their parent, by id or by path, the newest first", () => {
    const all = [
      savepoint(A, null, 1),
      savepoint(B, `savepoint ${A}`, 2),
      savepoint(C, `savepoint file:///s/${A}`, 3),
    ];
    expect(tree(all, []).map((one) => [one.savepoint.id[0], one.depth])).toEqual([
      ["a", 0],
      ["c", 1],
      ["b", 1],
    ]);
  });
  test("a circle, or a parent that is gone, loses nothing", () => {
    const all = [
      savepoint(A, `savepoint ${B}`, 1),
      savepoint(B, `savepoint ${A}`, 2),
      savepoint(C, `savepoint ${"f".repeat(32)}`, 3),
    ];
    expect(
      tree(all, [])
        .map((one) => one.savepoint.id)
        .sort(),
    ).toEqual([A, B, C]);
  });
  test("jobs that were started from it are its forks", () => {
    const [branch] = tree(
      [savepoint(A, null, 1)],
      [job("x", { restored_from: `savepoint ${A}` }), job("y")],
    );
    expect(branch?.forks.map((one) => one.id)).toEqual(["x"]);
  });
});

/** Points on what `curve` draws. */
function along(points: readonly { x: number; y: number }[]): { x: number; y: number }[] {
  return points.slice(1).flatMap((to, index) => {
    const from = points[index]!;
    return Array.from({ length: 39 }, (_, n) => {
      const t = (n + 1) / 40;
      const u = 1 - t;
      const middle = (from.x + to.x) / 2;
      const bezier = (p0: number, p1: number, p2: number, p3: number): number =>
        u ** 3 * p0 + 3 * u * u * t * p1 + 3 * u * t * t * p2 + t ** 3 * p3;
      return { x: bezier(from.x, middle, middle, to.x), y: bezier(from.y, from.y, to.y, to.y) };
    });
  });
}

function planNode(id: string, vertices: string[]): PlanNode {
  return {
    id,
    parallelism: 2,
    description: "",
    operator: "",
    operator_strategy: "",
    optimizer_properties: {},
    "headgate-vertices": vertices,
  };
}

describe("the graph", () => {
  const node = (id: string, ...inputs: string[]): PlanNode => ({
    ...planNode(id, [id]),
    inputs: inputs.map((one, num) => ({
      id: one,
      num,
      exchange: "pipelined_bounded",
      ship_strategy: "HASH",
    })),
  });
  test("goes from left to right and overlaps nothing", () => {
    const { nodes, edges } = draw([node("a"), node("b"), node("c", "a", "b"), node("d", "c")]);
    const at = new Map(nodes.map((one) => [one.node.id, one]));
    for (const edge of edges)
      expect(at.get(edge.from)!.x + at.get(edge.from)!.width).toBeLessThan(at.get(edge.to)!.x);
    for (const one of nodes) {
      for (const other of nodes) {
        if (one === other) continue;
        const apart =
          one.x + one.width <= other.x ||
          other.x + other.width <= one.x ||
          one.y + one.height <= other.y ||
          other.y + other.height <= one.y;
        expect(apart).toBe(true);
      }
    }
    expect(edges.map((one) => one.label)).toEqual(["hash", "hash", "hash"]);
  });
  test("no label lies on a task or another label, and no edge runs behind a task", () => {
    const { nodes, edges } = draw([
      node("a"),
      node("b"),
      node("c"),
      node("d", "a", "a"),
      node("e", "a", "b"),
      node("f", "e", "c", "d"),
      node("g", "f", "a"),
      node("h", "a", "b", "c"),
    ]);
    type Box = { x: number; y: number; width: number; height: number };
    const meet = (a: Box, b: Box): boolean =>
      a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height;
    const labels = edges.map(
      ({ labelAt: { x, y }, labelWidth: width }): Box => ({
        x: x - width / 2,
        y: y - 9,
        width,
        height: 18,
      }),
    );
    expect(new Set(edges.map((one) => one.key)).size).toBe(edges.length);
    labels.forEach((label, index) => {
      expect([...nodes, ...labels.slice(index + 1)].filter((other) => meet(label, other))).toEqual(
        [],
      );
    });
    for (const edge of edges) {
      for (const point of along(edge.points)) {
        const behind = nodes.filter((one) => meet({ ...point, width: 0, height: 0 }, one));
        expect(behind.map((one) => [edge.key, one.node.id])).toEqual([]);
      }
    }
  });
  test("a line through no point is none", () => expect(curve([])).toBe(""));
});

test("a subtask is as busy as its own tasks", () => {
  const one = (subtask: number | null, busy: number): SubtaskProgress => ({
    vertex: "sum",
    subtask,
    records_in: 1,
    records_out: null,
    bytes_in: 1,
    bytes_out: null,
    busy_ms: 1,
    backpressured_ms: 0,
    records_in_per_second: 1,
    records_out_per_second: null,
    bytes_in_per_second: 1,
    bytes_out_per_second: null,
    busy_ms_per_second: busy,
    backpressured_ms_per_second: 100,
  });
  expect([busyShare(one(0, 250), 4), busyShare(one(null, 1000), 4)]).toEqual([0.25, 0.25]);
  expect(busyShare(one(0, 1500), 4)).toBe(1);
  expect([waitingShare(one(0, 0), 4), waitingShare(one(null, 0), 4)]).toEqual([0.1, 0.025]);
});

test("figures of a task come from the regions it is in", () => {
  const region = (input: number, output: number, busy: number): RegionProgress => ({
    region: "out",
    batch: 1,
    batches: 1,
    is_active: true,
    is_idle: false,
    input_rows: input,
    output_rows: output,
    input_rows_per_second: 9,
    processed_rows_per_second: 9,
    batch_duration_ms: 1,
    median_batch_ms: 1,
    watermark: "2026-11-16T12:00:00Z",
    state_rows: 0,
    state_bytes: 0,
    offsets: {},
    progressed_at: null,
    input_waiting: true,
    activity: null,
    busy_ms: busy,
    batch_started_at: null,
    unmoved_ms: 0,
    accumulators: {},
    loops: [],
    measured_batches: 0,
    phases_ms: {},
    uncheckpointed_rows: null,
    uncheckpointed_busy_ms: null,
    has_checkpoint_of_attempt: false,
    subtasks: [],
    sources: [
      {
        vertex: "bids",
        input_rows_per_second: 9,
        processed_rows_per_second: 9,
        backlog_rows: null,
        lags: [
          { partition: "bids-0", position: 5, end: 6, rows: 1, seconds: 0.5 },
          { partition: "bids-1", position: 5, end: 9, rows: 4, seconds: null },
        ],
        unreadable_rows: 3,
      },
    ],
    operators: [
      {
        vertex: "sum",
        operator: "agg",
        updated_rows: 4,
        dropped_rows: 1,
        state_rows: 0,
        state_bytes: 77,
        commit_ms: 0,
      },
    ],
  });
  const meters = new Meters();
  look([region(0, 0, 0)], 0, meters);
  look([region(100, 20, 500)], 1000, meters);
  const nodes = [planNode("1", ["bids"]), planNode("2", ["sum", "out"])];
  const everything = {
    id: "out",
    vertices: ["bids", "sum", "out"],
    root: "out",
    sinks: ["out"],
    "output-mode": "append",
  };
  const plan = { jid: "j", name: "j", type: "STREAMING", nodes, "headgate-regions": [everything] };
  const source = figuresOf(nodes[0]!, plan, [region(100, 20, 500)], meters);
  const sink = figuresOf(nodes[1]!, plan, [region(100, 20, 500)], meters);
  expect([source.inRate, source.outRate, source.busy, source.inputWaits]).toEqual([
    9,
    null,
    0.5,
    true,
  ]);
  expect(source.lags.map((one) => one.partition)).toEqual(["bids-1", "bids-0"]);
  expect([source.unreadableRows, sink.unreadableRows]).toEqual([3, null]);
  expect([sink.inRate, sink.outRate, sink.stateBytes, sink.droppedRows]).toEqual([null, 20, 77, 1]);
});

describe("samples", () => {
  const samples = (at: number[], values: (number | null)[]): Samples => ({
    since: "",
    until: "",
    step_ms: 10_000,
    regions: [
      {
        region: "r",
        at: at.map((one) => new Date(one * 1000).toISOString()),
        input_rows_per_second: [],
        output_rows_per_second: [],
        batches: [],
        batch_ms: values,
        phases_ms: {},
        busy: [],
        state_rows: [],
        state_bytes: [],
        lag_ms: [],
        backlog_rows: [],
      },
    ],
  });
  test("a missing bin is a gap", () => {
    const found = samples([0, 10, 30], [1, 2, 4]);
    const times = axis(found);
    expect(times).toEqual([0, 10, 20, 30]);
    expect(column(times, found.regions[0]!, [1, 2, 4])).toEqual([1, 2, null, 4]);
  });
  test("stacked columns end in the sum", () =>
    expect(
      stacked([
        [1, null],
        [2, 5],
      ]),
    ).toEqual([
      [1, null],
      [3, 5],
    ]));
  test("an unknown range is the shortest", () => expect(rangeMs("x")).toBe(900_000));
});

test("history is told by attempt, and knows its root cause", () => {
  const entry = (id: number, kind: string, attempt: number | null): HistoryItem => ({
    id,
    kind,
    attempt,
    at: "",
    cause: "",
    actor: "runner",
    actor_name: null,
    checkpoint: null,
    detail: {},
  });
  const items = [
    entry(5, "job_running", 2),
    entry(4, "leader_changed", null),
    entry(3, "attempt_failed", 1),
    entry(2, "attempt_running", 1),
    entry(1, "job_submitted", null),
  ];
  expect(stories(items).map((one) => [one.attempt, one.entries.length])).toEqual([
    [2, 2],
    [1, 3],
  ]);
  expect(rootCause(items)?.id).toBe(3);
});

describe("YAML", () => {
  test("leaves nothing that could be read as something else", () => {
    expect(
      toYaml({ name: "a", when: "yes", price: "id % 20", n: 5, d: "10s", empty: [], none: null }),
    ).toBe('name: a\nwhen: "yes"\nprice: "id % 20"\n"n": 5\nd: "10s"\nempty: []\nnone: null\n');
  });
  test("vertices are a block, one each", () => {
    expect(
      toYaml({
        vertices: [
          { id: "a", op: "source" },
          { id: "b", inputs: ["a"] },
        ],
      }),
    ).toBe("vertices:\n  - {id: a, op: source}\n  - {id: b, inputs: [a]}\n");
  });
});

test("commands are as a shell reads them", () => {
  expect(command("state", "3f2a", "--key", '{"a": 5}', false && "--x")).toBe(
    `headgate state 3f2a --key '{"a": 5}'`,
  );
  expect(quoted("it's")).toBe(`'it'\\''s'`);
});
