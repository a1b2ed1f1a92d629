"""The steps of `build.py test`: each is one command, and a failed one does not stop the next."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import toolchain
from toolchain import ROOT, WEB, BuildError, Node, say


def run_checks(only: Sequence[str], build_twice: Callable[[], None]) -> bool:
    """Install what the steps need, run them, print a summary; tells whether all passed.

    ``only`` names the steps to run; empty means all.
    """
    toolchain.install("test")
    node = toolchain.find_node()
    toolchain.install_node_modules(node, dev=True)
    steps = _steps(node, build_twice)
    unknown = set(only) - steps.keys()
    if unknown:
        raise BuildError(f"no step is called {', '.join(sorted(unknown))}; there are: {', '.join(steps)}")
    failed: list[str] = []
    lines: list[str] = []
    for name, step in steps.items():
        if only and name not in only:
            continue
        say(f"\n== {name}")
        started = time.monotonic()
        try:
            step()
        except (BuildError, subprocess.CalledProcessError) as error:
            say(str(error))
            failed.append(name)
        outcome = "FAILED" if name in failed else "passed"
        lines.append(f"{outcome}  {time.monotonic() - started:6.1f} s  {name}")
    say("\n== summary\n" + "\n".join(lines))
    say(f"{len(lines) - len(failed)} passed, {len(failed)} failed")
    return not failed


def _steps(node: Node, build_twice: Callable[[], None]) -> dict[str, Callable[[], None]]:
    python = [sys.executable, "-m"]

    def tool(package: str, script: str, *arguments: str) -> Callable[[], None]:
        return lambda: _call([node.node, str(WEB / "node_modules" / package / script), *arguments], cwd=WEB)

    def web_types() -> None:
        tool("typescript", "bin/tsc", "-p", ".")()
        tool("typescript", "bin/tsc", "-p", "build")()

    def web_unit() -> None:
        tests = sorted(str(path) for path in (ROOT / "tests" / "web").rglob("*.test.js"))
        _call([node.node, "--test", "--test-reporter=spec", *tests])

    def browser() -> None:
        _call([*python, "pytest", "tests/browser"], env={"CHROMIUM": toolchain.find_chromium()})

    return {
        "lint-py": lambda: _call([*python, "ruff", "check", "."]),
        "lint-web": tool("@biomejs/biome", "bin/biome", "lint", ".", "../tests/web"),
        "types-py": lambda: _call([*python, "basedpyright"]),
        "types-web": web_types,
        "unit-py": lambda: _call([*python, "pytest", "tests/py"]),
        "unit-web": web_unit,
        "build": build_twice,
        "browser": browser,
    }


def _call(command: Sequence[str], *, cwd: Path = ROOT, env: dict[str, str] | None = None) -> None:
    """Run a step with its output shown as it comes."""
    subprocess.run(command, cwd=cwd, env={**os.environ, **(env or {})}, stdin=subprocess.DEVNULL, check=True)
