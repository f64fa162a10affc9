// The command line that does the same as a button here.

export function command(...parts: (string | number | false | null | undefined)[]): string {
  const given = parts.filter((part) => part !== false && part != null && part !== "");
  return ["headgate", ...given.map((part) => quoted(String(part)))].join(" ");
}

/** As a shell reads it. */
export function quoted(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}
