// Who may use the server: its tokens, and what was done with them. For admins.

import { useState } from "preact/hooks";
import { type AuditPage, ask, type NewToken, type Role, type TokenList } from "../api";
import { useBar, useResource } from "../hooks";
import { command } from "../logic/commands";
import { NONE } from "../logic/format";
import { Clock, Command, Copy, Empty, Problem, Section, When } from "../parts/basics";
import { Confirm } from "../parts/dialog";

const DAY_MS = 86_400_000;
const ROLES: [role: Role, may: string][] = [
  ["viewer", "sees everything, changes nothing"],
  ["operator", "runs, stops, rescales and restores jobs made of built-in operators"],
  ["developer", "also uploads and runs code"],
  ["admin", "also has tokens, the audit and garbage collection"],
];

export function Access() {
  const bar = useBar("admin");
  if (bar) {
    return (
      <Empty title="Only for admins">
        <p>This page {bar}.</p>
      </Empty>
    );
  }
  return (
    <>
      <div class="page-head">
        <h1>Access</h1>
      </div>
      <Tokens />
      <Audit />
    </>
  );
}

function Tokens() {
  const tokens = useResource<TokenList>("/tokens", { every: 30_000 });
  const [open, setOpen] = useState<"create" | { revoke: string } | null>(null);
  const [made, setMade] = useState<NewToken | null>(null);
  const close = (): void => setOpen(null);
  return (
    <Section
      title="Tokens"
      aside={
        <button type="button" class="primary" onClick={() => setOpen("create")}>
          Create a token
        </button>
      }
    >
      {made && (
        <div class="told-once" role="status">
          <p>
            The token {made.name}, shown this one time: <span class="mono wrap">{made.token}</span>{" "}
            <Copy text={made.token} />
          </p>
          <button type="button" onClick={() => setMade(null)}>
            Hide
          </button>
        </div>
      )}
      {tokens.error && <Problem error={tokens.error} retry={tokens.reload} />}
      {tokens.data && (
        <div class="table-box">
          <table>
            <thead>
              <tr>
                <th scope="col">Name</th>
                <th scope="col">Role</th>
                <th scope="col">Created</th>
                <th scope="col">Expires</th>
                <th scope="col">Last used</th>
                <th scope="col">
                  <span class="visually-hidden">Actions</span>
                </th>
              </tr>
            </thead>
            <tbody>
              {tokens.data.items.map((one) => (
                <tr key={one.name + one.created_at}>
                  <th scope="row">{one.name}</th>
                  <td>{one.role}</td>
                  <td>
                    <When at={one.created_at} />
                  </td>
                  <td>{one.expires_at ? <Clock at={one.expires_at} /> : "never"}</td>
                  <td>
                    <When at={one.last_used_at} />
                  </td>
                  <td>
                    {one.revoked_at ? (
                      "revoked"
                    ) : one.is_usable ? (
                      <button
                        type="button"
                        class="danger"
                        onClick={() => setOpen({ revoke: one.name })}
                      >
                        Revoke
                      </button>
                    ) : (
                      "expired"
                    )}
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {open === "create" && (
        <Create
          close={close}
          created={(token) => {
            setMade(token);
            tokens.reload();
          }}
        />
      )}
      {open !== null && open !== "create" && (
        <Confirm
          title={`Revoke the token ${open.revoke}`}
          verb="Revoke"
          isDangerous
          onClose={close}
          command={command("tokens", "revoke", open.revoke)}
          act={async () => {
            await ask(`/tokens/${encodeURIComponent(open.revoke)}`, { method: "DELETE" });
            tokens.reload();
          }}
        >
          <p>Requests with this token are refused from now on. Jobs that it started go on.</p>
        </Confirm>
      )}
    </Section>
  );
}

function Create({ close, created }: { close: () => void; created: (token: NewToken) => void }) {
  const [name, setName] = useState("");
  const [role, setRole] = useState<Role>("viewer");
  const [days, setDays] = useState("90");
  const act = async (): Promise<void> => {
    const lasts = days ? Number(days) * DAY_MS : null;
    const json = { name, role, expires_in_ms: lasts };
    created(await ask<NewToken>("/tokens", { method: "POST", json }));
  };
  return (
    <Confirm
      title="Create a token"
      verb="Create"
      isReady={name.trim() !== ""}
      act={act}
      onClose={close}
      command={command(
        "tokens",
        "create",
        name || "NAME",
        "--role",
        role,
        ...(days ? ["--expires", `${days}d`] : []),
      )}
    >
      <label class="field">
        Name <input value={name} required onInput={(event) => setName(event.currentTarget.value)} />
      </label>
      <label class="field">
        Role
        <select value={role} onChange={(event) => setRole(event.currentTarget.value as Role)}>
          {ROLES.map(([one, may]) => (
            <option key={one} value={one}>
              {one}: {may}
            </option>
          ))}
        </select>
      </label>
      <label class="field">
        Expires after so many days; empty: never{" "}
        <input
          inputMode="numeric"
          pattern="[1-9][0-9]*"
          value={days}
          onInput={(event) => setDays(event.currentTarget.value)}
        />
      </label>
    </Confirm>
  );
}

function Audit() {
  const [before, setBefore] = useState<number | null>(null);
  const page = useResource<AuditPage>("/audit", {
    query: { limit: 50, before },
    every: before === null ? 10_000 : null,
  });
  return (
    <Section
      title="Audit"
      aside={
        <div class="actions">
          <button type="button" disabled={before === null} onClick={() => setBefore(null)}>
            Newest
          </button>
          <button
            type="button"
            disabled={page.data?.next == null}
            onClick={() => setBefore(page.data?.next ?? null)}
          >
            Older
          </button>
        </div>
      }
    >
      {page.error && <Problem error={page.error} retry={page.reload} />}
      {page.data && page.data.items.length === 0 && <Empty title="Nothing was changed yet" />}
      {page.data && page.data.items.length > 0 && (
        <div class="table-box">
          <table>
            <thead>
              <tr>
                <th scope="col">When</th>
                <th scope="col">Who</th>
                <th scope="col">Role</th>
                <th scope="col">From</th>
                <th scope="col">Request</th>
                <th scope="col">About</th>
                <th scope="col">Answer</th>
              </tr>
            </thead>
            <tbody>
              {page.data.items.map((one) => (
                <tr key={one.id}>
                  <td>
                    <Clock at={one.at} />
                  </td>
                  <td>{one.actor}</td>
                  <td>{one.role}</td>
                  <td class="mono small">{one.origin ?? NONE}</td>
                  <td class="mono small">
                    {one.method} {one.route}
                  </td>
                  <td class="mono small wrap">{one.subject ?? NONE}</td>
                  <td>{one.status ?? NONE}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      <Command text="headgate audit" />
    </Section>
  );
}
