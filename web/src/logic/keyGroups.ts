// The map of key groups: which subtask owns which group, what moved, and the skew.

import type { Histogram, KeyGroupsAnswer, Operation } from "../api";

export interface Cell {
  group: number;
  subtask: number;
  rows: number | null;
  bytes: number | null;
  /** The subtask that had the group before the last rescale; null: it did not move. */
  movedFrom: number | null;
}

export interface SubtaskShare {
  subtask: number;
  groups: number;
  rows: number | null;
  bytes: number | null;
}

/** A cell for each group, in order. */
export function cells(
  owned: KeyGroupsAnswer["vertices"][number],
  groups: number,
  sizes: Histogram | null,
  moved: ReadonlyMap<number, number>,
): Cell[] {
  const owner = new Array<number>(groups).fill(-1);
  for (const one of owned.subtasks) for (const group of one.key_groups) owner[group] = one.subtask;
  const rows = new Map<number, { rows: number; bytes: number }>();
  for (const one of sizes?.groups ?? []) {
    if (one.key_group === null) continue;
    const sum = rows.get(one.key_group) ?? { rows: 0, bytes: 0 };
    rows.set(one.key_group, { rows: sum.rows + one.rows, bytes: sum.bytes + one.bytes });
  }
  return owner.map((subtask, group) => ({
    group,
    subtask,
    rows: sizes ? (rows.get(group)?.rows ?? 0) : null,
    bytes: sizes ? (rows.get(group)?.bytes ?? 0) : null,
    movedFrom: moved.get(group) ?? null,
  }));
}

/** By group, the subtask that had it before the last completed rescale. */
export function lastMoves(operations: readonly Operation[], vertex: string): Map<number, number> {
  const last = operations.find(
    (one) => (one.kind === "rescale" || one.kind === "upgrade") && one.status === "completed",
  );
  const moved = new Map<number, number>();
  const result = last?.result;
  for (const move of result && "moves" in result ? result.moves : []) {
    if (move.vertex === vertex) for (const group of move.key_groups) moved.set(group, move.from);
  }
  return moved;
}

export function shares(found: readonly Cell[]): SubtaskShare[] {
  const by = new Map<number, SubtaskShare>();
  for (const cell of found) {
    const one = by.get(cell.subtask) ?? {
      subtask: cell.subtask,
      groups: 0,
      rows: null,
      bytes: null,
    };
    by.set(cell.subtask, {
      subtask: cell.subtask,
      groups: one.groups + 1,
      rows: cell.rows === null ? one.rows : (one.rows ?? 0) + cell.rows,
      bytes: cell.bytes === null ? one.bytes : (one.bytes ?? 0) + cell.bytes,
    });
  }
  return [...by.values()].sort((a, b) => a.subtask - b.subtask);
}

/** The largest divided by the mean; 1 is even, null if there is nothing. */
export function skew(values: readonly (number | null)[]): number | null {
  const known = values.filter((one): one is number => one !== null);
  const sum = known.reduce((total, one) => total + one, 0);
  return sum > 0 ? (Math.max(...known) * known.length) / sum : null;
}

/** How much of a cell is filled, 0.25 to 1, by the square root: a group of 4 looks twice 1. */
export function fill(value: number | null, largest: number): number {
  if (value === null) return 1;
  if (value <= 0 || largest <= 0) return 0;
  return 0.25 + 0.75 * Math.sqrt(value / largest);
}

export function divisors(maximum: number): number[] {
  const found: number[] = [];
  for (let n = 1; n <= maximum; n += 1) if (maximum % n === 0) found.push(n);
  return found;
}
