// Takes secrets out of what is passed on to others. The same rules as in the command line
// (`jobmanager/client/secrets_in_text.py`): the tests of both have the same examples.

export const HIDDEN = "***";

const NAMES =
  /(^|[-_.])pass$|passw(or)?d|passphrase|secret|token|credential|authorization|api[-_.]?key|access[-_.]?key|private[-_.]?key|account[-_.]?key|sasl[-_.]?jaas|connection[-_.]?string|session[-_.]?key/i;
const PLAIN_NAMES = /(token_command|has_token|needs_tokens|require_tokens)$/i;
const TEXTS: [RegExp, string][] = [
  [/-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(-----END [A-Z ]*PRIVATE KEY-----|$)/g, HIDDEN],
  [/\bhg_[A-Za-z0-9_-]{8,}/g, HIDDEN],
  [/\b(AKIA|ASIA)[A-Z0-9]{16}\b/g, HIDDEN],
  [/\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{8,}/gi, `$1 ${HIDDEN}`],
  [/(\b[a-z][a-z0-9+.-]*:\/\/[^\s:/@"']*):[^\s@/"']+@/gi, `$1:${HIDDEN}@`],
  [
    /(\b[\w.-]*(?:password|passwd|secret|credential|api[-_.]?key|access[-_.]?key|private[-_.]?key|account[-_.]?key|(?<![a-z])token)[\w.-]*["']?\s*[=:]\s*)("[^"]*"|'[^']*'|[^\s,;&"'}]+)/gi,
    `$1${HIDDEN}`,
  ],
];

/** An answer without secrets: fields by their names, texts by what they look like. */
export function withoutSecrets(value: unknown, name = ""): unknown {
  const isText = typeof value === "string";
  if (name && isSecret(name) && (isText || (typeof value === "object" && value !== null)))
    return HIDDEN;
  if (isText) return textWithoutSecrets(value);
  if (Array.isArray(value)) return value.map((one) => withoutSecrets(one));
  if (typeof value === "object" && value !== null)
    return Object.fromEntries(
      Object.entries(value).map(([key, one]) => [key, withoutSecrets(one, key)]),
    );
  return value;
}

export function textWithoutSecrets(text: string): string {
  return TEXTS.reduce((left, [pattern, shown]) => left.replace(pattern, shown), text);
}

function isSecret(name: string): boolean {
  return NAMES.test(name) && !PLAIN_NAMES.test(name);
}
