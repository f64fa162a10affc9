// Keyed state of a checkpoint or a savepoint: look up a key, or browse.

import { useState } from "preact/hooks";
import { type ApiError, ask, type StateDescription, type StateList, type StateRows } from "../api";
import { setQuery, useResource } from "../hooks";
import { command } from "../logic/commands";
import { NONE, plural, shownValue } from "../logic/format";
import type { Route } from "../logic/route";
import { Command, Empty, Loading, Problem, Section, Table, When } from "../parts/basics";

export function StateView({
  base,
  route,
  command: words,
}: {
  base: string;
  route: Route;
  command: string[];
}) {
  const states = useResource<StateList>(`${base}/state`);
  if (states.error && !states.data) {
    return states.error.status === 409 ? (
      <Empty title="No state yet">
        <p>{states.error.message}</p>
        <button type="button" onClick={states.reload}>
          Try again
        </button>
      </Empty>
    ) : (
      <Problem error={states.error} retry={states.reload} />
    );
  }
  if (!states.data) return <Loading what="the states; the first request starts a Spark session" />;
  if (states.data.items.length === 0) return <Empty title="There is no keyed state" />;
  const chosen =
    states.data.items.find((one) => `${one.vertex}/${one.name}` === route.query.state) ??
    states.data.items[0]!;
  return (
    <Section
      title={`State of ${chosen.vertex}`}
      aside={
        <>
          {states.data.items.length > 1 && (
            <label>
              State{" "}
              <select
                value={`${chosen.vertex}/${chosen.name}`}
                onChange={(event) =>
                  setQuery(route, { state: event.currentTarget.value, key: undefined })
                }
              >
                {states.data.items.map((one) => (
                  <option
                    key={`${one.region}/${one.vertex}/${one.name}`}
                  >{`${one.vertex}/${one.name}`}</option>
                ))}
              </select>
            </label>
          )}
          <span class="muted">
            {states.data.savepoint ? "of the savepoint" : `of checkpoint ${states.data.checkpoint}`}
            , <When at={states.data.completed_at} />
          </span>
          <button type="button" onClick={states.reload}>
            Newest checkpoint
          </button>
        </>
      }
    >
      <p class="hint mono">
        {chosen.operator} · key {chosen.key_schema || "none"} · value {chosen.value_schema}
      </p>
      <Rows
        key={`${chosen.vertex}/${chosen.name}/${states.data.checkpoint}`}
        base={base}
        state={chosen}
        route={route}
        words={words}
      />
    </Section>
  );
}

function Rows({
  base,
  state,
  route,
  words,
}: {
  base: string;
  state: StateDescription;
  route: Route;
  words: string[];
}) {
  const asked = route.query.key ?? "";
  const [typed, setTyped] = useState(asked);
  const where = `${base}/state/${encodeURIComponent(state.vertex)}/${encodeURIComponent(state.name)}`;
  const found = useResource<StateRows>(asked ? `${where}/${encodeURIComponent(asked)}` : where, {
    query: { limit: 50, region: state.region },
  });
  const [more, setMore] = useState<{
    of: StateRows;
    items: StateRows["items"];
    next: string | null;
  } | null>(null);
  const [error, setError] = useState<ApiError | null>(null);
  const later = more && more.of === found.data ? more : null;
  const rows = [...(found.data?.items ?? []), ...(later?.items ?? [])];
  const next = later ? later.next : (found.data?.next ?? null);
  const load = async (): Promise<void> => {
    try {
      const page = await ask<StateRows>(asked ? `${where}/${encodeURIComponent(asked)}` : where, {
        query: { limit: 50, region: state.region, cursor: next },
      });
      setMore({
        of: found.data!,
        items: [...(later?.items ?? []), ...page.items],
        next: page.next,
      });
    } catch (caught) {
      setError(caught as ApiError);
    }
  };
  const columns = columnsOf(rows);
  return (
    <>
      <form
        class="lookup"
        onSubmit={(event) => {
          event.preventDefault();
          setQuery(route, { key: typed.trim() || undefined });
        }}
      >
        <label class="field">
          Key: a value, or a JSON object of columns
          <input
            type="search"
            class="mono"
            value={typed}
            placeholder={'5   or   {"auction": 5}'}
            onInput={(event) => setTyped(event.currentTarget.value)}
          />
        </label>
        <button type="submit" class="primary">
          Look up
        </button>
        {asked && (
          <button
            type="button"
            onClick={() => {
              setTyped("");
              setQuery(route, { key: undefined });
            }}
          >
            Browse all
          </button>
        )}
      </form>
      {found.error ? (
        <Problem error={found.error} retry={found.reload} />
      ) : !found.data ? (
        <Loading what="rows" />
      ) : rows.length === 0 ? (
        <Empty title="There are no rows" />
      ) : (
        <Table label="State rows" class="mono">
          <thead>
            <tr>
              <th scope="col" class="num">
                Group
              </th>
              <th scope="col" class="num">
                Subtask
              </th>
              {columns.key.map((one) => (
                <th key={`k${one}`} scope="col" class="num">
                  {one}
                </th>
              ))}
              {columns.value.map((one) => (
                <th key={`v${one}`} scope="col" class="num value">
                  {one}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {rows.map((row, index) => (
              <tr key={index}>
                <td class="num">{row.key_group ?? NONE}</td>
                <td class="num">{row.subtask}</td>
                {columns.key.map((one) => (
                  <td key={`k${one}`} class="num">
                    {shownValue(row.key[one])}
                  </td>
                ))}
                {columns.value.map((one) => (
                  <td key={`v${one}`} class="num value">
                    {shownValue(row.value[one])}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </Table>
      )}
      {error && <Problem error={error} />}
      {next && (
        <button type="button" onClick={() => void load()}>
          More rows
        </button>
      )}
      {found.data && (
        <p class="hint">
          {plural(rows.length, "row")}
          {next ? ", and more" : ""}
        </p>
      )}
      <Command
        text={command(
          ...words,
          state.vertex,
          state.name !== "default" && state.name,
          ...(asked ? ["--key", asked] : []),
        )}
      />
    </>
  );
}

function columnsOf(rows: StateRows["items"]): { key: string[]; value: string[] } {
  return {
    key: [...new Set(rows.flatMap((row) => Object.keys(row.key)))],
    value: [...new Set(rows.flatMap((row) => Object.keys(row.value)))],
  };
}
