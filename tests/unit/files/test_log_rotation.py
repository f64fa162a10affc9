"""Rotation of a log that another process holds open."""

from pathlib import Path

from jobmanager.files.log_rotation import LogLimits, rotate


def test_a_log_is_rotated_under_the_hands_of_its_writers(tmp_path: Path) -> None:
    log, limits = tmp_path / "runner.log", LogLimits(bytes=100, files=2)
    with log.open("ab", buffering=0) as first, log.open("ab", buffering=0) as second:
        for number in range(1, 6):
            first.write(f"{number} of the runner\n".encode())
            assert not rotate(log, limits)
            second.write(f"{number} of its JVM\n".encode() * 10)
            assert rotate(log, limits)
            assert log.stat().st_size == 0
        first.write(b"last\n")

    assert log.read_text() == "last\n"
    assert (tmp_path / "runner.log.1").read_text().startswith("5 of the runner\n5 of its JVM")
    assert (tmp_path / "runner.log.2").read_text().startswith("4 of the runner\n")
    assert sorted(one.name for one in tmp_path.iterdir()) == [
        "runner.log",
        "runner.log.1",
        "runner.log.2",
    ]


def test_without_rotated_files_the_log_is_only_emptied(tmp_path: Path) -> None:
    log = tmp_path / "runner.log"
    log.write_text("x" * 200)

    assert rotate(log, LogLimits(bytes=100, files=0))

    assert [one.name for one in tmp_path.iterdir()] == ["runner.log"]
    assert log.read_text() == ""


def test_a_runner_is_told_its_limits_by_the_environment() -> None:
    limits = LogLimits(bytes=5, files=1)

    assert LogLimits.of_environment(limits.environment()) == limits
    assert LogLimits.of_environment({}) is None
