// A plain text editor for YAML. Tab leaves it, as everywhere: it is no trap for the keyboard.

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
