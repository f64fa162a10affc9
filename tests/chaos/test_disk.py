"""The disk of a chaos run is a disk: after a power cut it has what was synced, and no more."""

import os
from pathlib import Path

import pytest

from jobmanager.files import durable
from tests.chaos.disk import ImageDisk, a_disk


def test_a_power_cut_leaves_what_was_synced(tmp_path: Path) -> None:
    with a_disk(tmp_path / "disk", tmp_path / "image") as disk:
        if not isinstance(disk, ImageDisk):
            pytest.skip("no ext4 file system can be mounted here")
        (disk.path / "written").write_text("written, not synced")
        durable.write(disk.path / "synced", "synced with its name")
        (disk.path / "late").write_text("its name comes after the last sync")

        disk.lose_power()
        losses = disk.find_again()

        assert (disk.path / "synced").read_text() == "synced with its name"
        assert (disk.path / "written").read_text() == ""  # the sync of another file kept its name
        assert losses.gone == ["late"]
        assert list(losses.emptied) == ["written"]


def test_a_disk_that_was_filled_has_no_space_until_it_is_freed(tmp_path: Path) -> None:
    with a_disk(tmp_path / "disk", tmp_path / "image") as disk:
        if not disk.can_be_filled:
            pytest.skip("no file system can be mounted here")
        disk.fill()
        with pytest.raises(OSError, match="No space left on device"):
            (disk.path / "file").write_bytes(os.urandom(1 << 20))

        disk.free()
        (disk.path / "file").write_bytes(os.urandom(1 << 20))
