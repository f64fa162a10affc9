// Writes a job graph as YAML, for editing: the server stores graphs as JSON.

type Json = null | boolean | number | string | Json[] | { [key: string]: Json };

const WIDTH = 88;

export function toYaml(value: unknown): string {
  return `${block(value as Json, 0)}\n`;
}

function block(value: Json, depth: number): string {
  const pad = "  ".repeat(depth);
  if (Array.isArray(value)) {
    return value
      .map((one) => {
        if (isSimple(one) || flow(one).length + pad.length < WIDTH) return `${pad}- ${flow(one)}`;
        return `${pad}- ${block(one, depth + 1).slice(pad.length + 2)}`;
      })
      .join("\n");
  }
  if (value !== null && typeof value === "object") {
    return Object.entries(value)
      .map(([key, one]) => {
        const head = `${pad}${scalar(key)}:`;
        const isShort = flow(one).length + head.length < WIDTH;
        if (isSimple(one) || (depth > 0 && isShort) || (!Array.isArray(one) && isShort)) {
          return `${head} ${flow(one)}`;
        }
        return `${head}\n${block(one, depth + 1)}`;
      })
      .join("\n");
  }
  return pad + scalar(value);
}

function isSimple(value: Json): boolean {
  if (value === null || typeof value !== "object") return true;
  return Array.isArray(value) ? value.length === 0 : Object.keys(value).length === 0;
}

function flow(value: Json): string {
  if (Array.isArray(value)) return `[${value.map(flow).join(", ")}]`;
  if (value !== null && typeof value === "object") {
    const inside = Object.entries(value).map(([key, one]) => `${scalar(key)}: ${flow(one)}`);
    return `{${inside.join(", ")}}`;
  }
  return scalar(value);
}

/** Unquoted only if it cannot be read as anything but text. */
function scalar(value: null | boolean | number | string): string {
  if (typeof value !== "string") return String(value);
  const isPlain =
    /^[A-Za-z_][\w./-]*$/.test(value) && !/^(true|false|null|yes|no|on|off|y|n)$/i.test(value);
  return isPlain ? value : JSON.stringify(value);
}
