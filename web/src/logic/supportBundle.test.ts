import { describe, expect, test } from "vitest";
import { HIDDEN, textWithoutSecrets, withoutSecrets } from "./secretsInText";
import { bundleName, entriesOf } from "./supportBundle";
import { crc32, zipped } from "./zip";

const SECRET = "Tr0ub4dor-and-3";
const JOB = "3f".repeat(16);
const NOW = Date.parse("2026-11-16T12:00:00Z");

describe("secrets", () => {
  test.each([
    `jdbc:postgresql://me:${SECRET}@db/x`,
    `connecting to kafka with password=${SECRET}, retrying`,
    `"sasl.password": "${SECRET}"`,
    `fs.s3a.secret.key = ${SECRET}`,
    `Authorization: Bearer ${SECRET}`,
    `token: ${SECRET}`,
    `X-Api-Key: ${SECRET}`,
    `-----BEGIN RSA PRIVATE KEY-----\n${SECRET}\n-----END RSA PRIVATE KEY-----`,
    `-----BEGIN PRIVATE KEY-----\n${SECRET}`,
  ])("are hidden in %s", (text) => {
    expect(textWithoutSecrets(text)).not.toContain(SECRET);
    expect(textWithoutSecrets(text)).toContain(HIDDEN);
  });
  test("of ours and access keys are hidden wherever they stand", () => {
    const text = "used hg_abcDEF12345 and AKIAIOSFODNN7EXAMPLE";
    expect(textWithoutSecrets(text)).toBe("used *** and ***");
  });
  test.each([
    "job 3f is RUNNING since 12:00:00, key group 5 of 8",
    "http://127.0.0.1:8081/v1/jobs says 3 tokens",
    "revenue: window(tumbling 2s, key: auction, revenue = sum(price))",
  ])("are not seen in %s", (text) => {
    expect(textWithoutSecrets(text)).toBe(text);
  });
  test("are hidden by the names of fields, and nothing else is", () => {
    const found = withoutSecrets({
      spark: { "fs.s3a.secret.key": SECRET, "spark.sql.shuffle.partitions": "4" },
      options: [{ password: SECRET }],
      has_token: true,
      checkpoint: 7,
      nothing: null,
    });
    expect(found).toEqual({
      spark: { "fs.s3a.secret.key": HIDDEN, "spark.sql.shuffle.partitions": "4" },
      options: [{ password: HIDDEN }],
      has_token: true,
      checkpoint: 7,
      nothing: null,
    });
  });
});

describe("the bundle", () => {
  test("has every answer without secrets, and says what is missing", async () => {
    const entries = await entriesOf(JOB, NOW, async (path) => {
      if (path.includes("/logs")) return `connecting with password=${SECRET}`;
      if (path === "/inspector") throw new Error("the server does not answer");
      return JSON.stringify({ path, password: SECRET });
    });
    const texts = new Map(entries.map((one) => [one.name, one.content]));
    expect([...texts.values()].join()).not.toContain(SECRET);
    expect(texts.has("server/inspector.json")).toBe(false);
    expect(texts.get("README.txt")).toContain(
      "not there: server/inspector.json: the server does not answer",
    );
    expect(JSON.parse(texts.get(`jobs/${JOB}/graph.json`)!)).toEqual({
      path: `/jobs/${JOB}/graph`,
      password: HIDDEN,
    });
  });
  test("has a name that every file system takes", () => {
    expect(bundleName("bids / auction: ä", NOW)).toBe(
      "headgate-support-bids-auction--20261116T120000.zip",
    );
  });
});

describe("zip files", () => {
  test("have the checksums that unzip compares", () => {
    expect(crc32(new TextEncoder().encode("123456789"))).toBe(0xcbf43926);
  });
  test("end with a directory of all entries", () => {
    const file = zipped([
      { name: "a.txt", content: "one" },
      { name: "ü.txt", content: "two" },
    ]);
    const view = new DataView(file.buffer);
    const end = file.length - 22;
    expect(view.getUint32(end, true)).toBe(0x06054b50);
    expect(view.getUint16(end + 10, true)).toBe(2);
    const directory = view.getUint32(end + 16, true);
    expect(view.getUint32(directory, true)).toBe(0x02014b50);
    expect(directory + view.getUint32(end + 12, true)).toBe(end);
  });
});
