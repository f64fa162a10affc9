"""What a reader process takes for a plain read, and what it leaves to the server's own process."""

import httptools
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobmanager.core.request_head import end_of_head, path_of_plain_read

LINE = b"GET /v1/jobs?limit=1 HTTP/1.1\r\n"


def head(*lines: bytes, first: bytes = LINE) -> bytes:
    return first + b"".join(line + b"\r\n" for line in lines) + b"\r\n"


@pytest.mark.parametrize(
    ("request_head", "path"),
    [
        (head(b"Host: a"), "/v1/jobs"),
        (head(b"Host: a", b"Content-Length: 0"), "/v1/jobs"),
        (head(b"Host: a", b"Connection: close", b"X-Expect: no"), "/v1/jobs"),
        (head(first=b"GET / HTTP/1.1\n"), "/"),
        (head(first=b"GET /jobs/~a_b-c.d HTTP/1.1\r\n"), "/jobs/~a_b-c.d"),
    ],
)
def test_a_plain_read(request_head: bytes, path: str) -> None:
    assert path_of_plain_read(request_head) == path


@pytest.mark.parametrize(
    "request_head",
    [
        head(b"Host: a", first=b"POST /v1/jobs HTTP/1.1\r\n"),
        head(b"Host: a", first=b"HEAD /v1/jobs HTTP/1.1\r\n"),
        head(b"Host: a", first=b"get /v1/jobs HTTP/1.1\r\n"),
        head(b"Host: a", first=b"GET /v1/jobs HTTP/1.0\r\n"),
        head(b"Host: a", first=b"GET http://a/v1/jobs HTTP/1.1\r\n"),
        head(b"Host: a", first=b"GET /v1/jobs%00 HTTP/1.1\r\n"),
        head(b"Host: a", first=b"GET  /v1/jobs HTTP/1.1\r\n"),
        head(b"Host: a", first=b"\r\nGET /v1/jobs HTTP/1.1\r\n"),
        head(b"Content-Length: 1"),
        head(b"content-length : 17"),
        head(b"Content-Length: 0, 5"),
        head(b"Content-Length: 0", b"Content-Length: 5"),
        head(b"Transfer-Encoding: chunked"),
        head(b"TRANSFER-ENCODING: chunked"),
        head(b"Upgrade: h2c"),
        head(b"Expect: 100-continue"),
        head(b"X-Folded: a", b" Content-Length: 5"),
    ],
)
def test_what_is_not_plain(request_head: bytes) -> None:
    assert path_of_plain_read(request_head) is None


def test_the_end_of_a_head_is_found_however_it_arrives() -> None:
    whole = head(b"Host: a") + head(b"Host: b")
    for cut in range(len(whole)):
        first = end_of_head(whole[:cut])
        assert first == (len(head(b"Host: a")) if cut >= len(head(b"Host: a")) else None)
        assert end_of_head(whole, min(cut, len(head(b"Host: a")) - 1)) == len(head(b"Host: a"))


class Parsed:
    """What the parser of the server makes of the same bytes."""

    def __init__(self, data: bytes) -> None:
        self.complete, self.body, self.url, self.messages = 0, b"", b"", 0
        self.parser = httptools.HttpRequestParser(self)
        self.parser.feed_data(data)

    def on_url(self, url: bytes) -> None:
        self.url += url

    def on_body(self, body: bytes) -> None:
        self.body += body

    def on_message_begin(self) -> None:
        self.messages += 1

    def on_message_complete(self) -> None:
        self.complete += 1


_NAMES = st.sampled_from(
    [b"Host", b"Content-Length", b"Transfer-Encoding", b"Expect", b"X", b"content-length ", b" X"]
)
_VALUES = st.sampled_from([b"0", b"5", b"chunked", b"a", b"", b"0, 5", b"+0", b"00", b" 0 "])
_ENDS = st.sampled_from([b"\r\n", b"\n"])


@given(st.lists(st.tuples(_NAMES, _VALUES, _ENDS), max_size=4), _ENDS, st.binary(max_size=8))
def test_what_is_called_plain_is_one_whole_request_for_the_parser(
    lines: list[tuple[bytes, bytes, bytes]], end: bytes, after: bytes
) -> None:
    """Or else bytes of one request could be taken for another request."""
    data = LINE + b"".join(name + b":" + value + to for name, value, to in lines) + end + after
    length = end_of_head(data)
    if length is None or path_of_plain_read(data[:length]) is None:
        return
    try:
        parsed = Parsed(data[:length])
    except httptools.HttpParserError:
        return  # it is refused
    assert (parsed.messages, parsed.complete, parsed.body) == (1, 1, b"")
    assert parsed.url == b"/v1/jobs?limit=1"
