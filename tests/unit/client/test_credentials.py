"""Where the client's token comes from, and where a token is not sent."""

from pathlib import Path

import pytest

from jobmanager.client import credentials
from jobmanager.client.client import HeadgateClient
from jobmanager.client.errors import HeadgateError

HERE = "http://127.0.0.1:8081"
ELSEWHERE = "http://headgate.example:8081"


def test_no_token_where_the_environment_has_none() -> None:
    assert credentials.token_for(ELSEWHERE, {}) is None
    assert credentials.token_for(HERE, {"HEADGATE_TOKEN": " "}) is None


def test_the_token_of_the_environment_or_what_a_command_prints() -> None:
    printed = {"HEADGATE_TOKEN_COMMAND": "echo hg_$((40 + 2))"}

    assert credentials.token_for(HERE, {"HEADGATE_TOKEN": "hg_x"}) == "hg_x"
    assert credentials.token_for(HERE, printed) == "hg_42"
    assert credentials.token_for(HERE, {**printed, "HEADGATE_TOKEN": "hg_x"}) == "hg_x"


@pytest.mark.parametrize("command", ["exit 3", "true", "echo 'hg_ two words'"])
def test_a_command_that_prints_no_token(command: str) -> None:
    with pytest.raises(HeadgateError, match="TOKEN"):
        credentials.token_for(HERE, {"HEADGATE_TOKEN_COMMAND": command})


def test_a_token_is_not_sent_for_everybody_to_read() -> None:
    token = {"HEADGATE_TOKEN": "hg_x"}

    with pytest.raises(HeadgateError, match="use https://") as refused:
        credentials.token_for(ELSEWHERE, token)
    assert "hg_x" not in str(refused.value)
    assert credentials.token_for("https://headgate.example", token) == "hg_x"
    assert credentials.token_for("http://[::1]:8081", token) == "hg_x"
    assert credentials.token_for(ELSEWHERE, {**token, "HEADGATE_TOKEN_OVER_HTTP": "1"}) == "hg_x"


def test_a_client_takes_the_environments_token_unless_it_is_given_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HEADGATE_TOKEN", "hg_env")

    def sent(client: HeadgateClient) -> str | None:
        with client:
            header: str | None = client._http.headers.get("Authorization")
            return header

    assert sent(HeadgateClient(HERE)) == "Bearer hg_env"
    assert sent(HeadgateClient(HERE, token="hg_given")) == "Bearer hg_given"
    assert sent(HeadgateClient(HERE, token="")) is None


def test_a_file_of_certificates_that_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("no certificate\n")

    for file in (tmp_path / "ca.pem", tmp_path / "missing.pem"):
        with pytest.raises(HeadgateError, match="--ca, HEADGATE_CA"):
            credentials.verification(file, {})
        with pytest.raises(HeadgateError), credentials.trusting(file):
            credentials.verification(None, {})
        with pytest.raises(HeadgateError):
            credentials.verification(None, {"HEADGATE_CA": str(file)})
