// A uPlot chart in the page's colours and the size of its box, redrawn when either changes.

import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { useColours } from "../hooks";
import { LETTERS, type Mark, type MarkKind } from "../logic/marks";
import type { Column } from "../logic/series";

export interface Line {
  label: string;
  /** A custom property of the style sheet. */
  colour: string;
  values: Column;
  fill?: boolean;
  bars?: boolean;
  points?: boolean;
  /** On an axis of its own, at the right. */
  isRight?: boolean;
}

export interface ChartProps {
  label: string;
  times: number[];
  lines: Line[];
  format: (value: number) => string;
  formatRight?: (value: number) => string;
  height?: number;
  range?: [number, number];
  sync?: string;
  /** Drawn as vertical lines, each with its letter. */
  marks?: readonly Mark[] | null;
  /** Ticks at powers of two, for bytes: "left" or "right" axis. */
  binary?: "left" | "right";
}

const POWERS = Array.from({ length: 50 }, (_, n) => 2 ** n);

export function Chart(props: ChartProps) {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const colours = useColours();
  // Properties that need a new chart; new values are only passed to the present chart.
  const shape = JSON.stringify([
    props.lines.map((one) => [one.label, one.colour]),
    colours,
    props.height,
  ]);
  const latest = useRef(props);
  latest.current = props;
  const data = (): uPlot.AlignedData =>
    [latest.current.times, ...latest.current.lines.map((one) => one.values)] as uPlot.AlignedData;

  useEffect(() => {
    const element = box.current!;
    plot.current = new uPlot(options(latest, element), data(), element);
    const watcher = new ResizeObserver(() => {
      plot.current?.setSize({ width: element.clientWidth, height: latest.current.height ?? 180 });
    });
    watcher.observe(element);
    return () => {
      watcher.disconnect();
      plot.current?.destroy();
      plot.current = null;
    };
  }, [shape]);

  useEffect(() => {
    plot.current?.setData(data());
  }, [props.times, props.lines]);

  useEffect(() => {
    plot.current?.redraw();
  }, [props.marks]);

  return <div class="chart" ref={box} role="img" aria-label={`${props.label}. ${spoken(props)}`} />;
}

/** Ticks on a 24-hour clock; with seconds or the day where the step needs them. */
function clock(at: number, step: number): string {
  const date = new Date(at * 1000);
  const two = (value: number): string => String(value).padStart(2, "0");
  const time = `${two(date.getHours())}:${two(date.getMinutes())}`;
  if (step < 60) return `${time}:${two(date.getSeconds())}`;
  return step < 43_200 ? time : `${two(date.getMonth() + 1)}-${two(date.getDate())} ${time}`;
}

function spoken(props: ChartProps): string {
  return props.lines
    .map((one) => {
      const last = one.values.findLast((value) => value !== null);
      const format = one.isRight && props.formatRight ? props.formatRight : props.format;
      return last == null ? "" : `${one.label} ${format(last)}`;
    })
    .filter(Boolean)
    .join(", ");
}

/** The colour of a custom property in the present theme: a canvas does not know `light-dark()`. */
function resolved(name: string, element: HTMLElement): string {
  const probe = document.createElement("i");
  probe.style.color = `var(${name}, gray)`;
  element.append(probe);
  const colour = getComputedStyle(probe).color;
  probe.remove();
  return colour;
}

const MARK_COLOURS: Record<MarkKind, string> = {
  restart: "--restarting",
  failure: "--failed",
  pause: "--cancelling",
  rescale: "--savepoint",
  deploy: "--starting",
  leader: "--cancelled",
};
const LEAST_PX = 12;

/** Draws a dashed line for each mark, with letters only where they do not touch. */
function drawMarks(
  plot: uPlot,
  marks: readonly Mark[],
  colours: ReadonlyMap<string, string>,
): void {
  const { ctx, bbox } = plot;
  const ratio = devicePixelRatio || 1;
  let lettered = Number.NEGATIVE_INFINITY;
  ctx.save();
  ctx.setLineDash([3 * ratio, 3 * ratio]);
  ctx.lineWidth = ratio;
  ctx.font = `600 ${10 * ratio}px system-ui`;
  ctx.textAlign = "center";
  for (const one of marks) {
    const x = Math.round(plot.valToPos(one.at / 1000, "x", true));
    if (x < bbox.left || x > bbox.left + bbox.width) continue;
    ctx.strokeStyle = ctx.fillStyle = colours.get(one.kind) ?? "gray";
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
    if (x - lettered < LEAST_PX * ratio) continue;
    lettered = x;
    ctx.fillText(LETTERS[one.kind], x, bbox.top + 8 * ratio);
  }
  ctx.restore();
}

function options(latest: { current: ChartProps }, element: HTMLElement): uPlot.Options {
  const props = latest.current;
  const colour = (name: string): string => resolved(name, element);
  const markColours = new Map(
    Object.entries(MARK_COLOURS).map(([kind, name]) => [kind, colour(name)]),
  );
  const axis = {
    stroke: colour("--muted"),
    grid: { stroke: colour("--line"), width: 1 },
    ticks: { show: false },
    font: "11px system-ui",
  };
  const hasRight = props.lines.some((one) => one.isRight);
  const axes: uPlot.Axis[] = [
    {
      ...axis,
      space: 80,
      size: 30,
      values: (_, ticks, __, ___, step) => ticks.map((one) => clock(one, step)),
    },
    {
      ...axis,
      size: 62,
      ...(props.binary === "left" ? { incrs: POWERS } : {}),
      values: (_, values) => values.map((one) => props.format(one)),
    },
  ];
  if (hasRight) {
    axes.push({
      ...axis,
      grid: { show: false },
      scale: "right",
      side: 1,
      size: 62,
      ...(props.binary === "right" ? { incrs: POWERS } : {}),
      values: (_, values) => values.map((one) => (props.formatRight ?? props.format)(one)),
    });
  }
  return {
    hooks: { draw: [(plot) => drawMarks(plot, latest.current.marks ?? [], markColours)] },
    width: element.clientWidth || 600,
    height: props.height ?? 180,
    padding: [8, hasRight ? 0 : 12, 0, 0],
    cursor: { y: false, points: { size: 6 }, ...(props.sync ? { sync: { key: props.sync } } : {}) },
    legend: { live: true },
    scales: {
      x: props.range ? { range: () => latest.current.range! } : {},
      y: { range: (_, low, high) => [Math.min(0, low ?? 0), (high || 1) * 1.08] },
      ...(hasRight
        ? {
            right: {
              range: (_: uPlot, low: number, high: number) =>
                [Math.min(0, low ?? 0), (high || 1) * 1.08] as [number, number],
            },
          }
        : {}),
    },
    axes,
    series: [
      { label: "Time", value: (_, at) => (at == null ? "–" : clock(at, 1)) },
      ...props.lines.map(
        (one): uPlot.Series => ({
          label: one.label,
          scale: one.isRight ? "right" : "y",
          stroke: colour(one.colour),
          width: one.bars ? 0 : 1.5,
          ...(one.fill ? { fill: colour(one.colour) } : {}),
          ...(one.bars
            ? { fill: colour(one.colour), paths: uPlot.paths.bars!({ size: [0.7, 14], align: 0 }) }
            : {}),
          points: { show: one.points ?? false, size: 5 },
          value: (_, value) =>
            value == null
              ? "–"
              : (one.isRight && props.formatRight ? props.formatRight : props.format)(value),
        }),
      ),
    ],
  };
}
