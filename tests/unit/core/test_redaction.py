import pytest

from jobmanager.core.redaction import Secrets

LONG = "f3Xk/9 p@ssw0rd-of-Postgres"


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        (f"password {LONG} is wrong", "password *** is wrong"),
        ("postgresql://u:f3Xk%2F9%20p%40ssw0rd-of-Postgres@h/db", "postgresql://u:***@h/db"),
        ("?password=f3Xk%2F9+p%40ssw0rd-of-Postgres", "?password=***"),
        (LONG, "***"),
        ("nothing to hide", "nothing to hide"),
    ],
)
def test_a_password_is_hidden_however_it_is_written(said: str, shown: str) -> None:
    secrets = Secrets([LONG])

    assert secrets.hidden(said) == shown
    assert secrets.is_in(said) == (said != shown)


def test_a_short_password_is_hidden_only_where_a_password_stands() -> None:
    secrets = Secrets(["headgate"])

    url = "postgresql://headgate:headgate@postgres/headgate?password=headgate"
    assert secrets.hidden(url) == "postgresql://headgate:***@postgres/headgate?password=***"
    assert secrets.hidden("/opt/headgate/bin") == "/opt/headgate/bin"
    assert secrets.hidden("headgate") == "***"


def test_no_password_hides_nothing() -> None:
    assert Secrets([None, ""]).hidden("postgresql://u:@h/db") == "postgresql://u:@h/db"
