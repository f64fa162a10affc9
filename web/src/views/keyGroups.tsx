// The map of key groups: a cell for each group, coloured by subtask, sized by its state.

import { useMemo, useState } from "preact/hooks";
import type { Histogram, KeyGroupsAnswer, StateList } from "../api";
import { about, setQuery, useResource } from "../hooks";
import { command } from "../logic/commands";
import { bytes, grouped, NONE, plural, shortId } from "../logic/format";
import { type Cell, cells, fill, lastMoves, shares, skew } from "../logic/keyGroups";
import { Command, Empty, Loading, Problem, Section, Table } from "../parts/basics";
import type { JobProps } from "./job";

const HUES = 12;

export function KeyGroups({ id, route, operations, status }: JobProps) {
  const found = useResource<KeyGroupsAnswer>(`/jobs/${id}/key-groups`, { on: about(id) });
  const [wantsSizes, setWantsSizes] = useState(false);
  const states = useResource<StateList>(wantsSizes ? `/jobs/${id}/state` : null);
  const vertices = found.data?.vertices ?? [];
  const chosen = vertices.find((one) => one.vertex === route.query.vertex) ?? vertices[0];
  const name = states.data?.items.find((one) => one.vertex === chosen?.vertex);
  const sizes = useResource<Histogram>(
    name ? `/jobs/${id}/state/${name.vertex}/${name.name}/key-groups` : null,
  );
  const moved = useMemo(
    () => lastMoves(operations, chosen?.vertex ?? ""),
    [operations, chosen?.vertex],
  );
  const map = useMemo(
    () =>
      chosen && found.data ? cells(chosen, found.data.max_parallelism, sizes.data, moved) : [],
    [chosen, found.data, sizes.data, moved],
  );
  if (found.error && !found.data) return <Problem error={found.error} retry={found.reload} />;
  if (!found.data) return <Loading what="key groups" />;
  if (!chosen) return <Empty title="No vertex of this job keeps keyed state" />;
  const by = route.query.by === "rows" ? "rows" : "bytes";
  const largest = Math.max(0, ...map.map((one) => one[by] ?? 0));
  const owned = shares(map);
  const readSizes = (): void => {
    setWantsSizes(true);
    if (wantsSizes) for (const one of [states, sizes]) one.reload();
  };
  const isAsking = wantsSizes && (states.isLoading || sizes.isLoading);
  return (
    <>
      <Section
        title={`${grouped(found.data.max_parallelism)} key groups on ${plural(chosen.subtasks.length, "subtask")}`}
        aside={
          <>
            {vertices.length > 1 && (
              <label>
                Vertex{" "}
                <select
                  value={chosen.vertex}
                  onChange={(event) => setQuery(route, { vertex: event.currentTarget.value })}
                >
                  {vertices.map((one) => (
                    <option key={one.vertex}>{one.vertex}</option>
                  ))}
                </select>
              </label>
            )}
            <label>
              Size by{" "}
              <select
                value={by}
                onChange={(event) => setQuery(route, { by: event.currentTarget.value })}
              >
                <option value="bytes">bytes</option>
                <option value="rows">rows</option>
              </select>
            </label>
            <button type="button" disabled={isAsking} onClick={readSizes}>
              {isAsking
                ? "Reading state …"
                : wantsSizes
                  ? "Read again"
                  : "Read sizes from the last checkpoint"}
            </button>
          </>
        }
      >
        {(states.error ?? sizes.error) && <Problem error={(states.error ?? sizes.error)!} />}
        <KeyMap cells={map} by={by} largest={largest} />
        <p class="hint">
          {sizes.data
            ? `Sizes of checkpoint ${sizes.data.checkpoint}: ${grouped(sizes.data.empty_groups)} groups are empty, the largest has ${(sizes.data.skew[by] ?? 0).toFixed(1)} times the mean.`
            : "Colours are subtasks. Sizes are read on request: Spark reads the state in the last checkpoint."}
          {moved.size > 0 &&
            ` Framed: the ${grouped(moved.size)} groups that moved at the last rescale.`}
        </p>
      </Section>
      <Section title="By subtask" aside={skewText(owned.map((one) => one[by] ?? one.groups))}>
        <Table label="Subtasks">
          <thead>
            <tr>
              <th scope="col">Subtask</th>
              <th scope="col" class="num">
                Groups
              </th>
              <th scope="col" class="num">
                Rows
              </th>
              <th scope="col" class="num">
                Bytes
              </th>
              <th scope="col">Share</th>
              <th scope="col" class="num">
                Groups that moved here
              </th>
            </tr>
          </thead>
          <tbody>
            {owned.map((one) => (
              <tr key={one.subtask}>
                <th scope="row">
                  <span class={`swatch hue-${one.subtask % HUES}`} aria-hidden="true" />
                  <span class="mono">
                    {chosen.vertex}/{one.subtask}
                  </span>
                </th>
                <td class="num">{grouped(one.groups)}</td>
                <td class="num">{one.rows === null ? NONE : grouped(one.rows)}</td>
                <td class="num">{bytes(one.bytes)}</td>
                <td>
                  <Share
                    value={one[by] ?? one.groups}
                    of={owned.map((other) => other[by] ?? other.groups)}
                    hue={one.subtask % HUES}
                  />
                </td>
                <td class="num">
                  {grouped(
                    map.filter((cell) => cell.subtask === one.subtask && cell.movedFrom !== null)
                      .length,
                  )}
                </td>
              </tr>
            ))}
          </tbody>
        </Table>
        <Command text={command("state", shortId(id), chosen.vertex, "--key-groups")} />
        {status.last_checkpoint === null && (
          <p class="hint">There is no checkpoint to read sizes from yet.</p>
        )}
      </Section>
    </>
  );
}

function KeyMap({
  cells: map,
  by,
  largest,
}: {
  cells: Cell[];
  by: "rows" | "bytes";
  largest: number;
}) {
  const [shown, setShown] = useState<Cell | null>(null);
  const size = map.length > 2000 ? 9 : 16;
  return (
    <div class="key-map-box">
      {/* biome-ignore lint/a11y/useKeyWithMouseEvents: the table below says the same */}
      <div
        class="key-map"
        style={{ "--cell": `${size}px` }}
        role="img"
        aria-label={`Map of ${map.length} key groups; the table below has the same by subtask`}
        onMouseLeave={() => setShown(null)}
        onMouseOver={(event) => {
          const group = (event.target as HTMLElement).dataset.group;
          setShown(group === undefined ? null : (map[Number(group)] ?? null));
        }}
      >
        {map.map((cell) => (
          <i
            key={cell.group}
            data-group={cell.group}
            data-subtask={cell.subtask}
            class={`hue-${cell.subtask % HUES} ${cell.movedFrom === null ? "" : "moved"}`}
          >
            <b style={{ transform: `scale(${fill(cell[by], largest)})` }} />
          </i>
        ))}
      </div>
      <p class="key-map-note mono" aria-hidden="true">
        {shown
          ? `group ${shown.group} · subtask ${shown.subtask}${shown.movedFrom === null ? "" : `, before ${shown.movedFrom}`}${shown.rows === null ? "" : ` · ${grouped(shown.rows)} rows · ${bytes(shown.bytes)}`}`
          : " "}
      </p>
    </div>
  );
}

function Share({ value, of, hue }: { value: number; of: number[]; hue: number }) {
  const most = Math.max(...of, 1);
  const sum = of.reduce((a, b) => a + b, 0);
  return (
    <span class="share">
      <span class={`hue-${hue}`} style={{ width: `${(100 * value) / most}%` }} />
      <em>{sum ? `${((100 * value) / sum).toFixed(1)} %` : NONE}</em>
    </span>
  );
}

function skewText(values: number[]): string {
  const found = skew(values);
  return found === null ? "" : `skew ${found.toFixed(2)} (largest divided by mean; 1.00 is even)`;
}
