import { expect, test } from "vitest";
import { ago, bytes, compact, duration, grouped, moment, plural, spanMs } from "./format";

test.each([
  [0, "0 ms"],
  [999, "999 ms"],
  [2_540, "2.5 s"],
  [42_900, "42 s"],
  [245_000, "4m 05s"],
  [3_600_000, "1h 00m"],
  [90_061_000, "1d 1h"],
  [-1_500, "-1.5 s"],
  [null, "–"],
  [Number.NaN, "–"],
])("%s milliseconds are %s", (ms, text) => expect(duration(ms)).toBe(text));

test.each([
  [500, "now"],
  [5_000, "5 s ago"],
  [119_000, "1 min ago"],
  [7_200_000, "2 h ago"],
  [-10_000, "in 10 s"],
])("%s milliseconds ago is %s", (ms, text) => expect(ago(ms)).toBe(text));

test.each([
  [0, "0 B"],
  [1023, "1023 B"],
  [1024, "1.0 KiB"],
  [150 * 1024, "150 KiB"],
  [3.5 * 1024 ** 3, "3.5 GiB"],
])("%s bytes are %s", (count, text) => expect(bytes(count)).toBe(text));

test.each([
  [0, "0"],
  [5.25, "5.3"],
  [1234, "1 234"],
  [34_000, "34.0k"],
  [1_500_000, "1.5M"],
])("%s is %s", (value, text) => expect(compact(value)).toBe(text));

test("thousands are grouped, and one is singular", () => {
  expect(grouped(1234567)).toBe("1 234 567");
  expect(plural(1, "job")).toBe("1 job");
  expect(plural(2, "job")).toBe("2 jobs");
});

test("a moment of another day has its date", () => {
  const at = new Date(2026, 10, 16, 9, 5, 3);
  expect(moment(at, new Date(2026, 10, 16, 23, 0))).toBe("09:05:03");
  expect(moment(at, new Date(2026, 10, 17, 0, 1))).toBe("2026-11-16 09:05:03");
});

test("a span goes to its end, or to now, and is never negative", () => {
  const from = "2026-11-18T10:00:00Z";
  const now = Date.parse("2026-11-18T10:01:00Z");
  expect(spanMs(from, "2026-11-18T10:00:02Z", now)).toBe(2000);
  expect(spanMs(from, null, now)).toBe(60_000);
  expect(spanMs(from, "2026-11-18T09:59:59Z", now)).toBe(0);
});
