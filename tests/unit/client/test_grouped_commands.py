"""`headgate jobs VERB` is `headgate VERB`."""

import pytest

import jobmanager.command  # noqa: F401 (adds the groups to the app)
from jobmanager.client.cli import app, run
from jobmanager.client.grouped_commands import VERBS


@pytest.mark.parametrize("verb", VERBS)
def test_a_command_in_the_group_is_the_same_command(
    verb: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(app, ["jobs", verb, "--help"]) == 0
    grouped = capsys.readouterr().out.split()
    assert run(app, [verb, "--help"]) == 0

    usage = [word for word in grouped if word != "jobs"]
    assert usage == [word for word in capsys.readouterr().out.split() if word != "jobs"]
    assert "jobs" in grouped


def test_the_group_lists_its_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(app, ["jobs", "--help"]) == 0

    shown = capsys.readouterr().out
    assert all(verb in shown for verb in VERBS)
