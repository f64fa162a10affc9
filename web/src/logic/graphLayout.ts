// Where the tasks of a plan are drawn: left to right, by dagre.

import { graphlib, layout } from "@dagrejs/dagre";
import type { PlanNode } from "../api";

export const NODE_WIDTH = 268;
const HEAD = 34;
const LINE = 21;
const FOOT = 78;

export interface PlacedNode {
  node: PlanNode;
  x: number;
  y: number;
  width: number;
  height: number;
}

export interface PlacedEdge {
  from: string;
  to: string;
  label: string;
  points: { x: number; y: number }[];
  labelAt: { x: number; y: number };
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
  graph.setGraph({ rankdir: "LR", nodesep: 28, ranksep: 92, edgesep: 24, marginx: 2, marginy: 2 });
  for (const node of nodes) {
    graph.setNode(node.id, { width: NODE_WIDTH, height: heightOf(node, compact) });
  }
  for (const node of nodes) {
    for (const input of node.inputs ?? []) {
      const edge = { width: 62, height: 18, labelpos: "c" };
      graph.setEdge(input.id, node.id, edge, String(input.num));
    }
  }
  layout(graph);
  const size = graph.graph() as { width?: number; height?: number };
  return {
    width: size.width ?? 0,
    height: size.height ?? 0,
    nodes: nodes.map((node) => {
      const at = graph.node(node.id) as { x: number; y: number; width: number; height: number };
      return { node, x: at.x - at.width / 2, y: at.y - at.height / 2, width: at.width, height: at.height };
    }),
    edges: nodes.flatMap((node) =>
      (node.inputs ?? []).map((input) => {
        const edge = graph.edge(input.id, node.id, String(input.num)) as {
          points: { x: number; y: number }[];
          x: number;
          y: number;
        };
        return {
          from: input.id,
          to: node.id,
          label: input.ship_strategy.toLowerCase(),
          points: edge.points,
          labelAt: { x: edge.x, y: edge.y },
        };
      }),
    ),
  };
}

/** A smooth line through the points. */
export function curve(points: readonly { x: number; y: number }[]): string {
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
