// How the sources and sinks of a job do, one line each.

import type { ConnectorHealth } from "../logic/connectors";
import { bytes, compact, grouped, NONE } from "../logic/format";
import { Section, Table } from "./basics";

export function Connectors({ connectors }: { connectors: readonly ConnectorHealth[] }) {
  return (
    <Section title="Connectors" aside="since the attempt began; errors of all attempts">
      <Table label="Connectors">
        <thead>
          <tr>
            <th scope="col">Vertex</th>
            <th scope="col">Connector</th>
            <th scope="col" class="num">
              Rows/s
            </th>
            <th scope="col" class="num">
              Rows
            </th>
            <th scope="col" class="num">
              Bytes
            </th>
            <th scope="col" class="num">
              Backlog
            </th>
            <th scope="col" class="num">
              Bad rows
            </th>
            <th scope="col">Errors that name it</th>
          </tr>
        </thead>
        <tbody>
          {connectors.map((one) => (
            <tr key={one.vertex}>
              <th scope="row" class="mono">
                {one.vertex}
              </th>
              <td>
                {one.connector} {one.op}
              </td>
              <td class="num">{compact(one.rate)}</td>
              <td class="num">{grouped(one.rows)}</td>
              <td class="num">{bytes(one.bytes)}</td>
              <td class="num">{grouped(one.backlogRows)}</td>
              <td class={`num ${one.badRows ? "warn" : ""}`}>{grouped(one.badRows)}</td>
              <td class="clip" title={one.lastError ?? ""}>
                {one.errors ? `${grouped(one.errors)}: ${one.lastError}` : NONE}
              </td>
            </tr>
          ))}
        </tbody>
      </Table>
    </Section>
  );
}
