// Parses server-sent events from a stream of bytes. Not the browser's EventSource: that hides the
// comments that keep a silent stream alive, and gives up for good on a 503.

export interface ServerEvent {
  id: string | null;
  kind: string;
  data: string;
}

/** Takes text as it arrives, and calls back for each complete event and each comment. */
export class EventParser {
  private rest = "";
  private id: string | null = null;
  private kind = "";
  private data: string[] = [];

  constructor(
    private readonly onEvent: (event: ServerEvent) => void,
    private readonly onComment: () => void = () => {},
  ) {}

  feed(text: string): void {
    const lines = (this.rest + text).split("\n");
    this.rest = lines.pop() ?? "";
    for (const line of lines) this.take(line.endsWith("\r") ? line.slice(0, -1) : line);
  }

  private take(line: string): void {
    if (line === "") this.finish();
    else if (line.startsWith(":")) this.onComment();
    else {
      const colon = line.indexOf(":");
      const field = colon < 0 ? line : line.slice(0, colon);
      const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
      if (field === "id") this.id = value;
      else if (field === "event") this.kind = value;
      else if (field === "data") this.data.push(value);
    }
  }

  private finish(): void {
    if (this.data.length > 0) {
      this.onEvent({ id: this.id, kind: this.kind || "message", data: this.data.join("\n") });
    }
    this.id = null;
    this.kind = "";
    this.data = [];
  }
}
