// What the time from a barrier to an ack was spent on.

export interface AckPart {
  part: "way" | "batch" | "snapshot";
  name: string;
  ms: number;
}

/** The parts of a span in their order; what the runner did not measure is one part. */
export function ackParts(
  wholeMs: number,
  ack: { waited_ms: number | null; snapshot_ms: number | null },
): AckPart[] {
  const batch = Math.min(ack.waited_ms ?? 0, wholeMs);
  const snapshot = Math.min(ack.snapshot_ms ?? 0, wholeMs - batch);
  const isMeasured = ack.waited_ms !== null || ack.snapshot_ms !== null;
  const parts: AckPart[] = [
    {
      part: "way",
      name: isMeasured ? "barrier and ack on their way" : "from the barrier to the ack",
      ms: wholeMs - batch - snapshot,
    },
    { part: "batch", name: "until the end of the batch", ms: batch },
    { part: "snapshot", name: "snapshot written in", ms: snapshot },
  ];
  return parts.filter((one) => one.ms > 0);
}
