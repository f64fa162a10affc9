"""What `headgate serve` prints when it is ready."""

import json

from jobmanager.command import ready_text
from jobmanager.server import ServerReady

URL = "http://127.0.0.1:8081"


def test_a_server_says_where_it_is_and_whether_tokens_are_needed() -> None:
    alone = ServerReady(URL, URL, "no tokens are needed", None)
    follower = ServerReady(URL, "http://other", "tokens are needed", None)

    assert ready_text(alone, as_json=False).splitlines() == [
        f"Headgate is ready at {URL}",
        "no tokens are needed",
    ]
    assert ready_text(follower, as_json=False).startswith("Headgate follows http://other and is")
    assert json.loads(ready_text(alone, as_json=True)) == {
        "url": URL,
        "leader": URL,
        "access": "no tokens are needed",
        "first_admin_token": None,
    }


def test_the_first_admin_token_is_the_last_line() -> None:
    first = ServerReady(URL, URL, "tokens are needed", "hg_x")

    assert ready_text(first, as_json=False).splitlines()[-1] == "hg_x"
    assert json.loads(ready_text(first, as_json=True))["first_admin_token"] == "hg_x"
