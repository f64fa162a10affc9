import { expect, test } from "vitest";
import { ackParts } from "./ackParts";

test("a span is divided as the runner measured it", () => {
  const parts = ackParts(1000, { waited_ms: 600, snapshot_ms: 300 });
  expect(parts.map((one) => [one.part, one.ms])).toEqual([
    ["way", 100],
    ["batch", 600],
    ["snapshot", 300],
  ]);
});

test("what was not measured is one part", () => {
  expect(ackParts(70, { waited_ms: null, snapshot_ms: null })).toEqual([
    { part: "way", name: "from the barrier to the ack", ms: 70 },
  ]);
});

test("no part is longer than the span, whatever two clocks say", () => {
  const parts = ackParts(100, { waited_ms: 80, snapshot_ms: 50 });
  expect(parts.map((one) => one.ms)).toEqual([80, 20]);
});

test("a span of no time has no parts", () => {
  expect(ackParts(0, { waited_ms: 0, snapshot_ms: 0 })).toEqual([]);
});
