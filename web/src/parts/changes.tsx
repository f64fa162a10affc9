// What differs between two graphs, field by field.

import type { UpgradePlan } from "../api";

export function Changes({ changes }: { changes: UpgradePlan["changes"] }) {
  return (
    <>
      {changes.length === 0 && <li>Nothing changes.</li>}
      {changes.map((one, index) => (
        <li key={index}>
          <span class="mono">{[one.vertex, one.field].filter(Boolean).join(".")}</span>:{" "}
          <del>{shown(one.before)}</del> <ins>{shown(one.after)}</ins>
        </li>
      ))}
    </>
  );
}

function shown(value: unknown): string {
  return value === null || value === undefined
    ? "nothing"
    : typeof value === "string"
      ? value
      : JSON.stringify(value);
}
