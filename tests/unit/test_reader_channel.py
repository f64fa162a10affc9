"""Messages and open files between a server and a reader process."""

import asyncio
import os
import socket
from pathlib import Path

import pytest

from jobmanager.reader_channel import ChannelMessage, ReaderChannel

pytestmark = pytest.mark.anyio


def open_files() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


class End:
    def __init__(self, end: socket.socket) -> None:
        self.heard: asyncio.Queue[ChannelMessage] = asyncio.Queue()
        self.closed = asyncio.Event()
        self.channel = ReaderChannel(end, self.heard.put_nowait, self.closed.set)
        self.channel.open()


@pytest.fixture
async def ends() -> tuple[End, End]:
    here, there = socket.socketpair()
    return End(here), End(there)


async def test_messages_arrive_whole_and_in_order_however_large(ends: tuple[End, End]) -> None:
    sender, receiver = ends
    contents = [b"", b"x" * 1_000_000, b"y", b"z" * 300_000]
    for number, content in enumerate(contents):
        assert sender.channel.send({"number": number}, content)

    for number, content in enumerate(contents):
        message = await asyncio.wait_for(receiver.heard.get(), 30)
        assert (message.head["number"], message.content, message.file) == (number, content, None)
    sender.channel.close()
    receiver.channel.close()


async def test_each_message_has_its_own_open_file(ends: tuple[End, End]) -> None:
    sender, receiver = ends
    before = open_files()
    pipes = [os.pipe() for _ in range(20)]
    for number, (read_end, write_end) in enumerate(pipes):
        os.write(write_end, f"file {number}".encode())
        os.close(write_end)
        has_file = number % 3 != 1
        sender.channel.send({"number": number}, b"x" * 50_000, read_end if has_file else None)

    for number, (read_end, _) in enumerate(pipes):
        message = await asyncio.wait_for(receiver.heard.get(), 30)
        assert message.head["number"] == number
        if number % 3 == 1:
            assert message.file is None
            os.close(read_end)
            continue
        assert message.file is not None
        assert os.read(message.file, 100) == f"file {number}".encode()
        os.close(message.file)
    assert open_files() == before  # the sender has none of them any more
    sender.channel.close()
    receiver.channel.close()


async def test_the_end_of_one_process_is_the_end_of_the_channel(ends: tuple[End, End]) -> None:
    here, there = ends
    here.channel.close()
    await asyncio.wait_for(there.closed.wait(), 30)

    read_end, write_end = os.pipe()
    os.close(write_end)
    assert not there.channel.send({"number": 1}, b"", read_end)
    with pytest.raises(OSError, match="Bad file"):  # a file that cannot be sent is closed
        os.fstat(read_end)


async def test_files_that_nobody_took_are_closed(ends: tuple[End, End]) -> None:
    sender, receiver = ends
    asyncio.get_running_loop().remove_reader(receiver.channel._socket)
    before = open_files()
    while not sender.channel._waiting:
        read_end, write_end = os.pipe()
        os.close(write_end)
        sender.channel.send({"number": 1}, b"x" * 100_000, read_end)
    sender.channel.close()
    assert open_files() == before - 1  # its own end is closed, too
    receiver.channel.close()
