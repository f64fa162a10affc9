// What Spark measured of each subtask of a task: the slow one at a glance.

import { bytes, compact, grouped } from "../logic/format";
import { busyShare, type TaskFigures, waitingShare } from "../logic/tasks";
import { Meter, Table } from "./basics";

export function SubtaskFigures({
  measured,
  parallelism,
}: {
  measured: TaskFigures["measured"];
  parallelism: number;
}) {
  if (measured.length === 0) return null;
  return (
    <Table label="Figures by subtask">
      <thead>
        <tr>
          <th scope="col">Subtask</th>
          <th scope="col" class="num">
            Records in
          </th>
          <th scope="col" class="num">
            In/s
          </th>
          <th scope="col" class="num">
            Bytes in
          </th>
          <th scope="col" class="num">
            Records out
          </th>
          <th scope="col" class="num">
            Out/s
          </th>
          <th scope="col">Busy</th>
          <th scope="col">Waits for the sink</th>
        </tr>
      </thead>
      <tbody>
        {measured.map((one) => (
          <tr key={one.subtask ?? "all"}>
            <th scope="row" class="mono">
              {one.subtask ?? "all"}
            </th>
            <td class="num">{grouped(one.records_in)}</td>
            <td class="num">{compact(one.records_in_per_second)}</td>
            <td class="num">{bytes(one.bytes_in)}</td>
            <td class="num">{grouped(one.records_out)}</td>
            <td class="num">{compact(one.records_out_per_second)}</td>
            <td>
              <Meter share={busyShare(one, parallelism)} label="busy" />
            </td>
            <td>
              <Meter share={waitingShare(one, parallelism)} label="waits for the sink" />
            </td>
          </tr>
        ))}
      </tbody>
    </Table>
  );
}
