"""Which server is meant: an option, the environment or a context; and the file of contexts."""

import tomllib
from pathlib import Path

import pytest

from jobmanager.client import contexts
from jobmanager.client.cli import app, run
from jobmanager.client.context_commands import with_context, with_current
from jobmanager.client.contexts import ServerContext, choose
from jobmanager.client.errors import HeadgateError

FILE = """\
# mine
current = "prod"

[contexts.prod]
url = "https://prod.example"
token_command = "echo hg_prod"
ca = "/etc/ca.pem"

[contexts.here]
url = "http://127.0.0.1:9000"
"""


@pytest.fixture
def home(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "headgate").mkdir()
    (tmp_path / "headgate" / "config.toml").write_text(FILE)
    return {"XDG_CONFIG_HOME": str(tmp_path)}


def test_an_option_wins_over_the_environment_and_that_over_the_current_context(
    home: dict[str, str],
) -> None:
    env = {**home, "HEADGATE_URL": "http://127.0.0.1:1"}

    assert choose(None, None, home).url == "https://prod.example"
    assert choose(None, None, {**home, "HEADGATE_CONTEXT": "here"}).url == "http://127.0.0.1:9000"
    assert choose(None, None, env).url == "http://127.0.0.1:1"
    assert choose(None, "here", env).url == "http://127.0.0.1:9000"
    assert choose("http://127.0.0.1:2", "here", env).url == "http://127.0.0.1:2"
    assert choose(None, None, {"XDG_CONFIG_HOME": "/nowhere"}).url == contexts.DEFAULT_URL


def test_a_contexts_token_goes_to_its_own_server_only(home: dict[str, str]) -> None:
    chosen = choose(None, "prod", home).environment
    elsewhere = choose("https://other.example", None, home).environment
    by_variable = choose(None, None, {**home, "HEADGATE_URL": "https://o.example"}).environment

    assert chosen["HEADGATE_TOKEN_COMMAND"] == "echo hg_prod"
    assert chosen["HEADGATE_CA"] == "/etc/ca.pem"
    assert "HEADGATE_TOKEN_COMMAND" not in elsewhere
    assert "HEADGATE_TOKEN_COMMAND" not in by_variable


def test_the_environments_token_wins_over_the_current_context_not_over_an_option(
    home: dict[str, str],
) -> None:
    env = {**home, "HEADGATE_TOKEN": "hg_env"}

    assert choose(None, None, env).environment["HEADGATE_TOKEN"] == "hg_env"
    assert "HEADGATE_TOKEN_COMMAND" not in choose(None, None, env).environment
    by_option = choose(None, "prod", env).environment
    assert "HEADGATE_TOKEN" not in by_option
    assert by_option["HEADGATE_TOKEN_COMMAND"] == "echo hg_prod"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("current = 'x'", "current names the context 'x'"),
        ("[contexts.a]\nca = 'x'", "contexts.a has no url"),
        ("[contexts.a]\nurl = 'u'\ntoken = 'secret'", "unknown field 'token'"),
        ("[contexts.a]\nurl = 5", "contexts.a.url has to be text"),
        ("contexts = 5", "contexts has to be tables"),
        ("[", "cannot be read"),
    ],
)
def test_what_is_wrong_with_the_file_is_told(tmp_path: Path, text: str, told: str) -> None:
    (tmp_path / "config.toml").write_text(text)

    with pytest.raises(HeadgateError, match=told):
        contexts.read(tmp_path / "config.toml")


def test_an_unknown_context_is_told_with_those_there_are(home: dict[str, str]) -> None:
    with pytest.raises(HeadgateError, match=r"no context 'x' \(known: prod, here\)"):
        choose(None, "x", home)


def test_the_file_is_changed_line_by_line_and_keeps_its_comments() -> None:
    changed = with_context(FILE, "prod", ServerContext("https://p2", 'say "hi"'))
    changed = with_current(changed, "here")

    assert "# mine" in changed
    assert tomllib.loads(changed) == {
        "current": "here",
        "contexts": {
            "here": {"url": "http://127.0.0.1:9000"},
            "prod": {"url": "https://p2", "token_command": 'say "hi"'},
        },
    }
    assert tomllib.loads(with_current(with_context(FILE, "prod", None), None)) == {
        "contexts": {"here": {"url": "http://127.0.0.1:9000"}}
    }


def test_contexts_are_set_used_and_deleted_by_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    for name in ("one", "two"):
        assert run(app, ["contexts", "set", name, "--server", f"http://{name}"]) == 0
    assert contexts.read(contexts.path_of()).current == "one"
    assert run(app, ["contexts", "use", "two"]) == 0
    assert run(app, ["contexts", "delete", "one"]) == 0
    capsys.readouterr()

    assert run(app, ["contexts", "list", "-o", "name"]) == 0

    assert capsys.readouterr().out == "two\n"
    assert contexts.read(contexts.path_of()).current == "two"
    assert run(app, ["contexts", "use", "three"]) == 1
    assert run(app, ["contexts", "set", "a b", "--server", "http://x"]) == 1
