import { describe, expect, it } from "vitest";
import type { Role, WhoAmI } from "../generated/shapes";
import { inMemory, Session } from "./session";

const ROLES: Role[] = ["viewer", "operator", "developer", "admin"];

function who(role: Role): WhoAmI {
  return {
    name: "ci",
    role,
    covers: ROLES.slice(0, ROLES.indexOf(role) + 1),
    needs_token: true,
    expires_at: null,
  };
}

describe("a session", () => {
  it("sends no token where there is none", () => {
    expect(new Session(inMemory()).headers()).toEqual({});
  });

  it("sends the token that was typed, without the spaces around it", () => {
    const session = new Session(inMemory());
    session.signIn("  hg_secret\n");
    expect(session.headers()).toEqual({ Authorization: "Bearer hg_secret" });
    expect(session.state.kind).toBe("asking");
  });

  it("forgets a token that the server refused, and says why", () => {
    const session = new Session(inMemory());
    session.signIn("hg_old");
    session.welcomed(who("viewer"));
    session.refused("the token has expired");
    expect(session.headers()).toEqual({});
    expect(session.state).toEqual({ kind: "out", reason: "the token has expired" });
    // other requests that were under way with the old token change nothing
    session.refused("a token is needed");
    expect(session.state).toEqual({ kind: "out", reason: "the token has expired" });
  });

  it("gives no reason to who comes without a token", () => {
    const session = new Session(inMemory());
    session.refused("a token is needed");
    expect(session.state).toEqual({ kind: "out", reason: "" });
  });

  it("is another session for the views after another sign-in", () => {
    const session = new Session(inMemory());
    const before = session.generation;
    session.signOut();
    session.signIn("hg_next");
    expect(session.generation).toBeGreaterThan(before);
  });

  it.each(ROLES)("bars what is above the role %s, and nothing else", (role) => {
    const session = new Session(inMemory());
    expect(session.bar("viewer")).not.toBeNull();
    session.welcomed(who(role));
    const free = ROLES.filter((needed) => session.bar(needed) === null);
    expect(free).toEqual(ROLES.slice(0, ROLES.indexOf(role) + 1));
    for (const needed of ROLES.slice(ROLES.indexOf(role) + 1)) {
      expect(session.bar(needed)).toContain(needed);
      expect(session.bar(needed)).toContain(role);
    }
  });

  it("tells its watchers of every change", () => {
    const session = new Session(inMemory());
    const seen: string[] = [];
    const forget = session.onChange(() => seen.push(session.state.kind));
    session.signIn("hg_a");
    session.welcomed(who("admin"));
    session.signOut();
    forget();
    session.signIn("hg_b");
    expect(seen).toEqual(["asking", "in", "out"]);
  });
});
