// Writes a zip file without compression, so that no library is needed for it.

export interface ZipEntry {
  name: string;
  content: string;
}

const NO_DATE = 0x21; // the first of January 1980: the same content is the same file
const UTF8 = 0x0800;
const VERSION = 20;

const TABLE = Uint32Array.from({ length: 256 }, (_, n) => {
  let value = n;
  for (let bit = 0; bit < 8; bit += 1) value = value & 1 ? 0xedb88320 ^ (value >>> 1) : value >>> 1;
  return value;
});

export function crc32(bytes: Uint8Array): number {
  let value = 0xffffffff;
  for (const one of bytes) value = TABLE[(value ^ one) & 0xff]! ^ (value >>> 8);
  return (value ^ 0xffffffff) >>> 0;
}

export function zipped(entries: readonly ZipEntry[]): Uint8Array<ArrayBuffer> {
  const encoder = new TextEncoder();
  const parts: Uint8Array[] = [];
  const directory: Uint8Array[] = [];
  let at = 0;
  for (const entry of entries) {
    const name = encoder.encode(entry.name);
    const content = encoder.encode(entry.content);
    const about = [VERSION, UTF8, 0, 0, NO_DATE] as const;
    const sizes = [crc32(content), content.length, content.length] as const;
    const header = written([
      [4, 0x04034b50],
      ...about.map((one) => [2, one] as const),
      ...sizes.map((one) => [4, one] as const),
      [2, name.length],
      [2, 0],
    ]);
    directory.push(
      written([
        [4, 0x02014b50],
        [2, VERSION],
        ...about.map((one) => [2, one] as const),
        ...sizes.map((one) => [4, one] as const),
        [2, name.length],
        [4, 0], // no extra field, no comment
        [4, 0], // disk 0, internal attributes
        [4, 0], // external attributes
        [4, at],
      ]),
      name,
    );
    parts.push(header, name, content);
    at += header.length + name.length + content.length;
  }
  const length = directory.reduce((total, one) => total + one.length, 0);
  const end = written([
    [4, 0x06054b50],
    [4, 0],
    [2, entries.length],
    [2, entries.length],
    [4, length],
    [4, at],
    [2, 0],
  ]);
  return joined([...parts, ...directory, end]);
}

function written(fields: readonly (readonly [size: 2 | 4, value: number])[]): Uint8Array {
  const view = new DataView(new ArrayBuffer(fields.reduce((total, [size]) => total + size, 0)));
  let at = 0;
  for (const [size, value] of fields) {
    if (size === 2) view.setUint16(at, value, true);
    else view.setUint32(at, value, true);
    at += size;
  }
  return new Uint8Array(view.buffer);
}

function joined(parts: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  const whole = new Uint8Array(parts.reduce((total, one) => total + one.length, 0));
  let at = 0;
  for (const one of parts) {
    whole.set(one, at);
    at += one.length;
  }
  return whole;
}
