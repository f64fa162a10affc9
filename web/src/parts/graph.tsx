// The plan, laid out left to right. Nodes are buttons over a drawing of the edges.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { GraphDocument, Plan } from "../api";
import { compact, bytes as sized } from "../logic/format";
import { curve, draw, LABEL_HEIGHT, type PlacedNode } from "../logic/graphLayout";
import type { TaskFigures } from "../logic/tasks";
import { Meter, When } from "./basics";

/** The smallest scale: on a narrow screen a graph scrolls instead of becoming too small to read. */
const LEAST_SCALE = (width: number): number => (width < 600 ? 0.9 : 0.75);

export function Graph({
  plan,
  graph,
  figures,
  selected,
  onSelect,
}: {
  plan: Plan;
  graph?: GraphDocument | undefined;
  /** Figures by task id; without them only the plan is shown. */
  figures?: Map<string, TaskFigures> | undefined;
  selected?: string | undefined;
  onSelect?: (id: string) => void;
}) {
  const drawing = useMemo(() => draw(plan.nodes, !figures), [plan, !figures]);
  const box = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(0);
  useEffect(() => {
    const watcher = new ResizeObserver(([seen]) => setWidth(seen?.contentRect.width ?? 0));
    watcher.observe(box.current!);
    return () => watcher.disconnect();
  }, []);
  const scale = width ? Math.max(LEAST_SCALE(width), Math.min(1, width / drawing.width)) : 1;
  return (
    <div class="graph" ref={box} tabIndex={0} role="group" aria-label="Job graph">
      <div style={{ width: px(drawing.width * scale), height: px(drawing.height * scale) }}>
        <div
          class="graph-canvas"
          style={{
            width: px(drawing.width),
            height: px(drawing.height),
            transform: `scale(${scale})`,
          }}
        >
          <svg width={drawing.width} height={drawing.height} aria-hidden="true">
            <defs>
              <marker
                id="arrow"
                viewBox="0 0 8 8"
                refX="7"
                refY="4"
                markerWidth="7"
                markerHeight="7"
                orient="auto"
              >
                <path d="M0,0 L8,4 L0,8 z" />
              </marker>
            </defs>
            {drawing.edges.map((edge) => (
              <g key={edge.key}>
                <path class="edge" d={curve(edge.points)} marker-end="url(#arrow)" />
                <rect
                  class="edge-plate"
                  x={edge.labelAt.x - edge.labelWidth / 2}
                  y={edge.labelAt.y - LABEL_HEIGHT / 2}
                  width={edge.labelWidth}
                  height={LABEL_HEIGHT}
                  rx={3}
                />
                <text
                  class="edge-label"
                  x={edge.labelAt.x}
                  y={edge.labelAt.y + 4}
                  text-anchor="middle"
                >
                  {edge.label}
                </text>
              </g>
            ))}
          </svg>
          {drawing.nodes.map((placed) => (
            <Task
              key={placed.node.id}
              placed={placed}
              graph={graph}
              figures={figures?.get(placed.node.id)}
              isSelected={selected === placed.node.id}
              {...(onSelect ? { onSelect: () => onSelect(placed.node.id) } : {})}
            />
          ))}
        </div>
      </div>
    </div>
  );
}

function Task({
  placed,
  graph,
  figures,
  isSelected,
  onSelect,
}: {
  placed: PlacedNode;
  graph: GraphDocument | undefined;
  figures: TaskFigures | undefined;
  isSelected: boolean;
  onSelect?: () => void;
}) {
  const { node } = placed;
  const ops = new Map((graph?.vertices ?? []).map((one) => [one.id, one.op]));
  const inside = (
    <>
      <span class="task-head">
        <strong title={node["headgate-vertices"].join(" → ")}>
          {node["headgate-vertices"].join(" → ")}
        </strong>
        <span class="task-width" title="parallelism">
          ×{node.parallelism}
        </span>
      </span>
      <span class="task-vertices">
        {node["headgate-vertices"].map((id) => (
          <span key={id} title={whatOf(node.description, id)}>
            <span class="op">{ops.get(id) ?? opOf(node.description, id)}</span>
            <span class="what">{whatOf(node.description, id)}</span>
          </span>
        ))}
      </span>
      {figures && <Figures figures={figures} />}
    </>
  );
  const style = {
    left: px(placed.x),
    top: px(placed.y),
    width: px(placed.width),
    height: px(placed.height),
  };
  return onSelect ? (
    <button type="button" class="task" style={style} aria-pressed={isSelected} onClick={onSelect}>
      {inside}
    </button>
  ) : (
    <div class="task" style={style}>
      {inside}
    </div>
  );
}

function Figures({ figures }: { figures: TaskFigures }) {
  return (
    <span class="task-figures">
      <span>
        <i>in</i>
        {figures.inRate === null ? (
          <abbr title="Spark does not count rows between tasks">–</abbr>
        ) : (
          `${compact(figures.inRate)}/s`
        )}
      </span>
      <span>
        <i>out</i>
        {figures.outRate === null ? (
          <abbr title="Spark does not count rows between tasks">–</abbr>
        ) : (
          `${compact(figures.outRate)}/s`
        )}
      </span>
      <span title="Share of the time in which batches of its region run">
        <i>busy</i>
        <Meter share={figures.busy} label="busy" />
      </span>
      <span>
        <i>{figures.stateBytes === null ? "backlog" : "state"}</i>
        {figures.stateBytes === null ? backlog(figures) : sized(figures.stateBytes)}
      </span>
      <span class="span-2">
        <i>watermark</i>
        <When at={figures.watermark} />
      </span>
    </span>
  );
}

export function backlog(figures: TaskFigures): string {
  if (figures.backlogRows !== null) return `${compact(figures.backlogRows)} rows`;
  if (figures.inputWaits === null) return "–";
  return figures.inputWaits ? "waiting" : "none";
}

/** Adds the unit, which Preact does not. */
function px(value: number): string {
  return `${value}px`;
}

/** The plan describes each vertex as "id: op(what)". */
function describe(description: string, id: string): [op: string, what: string] {
  const line = description.split("<br/>").find((one) => one.startsWith(`${id}: `)) ?? "";
  const found = /^[^:]+: (\w+)\((.*)\)$/.exec(line);
  return [found?.[1] ?? "", found?.[2] ?? ""];
}

const opOf = (description: string, id: string): string => describe(description, id)[0];
const whatOf = (description: string, id: string): string => describe(description, id)[1];
