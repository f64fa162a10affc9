"""Each runner has its own log, though one process and its children write all of them."""

import subprocess
import sys
from pathlib import Path

_PROCESS = """
import subprocess, sys
from pathlib import Path
from taskrunner.runner_log import RunnerLog

def say(text):
    print(text, file=sys.stderr, flush=True)
    # as Spark's JVM: it has inherited the open file, and nobody tells it of another
    child.stdin.write(f"child {text}\\n".encode())
    child.stdin.flush()
    child.stdout.readline()

talker = '''
import sys
for line in sys.stdin:
    print(line.strip(), file=sys.stderr, flush=True)
    print(flush=True)
'''
pipe = subprocess.PIPE
child = subprocess.Popen([sys.executable, "-c", talker], stdin=pipe, stdout=pipe)
homes = [Path(one) for one in sys.argv[1:]]
log = RunnerLog(homes[0])
assert log.path == homes[0] / "runner.log"
say("first")
log.leave()
assert log.path is None
say("nobody's")
log.enter(homes[1])
say("second")
log.leave()
log.enter(homes[2])
say("third")
"""


def test_every_runner_finds_only_its_own_lines(tmp_path: Path) -> None:
    homes = [tmp_path / name for name in ("one", "two", "three")]
    homes[0].mkdir()
    with (homes[0] / "runner.log").open("ab") as log:
        command = [sys.executable, "-c", _PROCESS, *map(str, homes)]
        process = subprocess.run(command, stderr=log, check=False)

    logs = [(home / "runner.log").read_text() for home in homes]
    assert process.returncode == 0, logs
    assert logs == ["first\nchild first\n", "second\nchild second\n", "third\nchild third\n"]
    assert [one.name for one in homes[0].iterdir()] == ["runner.log"]


def test_a_log_elsewhere_is_not_ours(tmp_path: Path) -> None:
    (tmp_path / "runner.log").touch()
    asked = (
        "import sys; from pathlib import Path; from taskrunner.runner_log import RunnerLog; "
        "sys.exit(RunnerLog(Path(sys.argv[1])).path is not None)"
    )
    command = [sys.executable, "-c", asked, str(tmp_path)]

    assert subprocess.run(command, stderr=subprocess.PIPE, check=False).returncode == 0
