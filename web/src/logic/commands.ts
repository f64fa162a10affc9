// The equivalent command line of a button.

export function command(...parts: (string | number | false | null | undefined)[]): string {
  const given = parts.filter((part) => part !== false && part != null && part !== "");
  return ["headgate", ...given.map((part) => quoted(String(part)))].join(" ");
}

/** Quotes a word for a shell. */
export function quoted(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}
