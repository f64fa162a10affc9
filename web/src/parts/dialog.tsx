// Confirmation dialogs: the browser's own modal dialog, with focus and Escape.

import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { ApiError } from "../api";
import { Command, Problem } from "./basics";

export function Dialog({
  title,
  children,
  onClose,
  wide = false,
}: {
  title: string;
  children: ComponentChildren;
  onClose: () => void;
  wide?: boolean;
}) {
  const box = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const dialog = box.current;
    dialog?.showModal();
    return () => dialog?.close();
  }, []);
  return (
    <dialog
      ref={box}
      class={wide ? "wide" : ""}
      aria-label={title}
      onCancel={(event) => {
        event.preventDefault();
        onClose();
      }}
    >
      <header>
        <h2>{title}</h2>
        <button type="button" class="quiet" onClick={onClose} aria-label="Close">
          ✕
        </button>
      </header>
      {children}
    </dialog>
  );
}

/** Asks for confirmation, acts, and stays open with the error if the action failed. */
export function Confirm({
  title,
  act,
  verb,
  command,
  isDangerous = false,
  isReady = true,
  wide = false,
  onClose,
  children,
}: {
  title: string;
  act: () => Promise<void>;
  verb: string;
  command?: string;
  isDangerous?: boolean;
  isReady?: boolean;
  wide?: boolean;
  onClose: () => void;
  children?: ComponentChildren;
}) {
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState<ApiError | null>(null);
  const go = async (event: Event): Promise<void> => {
    event.preventDefault();
    setBusy(true);
    setError(null);
    try {
      await act();
      onClose();
    } catch (caught) {
      setError(caught instanceof ApiError ? caught : new ApiError(String(caught), 0));
      setBusy(false);
    }
  };
  return (
    <Dialog title={title} onClose={onClose} wide={wide}>
      <form onSubmit={(event) => void go(event)}>
        <div class="dialog-body">
          {children}
          {command && (
            <div>
              <p class="hint">The same on the command line:</p>
              <Command text={command} />
            </div>
          )}
          {error && <Problem error={error} />}
        </div>
        <footer>
          <button type="button" onClick={onClose}>
            Back
          </button>
          <button
            type="submit"
            class={isDangerous ? "danger" : "primary"}
            disabled={isBusy || !isReady}
          >
            {isBusy ? "Asking …" : verb}
          </button>
        </footer>
      </form>
    </Dialog>
  );
}
