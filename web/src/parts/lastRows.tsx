// The newest rows of a sink, read when somebody asks: a Spark session may have to start for them.

import { useState } from "preact/hooks";
import type { SinkRows } from "../api";
import { useBar, useResource } from "../hooks";
import { command } from "../logic/commands";
import { shownValue } from "../logic/format";
import { Command, Empty, Loading, Problem, Section, Table } from "./basics";

export function LastRows({ job, sink }: { job: string; sink: string }) {
  const bar = useBar("operator");
  const [isWanted, setWanted] = useState(false);
  const path = `/jobs/${job}/sinks/${encodeURIComponent(sink)}/rows`;
  const found = useResource<SinkRows>(isWanted ? path : null, { query: { limit: 20 } });
  return (
    <Section
      title={`Last rows of ${sink}`}
      aside={
        <button
          type="button"
          disabled={bar !== null}
          title={bar ?? "Read the newest rows from the output"}
          onClick={() => (isWanted ? found.reload() : setWanted(true))}
        >
          {isWanted ? "Read again" : "Show rows"}
        </button>
      }
    >
      {!isWanted ? (
        <p class="hint">{bar ?? "Rows are read from the output itself, not from the job."}</p>
      ) : found.error ? (
        <Problem error={found.error} retry={found.reload} />
      ) : !found.data ? (
        <Loading what="rows; a Spark session may have to start" />
      ) : (
        <Rows found={found.data} />
      )}
      <Command text={command("rows", job, sink)} />
    </Section>
  );
}

function Rows({ found }: { found: SinkRows }) {
  if (found.rows.length === 0) return <Empty title={`There are no rows yet: ${found.origin}`} />;
  return (
    <>
      <Table label="Last rows" class="mono">
        <thead>
          <tr>
            {found.columns.map((one) => (
              <th key={one.name} scope="col" title={one.type}>
                {one.name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {found.rows.map((row, index) => (
            <tr key={index}>
              {found.columns.map((one) => (
                <td key={one.name} class="clip" title={shownValue(row[one.name])}>
                  {shownValue(row[one.name])}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </Table>
      <p class="hint">From {found.origin}</p>
    </>
  );
}
