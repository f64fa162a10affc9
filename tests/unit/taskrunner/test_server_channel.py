"""The runner's end of the channel to its server."""

import os
import socket
from collections.abc import Iterator
from uuid import uuid4

import pytest

from jobmanager.protocol.process_channel import HandOver, ProcessNews
from taskrunner.control.server_channel import ServerChannel


@pytest.fixture
def channel() -> Iterator[tuple[ServerChannel, socket.socket]]:
    own, its = socket.socketpair()
    with own:
        descriptor = its.detach()
        made = ServerChannel(descriptor)
        yield made, own
        made.close()
        os.close(descriptor)


def test_the_first_word_is_the_secret(channel: tuple[ServerChannel, socket.socket]) -> None:
    made, server = channel
    assert not made.has_words()

    server.sendall(b"s3cret\n")

    assert made.has_words()
    assert made.read_secret() == "s3cret"


def test_a_process_offers_itself_and_gets_the_next_runner(
    channel: tuple[ServerChannel, socket.socket],
) -> None:
    made, server = channel
    first, second = uuid4(), uuid4()
    order = HandOver(runner=second, secret="other", home="/nowhere")

    assert made.announce_return(first)
    assert made.offer(first)
    server.sendall(order.model_dump_json().encode() + b"\n")
    assert made.await_runner() == order
    assert made.confirm(second)

    said = [ProcessNews.received(line) for line in server.recv(10_000).splitlines()]
    assert [(one.event, one.runner) for one in said] == [
        ("returning", first),
        ("offered", first),
        ("serving", second),
    ]


def test_a_server_that_has_ended_is_noticed(channel: tuple[ServerChannel, socket.socket]) -> None:
    made, server = channel
    server.close()

    assert made.await_runner() is None
    assert not made.offer(uuid4())


def test_a_pipe_of_an_older_server_takes_no_process_back() -> None:
    its, own = os.pipe()
    os.write(own, b"s3cret\n")
    os.close(own)
    channel = ServerChannel(its)

    assert channel.read_secret() == "s3cret"
    assert not channel.announce_return(uuid4())
    channel.close()
    os.close(its)
