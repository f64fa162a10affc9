// A plain text editor for YAML. Tab leaves it, so that it can be used by keyboard.

export function Editor({
  text,
  onText,
  label,
  rows = 18,
}: {
  text: string;
  onText: (text: string) => void;
  label: string;
  rows?: number;
}) {
  return (
    <textarea
      class="editor"
      aria-label={label}
      rows={rows}
      spellcheck={false}
      autocapitalize="off"
      value={text}
      onInput={(event) => onText(event.currentTarget.value)}
    />
  );
}
