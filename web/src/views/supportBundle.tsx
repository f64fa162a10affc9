// A button that makes the bundle for support in the browser, with what the user may read.

import { useState } from "preact/hooks";
import { ApiError, send, serverNow } from "../api";
import { bundleName, entriesOf } from "../logic/supportBundle";
import { zipped } from "../logic/zip";
import { Problem } from "../parts/basics";

export function SupportBundle({ id, name }: { id: string; name: string }) {
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState<ApiError | null>(null);
  const make = async (): Promise<void> => {
    setBusy(true);
    setError(null);
    try {
      const now = serverNow();
      const get = async (path: string): Promise<string> => (await send(path)).text();
      save(zipped(await entriesOf(id, now, get)), bundleName(name, now));
    } catch (failure) {
      setError(failure instanceof ApiError ? failure : new ApiError(String(failure), 0));
    }
    setBusy(false);
  };
  return (
    <div class="support">
      <button type="button" disabled={isBusy} onClick={() => void make()}>
        {isBusy ? "Collecting …" : "Support bundle"}
      </button>{" "}
      <span class="hint">
        A zip file with status, graph, history, checkpoints and logs. Secrets are left out; logs may
        quote data.
      </span>
      {error && <Problem error={error} />}
    </div>
  );
}

function save(content: Uint8Array<ArrayBuffer>, name: string): void {
  const address = URL.createObjectURL(new Blob([content], { type: "application/zip" }));
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}
