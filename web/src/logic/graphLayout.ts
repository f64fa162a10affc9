// Where the tasks of a plan are drawn: left to right, by dagre. No label lies on a task or on
// another label, and no edge runs behind a task.

import { graphlib, layout } from "@dagrejs/dagre";
import type { PlanNode } from "../api";

export const NODE_WIDTH = 284;
const HEAD = 34;
const LINE = 21;
const FOOT = 78;
/** Width of a letter in an edge's label: at 11 px hardly any letter is wider. */
const LETTER = 6.4;
export const LABEL_HEIGHT = 18;

export interface PlacedNode {
  node: PlanNode;
  x: number;
  y: number;
  width: number;
  height: number;
}

export interface Point {
  x: number;
  y: number;
}

export interface PlacedEdge {
  key: string;
  from: string;
  to: string;
  label: string;
  /** The size of the label, with its background. */
  labelWidth: number;
  labelAt: Point;
  points: Point[];
}

export interface Drawing {
  width: number;
  height: number;
  nodes: PlacedNode[];
  edges: PlacedEdge[];
}

export function heightOf(node: PlanNode, compact = false): number {
  return HEAD + LINE * node["headgate-vertices"].length + (compact ? 8 : FOOT);
}

export function draw(nodes: readonly PlanNode[], compact = false): Drawing {
  const graph = new graphlib.Graph({ multigraph: true });
  graph.setGraph({ rankdir: "LR", nodesep: 28, ranksep: 84, edgesep: 24, marginx: 2, marginy: 2 });
  for (const node of nodes) {
    graph.setNode(node.id, { width: NODE_WIDTH, height: heightOf(node, compact) });
  }
  const labels = new Map<string, string>();
  for (const node of nodes) {
    for (const input of node.inputs ?? []) {
      const label = input.ship_strategy.toLowerCase();
      labels.set(edgeKey(input.id, node.id, input.num), label);
      const edge = { width: widthOf(label), height: LABEL_HEIGHT, labelpos: "c" };
      graph.setEdge(input.id, node.id, edge, String(input.num));
    }
  }
  layout(graph);
  const size = graph.graph() as { width?: number; height?: number };
  const placed = nodes.map((node): PlacedNode => {
    const at = graph.node(node.id) as Point & { width: number; height: number };
    const { width, height } = at;
    return { node, x: at.x - width / 2, y: at.y - height / 2, width, height };
  });
  const edges = nodes.flatMap((node) =>
    (node.inputs ?? []).map((input): PlacedEdge => {
      const edge = graph.edge(input.id, node.id, String(input.num)) as Point & { points: Point[] };
      const key = edgeKey(input.id, node.id, input.num);
      const label = labels.get(key) ?? "";
      const labelAt = { x: edge.x, y: edge.y };
      const points = edge.points;
      return {
        key,
        from: input.id,
        to: node.id,
        label,
        labelWidth: widthOf(label),
        labelAt,
        points,
      };
    }),
  );
  return {
    width: size.width ?? 0,
    height: size.height ?? 0,
    nodes: placed,
    edges: routed(edges, placed),
  };
}

function edgeKey(from: string, to: string, number: number): string {
  return `${from}-${to}-${number}`;
}

function widthOf(label: string): number {
  return label.length * LETTER + 12;
}

/** A path from the right side of a task to the left side of the next, past tasks in between. */
function routed(edges: readonly PlacedEdge[], nodes: readonly PlacedNode[]): PlacedEdge[] {
  const columns = [...new Set(nodes.map((one) => one.x))];
  const starts = ports(edges, nodes, "from");
  const ends = ports(edges, nodes, "to");
  return edges.map((edge) => {
    const between = edge.points.slice(1, -1).flatMap((point) => {
      const left = columns.find((x) => point.x >= x && point.x <= x + NODE_WIDTH);
      if (left === undefined) return [point];
      return [
        { x: left, y: point.y },
        { x: left + NODE_WIDTH, y: point.y },
      ];
    });
    return { ...edge, points: [starts.get(edge.key)!, ...between, ends.get(edge.key)!] };
  });
}

/** Where edges leave (or reach) the side of a task: spread over it, in the order of their paths. */
function ports(
  edges: readonly PlacedEdge[],
  nodes: readonly PlacedNode[],
  end: "from" | "to",
): Map<string, Point> {
  const found = new Map<string, Point>();
  for (const node of nodes) {
    const mine = edges.filter((edge) => edge[end] === node.node.id);
    const next = (edge: PlacedEdge): number => edge.points.at(end === "from" ? 1 : -2)?.y ?? 0;
    mine.sort((a, b) => next(a) - next(b));
    mine.forEach((edge, index) => {
      const x = end === "from" ? node.x + node.width : node.x;
      found.set(edge.key, { x, y: node.y + (node.height * (index + 1)) / (mine.length + 1) });
    });
  }
  return found;
}

/** A smooth line through the points. */
export function curve(points: readonly Point[]): string {
  const [first, ...rest] = points;
  if (!first) return "";
  let path = `M${first.x},${first.y}`;
  let from = first;
  for (const to of rest) {
    const middle = (from.x + to.x) / 2;
    path += ` C${middle},${from.y} ${middle},${to.y} ${to.x},${to.y}`;
    from = to;
  }
  return path;
}
