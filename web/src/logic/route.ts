// The view is in the address, after the #: links can be shared, and Back works. The path
// belongs to the API, which Flink's clients call without a prefix.

export interface Route {
  path: string[];
  query: Record<string, string>;
}

export function parse(hash: string): Route {
  const [path = "", query = ""] = hash.replace(/^#\/?/, "").split("?", 2);
  const parts = path.split("/").filter(Boolean).map(decoded);
  return { path: parts, query: Object.fromEntries(new URLSearchParams(query)) };
}

export function link(path: string[], query: Record<string, string | undefined> = {}): string {
  const kept = Object.entries(query).filter(([, value]) => value) as [string, string][];
  const text = new URLSearchParams(kept).toString();
  return `#/${path.map(encodeURIComponent).join("/")}${text ? `?${text}` : ""}`;
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
