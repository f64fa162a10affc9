// Who is told of what happens to jobs: webhooks, a button to test each, and what was sent.

import { useState } from "preact/hooks";
import {
  ApiError,
  ask,
  type DeliveryPage,
  type NewWebhook,
  type WebhookEvent,
  type WebhookList,
  type WebhookTest,
} from "../api";
import { useBar, useResource } from "../hooks";
import { command } from "../logic/commands";
import { NONE } from "../logic/format";
import { Command, Copy, Empty, Problem, Section, When } from "../parts/basics";
import { Confirm, Dialog } from "../parts/dialog";

const EVENTS: WebhookEvent[] = [
  "state_changed",
  "restart",
  "checkpoint_failed",
  "rescaled",
  "upgraded",
  "savepoint_completed",
  "stalled",
  "degraded",
  "recovered",
];
const USUAL: WebhookEvent[] = ["restart", "checkpoint_failed", "stalled"];

type Open =
  | { kind: "create" }
  | { kind: "delete"; name: string }
  | { kind: "test"; name: string }
  | { kind: "deliveries"; name: string };

export function Webhooks() {
  const bar = useBar("operator");
  if (bar) {
    return (
      <Empty title="Only for operators">
        <p>This page {bar}.</p>
      </Empty>
    );
  }
  return (
    <>
      <div class="page-head">
        <h1>Webhooks</h1>
      </div>
      <List />
    </>
  );
}

function List() {
  const isAdmin = useBar("admin") === null;
  const webhooks = useResource<WebhookList>("/webhooks", { every: 10_000 });
  const [open, setOpen] = useState<Open | null>(null);
  const [made, setMade] = useState<NewWebhook | null>(null);
  const close = (): void => setOpen(null);
  return (
    <Section
      title="Signed requests to other programs"
      aside={
        isAdmin && (
          <button type="button" class="primary" onClick={() => setOpen({ kind: "create" })}>
            Create a webhook
          </button>
        )
      }
    >
      {made?.made_secret && (
        <div class="told-once" role="status">
          <p>
            The key of the signatures of {made.name}, shown this one time:{" "}
            <span class="mono wrap">{made.made_secret}</span> <Copy text={made.made_secret} />
          </p>
          <button type="button" onClick={() => setMade(null)}>
            Hide
          </button>
        </div>
      )}
      {webhooks.error && <Problem error={webhooks.error} retry={webhooks.reload} />}
      {webhooks.data && webhooks.data.items.length === 0 && <Empty title="No webhooks yet" />}
      {webhooks.data && webhooks.data.items.length > 0 && (
        <Table webhooks={webhooks.data} isAdmin={isAdmin} open={setOpen} />
      )}
      <Command text="headgate webhooks list" />
      {open?.kind === "create" && (
        <Create
          close={close}
          created={(webhook) => {
            setMade(webhook);
            webhooks.reload();
          }}
        />
      )}
      {open?.kind === "test" && <Test name={open.name} close={close} />}
      {open?.kind === "deliveries" && <Deliveries name={open.name} close={close} />}
      {open?.kind === "delete" && (
        <Confirm
          title={`Delete the webhook ${open.name}`}
          verb="Delete"
          isDangerous
          onClose={close}
          command={command("webhooks", "delete", open.name)}
          act={async () => {
            await ask(`/webhooks/${encodeURIComponent(open.name)}`, { method: "DELETE" });
            webhooks.reload();
          }}
        >
          <p>What was not sent yet is not sent any more.</p>
        </Confirm>
      )}
    </Section>
  );
}

function Table({
  webhooks,
  isAdmin,
  open,
}: {
  webhooks: WebhookList;
  isAdmin: boolean;
  open: (one: Open) => void;
}) {
  return (
    <div class="table-box">
      <table>
        <thead>
          <tr>
            <th scope="col">Name</th>
            <th scope="col">Receiver</th>
            <th scope="col">Told of</th>
            <th scope="col">Jobs</th>
            <th scope="col">Waiting</th>
            <th scope="col">Given up</th>
            <th scope="col">Last delivered</th>
            <th scope="col">
              <span class="visually-hidden">Actions</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {webhooks.items.map((one) => (
            <tr key={one.name}>
              <th scope="row">{one.name}</th>
              <td class="mono small wrap">{one.url}</td>
              <td>{one.on.join(", ")}</td>
              <td>{one.job ?? "all"}</td>
              <td>{one.pending}</td>
              <td>{one.given_up}</td>
              <td>
                <When at={one.last_delivered_at} />
              </td>
              <td>
                <div class="actions">
                  <button type="button" onClick={() => open({ kind: "test", name: one.name })}>
                    Test
                  </button>
                  <button
                    type="button"
                    onClick={() => open({ kind: "deliveries", name: one.name })}
                  >
                    Deliveries
                  </button>
                  {isAdmin && (
                    <button
                      type="button"
                      class="danger"
                      onClick={() => open({ kind: "delete", name: one.name })}
                    >
                      Delete
                    </button>
                  )}
                </div>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Create({ close, created }: { close: () => void; created: (webhook: NewWebhook) => void }) {
  const [name, setName] = useState("");
  const [url, setUrl] = useState("");
  const [job, setJob] = useState("");
  const [on, setOn] = useState<WebhookEvent[]>(USUAL);
  const act = async (): Promise<void> => {
    const json = { name, url, on, job: job || null };
    created(await ask<NewWebhook>("/webhooks", { method: "POST", json }));
  };
  const toggle = (event: WebhookEvent): void =>
    setOn(on.includes(event) ? on.filter((one) => one !== event) : [...on, event]);
  return (
    <Confirm
      title="Create a webhook"
      verb="Create"
      isReady={name.trim() !== "" && url.trim() !== "" && on.length > 0}
      act={act}
      onClose={close}
      command={command(
        "webhooks",
        "create",
        name || "NAME",
        "--url",
        url || "URL",
        "--on",
        on.join(","),
        ...(job ? ["--job", job] : []),
      )}
    >
      <label class="field">
        Name <input value={name} required onInput={(event) => setName(event.currentTarget.value)} />
      </label>
      <label class="field">
        URL of the receiver{" "}
        <input
          value={url}
          required
          type="url"
          placeholder="https://hooks.example.com/headgate"
          onInput={(event) => setUrl(event.currentTarget.value)}
        />
      </label>
      <label class="field">
        Jobs, by a pattern of their names; empty: all{" "}
        <input value={job} onInput={(event) => setJob(event.currentTarget.value)} />
      </label>
      <fieldset>
        <legend>Told of</legend>
        {EVENTS.map((event) => (
          <label key={event} class="check">
            <input type="checkbox" checked={on.includes(event)} onChange={() => toggle(event)} />{" "}
            {event}
          </label>
        ))}
      </fieldset>
    </Confirm>
  );
}

function Test({ name, close }: { name: string; close: () => void }) {
  const [found, setFound] = useState<WebhookTest | null>(null);
  const [error, setError] = useState<ApiError | null>(null);
  const [isBusy, setBusy] = useState(false);
  const send = async (): Promise<void> => {
    setBusy(true);
    setError(null);
    try {
      const path = `/webhooks/${encodeURIComponent(name)}/test`;
      setFound(await ask<WebhookTest>(path, { method: "POST" }));
    } catch (caught) {
      setError(caught instanceof ApiError ? caught : new ApiError(String(caught), 0));
    }
    setBusy(false);
  };
  return (
    <Dialog title={`Test the webhook ${name}`} onClose={close}>
      <div class="dialog-body">
        <p>A signed request with a sample is sent to the receiver, once.</p>
        {found && (
          <p role="status">
            {found.is_delivered ? "Delivered" : "Not delivered"}:{" "}
            {found.error ?? `answered ${found.status}`}, in {found.took_ms} ms.
          </p>
        )}
        {found?.answer && <pre class="wrap">{found.answer}</pre>}
        {error && <Problem error={error} />}
        <Command text={command("webhooks", "test", name)} />
      </div>
      <footer>
        <button type="button" onClick={close}>
          Back
        </button>
        <button type="button" class="primary" disabled={isBusy} onClick={() => void send()}>
          {isBusy ? "Sending …" : "Send a sample"}
        </button>
      </footer>
    </Dialog>
  );
}

function Deliveries({ name, close }: { name: string; close: () => void }) {
  const page = useResource<DeliveryPage>(`/webhooks/${encodeURIComponent(name)}/deliveries`, {
    query: { limit: 50 },
    every: 5_000,
  });
  return (
    <Dialog title={`Deliveries of the webhook ${name}`} onClose={close} wide>
      {page.error && <Problem error={page.error} retry={page.reload} />}
      {page.data && page.data.items.length === 0 && <Empty title="Nothing was sent yet" />}
      {page.data && page.data.items.length > 0 && (
        <div class="table-box">
          <table>
            <thead>
              <tr>
                <th scope="col">When</th>
                <th scope="col">Event</th>
                <th scope="col">Job</th>
                <th scope="col">Status</th>
                <th scope="col">Tries</th>
                <th scope="col">Answer</th>
              </tr>
            </thead>
            <tbody>
              {page.data.items.map((one) => (
                <tr key={one.id}>
                  <td>
                    <When at={one.created_at} />
                  </td>
                  <td>{one.event}</td>
                  <td>{one.job_name ?? NONE}</td>
                  <td>{one.status}</td>
                  <td>{one.tries}</td>
                  <td class="wrap">{one.error ?? one.answer_status ?? NONE}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      <Command text={command("webhooks", "deliveries", name)} />
    </Dialog>
  );
}
