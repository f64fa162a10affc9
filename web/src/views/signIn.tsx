// The form that stands in front of every view while the server asks for a token.

import { useState } from "preact/hooks";
import { session } from "../live/session";
import { Command } from "../parts/basics";

export function SignIn({ reason }: { reason: string }) {
  const [token, setToken] = useState("");
  const submit = (event: Event): void => {
    event.preventDefault();
    if (token.trim()) session.signIn(token);
  };
  return (
    <form class="sign-in panel" onSubmit={submit}>
      <h1>Sign in</h1>
      {reason && (
        <div class="problem" role="alert">
          <p>{reason}</p>
        </div>
      )}
      <label class="field">
        Token
        <input
          type="password"
          class="mono"
          autocomplete="current-password"
          required
          value={token}
          onInput={(event) => setToken(event.currentTarget.value)}
        />
      </label>
      <div class="actions">
        <button type="submit" class="primary">
          Sign in
        </button>
      </div>
      <p class="hint">
        An admin creates a token for you. The first token of a server, an admin's, was printed on
        its terminal when it started. The token stays in this browser tab and is forgotten with the
        tab.
      </p>
      <Command text="headgate tokens create NAME --role viewer" />
    </form>
  );
}
