#!/usr/bin/env python3
"""Build, serve and test Will It Serve.

    python3 build.py                  write dist/: a static folder for any path of any static host
    python3 build.py --check          build, build again from nothing, and fail if one byte differs
    python3 build.py serve [--port N] build, serve dist/ on this machine and print a URL to open
    python3 build.py test [STEP ...]  install what the tests need and run all steps (or those named)

Needs Python 3.11 or newer on Linux or macOS; the rest is fetched once, by pinned version and hash, into
.venv/, .cache/ and web/node_modules/. A second run is quick and works offline.
"""

from __future__ import annotations

import argparse
import fcntl
import filecmp
import gzip
import hashlib
import http.server
import json
import shutil
import sys
import tempfile
import tomllib
import zipfile
from base64 import urlsafe_b64encode
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TypeAlias

ROOT = Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT / ".ci"))

import toolchain  # noqa: E402  found in .ci, through the line above
from toolchain import CACHE, WEB, BuildError, run, say, sha256_of  # noqa: E402

DIST = ROOT / "dist"
PYODIDE = WEB / "node_modules" / "pyodide"
SIDE_MODULE = "pydantic_core/_pydantic_core.cpython-314-wasm32-emscripten.so"
SITE_PACKAGES = "/lib/python3.14/site-packages"
CATALOG_NAME = "catalog-v1.json"
PAGE_SUFFIXES = {".html", ".css", ".js", ".svg", ".png", ".ico", ".txt", ".woff2", ".webmanifest"}
BUILD_FOLDERS = frozenset({"build", "engine", "node_modules"})
EXAMPLE = "?model=meta-llama/Llama-3.3-70B-Instruct&gpu=h100-sxm5-80gb&tp=4&users=16&context=8192"
PORTS_TRIED = 20
SHOWN_CHANGES = 40
KEPT_ARCHIVES = 4
WHEEL_FILE = b"Wheel-Version: 1.0\nGenerator: build.py\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


Json: TypeAlias = "dict[str, Json] | list[Json] | str | int | float | bool | None"


def main() -> int:
    """Do what the command line says; 0 when it was done."""
    as_written = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=as_written)
    parser.add_argument("--check", action="store_true", help="fail unless a second build gives the same")
    commands = parser.add_subparsers(dest="command")
    commands.add_parser("serve").add_argument("--port", type=int, default=8000)
    commands.add_parser("test").add_argument("steps", nargs="*", metavar="STEP")
    arguments = parser.parse_args()
    try:
        toolchain.enter_venv(Path(__file__).resolve(), sys.argv[1:])
        if arguments.command == "test":
            from checks import run_checks

            return 0 if run_checks(arguments.steps, build_twice) else 1
        if arguments.check:
            build_twice()
        else:
            build()
        if arguments.command == "serve":
            serve(arguments.port)
    except BuildError as error:
        print(f"build.py: {error}", file=sys.stderr)
        return 1
    return 0


# --- dist -------------------------------------------------------------------------------------------------


def build() -> None:
    """Write dist/, or leave it alone when it is already what it should be."""
    with _alone():
        fresh = CACHE / "dist"
        _write_dist(fresh, use_cache=True)
        _show_catalog_changes(DIST / CATALOG_NAME, fresh / CATALOG_NAME)
        if _differences(fresh, DIST):
            shutil.rmtree(DIST, ignore_errors=True)
            fresh.rename(DIST)
        else:
            shutil.rmtree(fresh)
        size = sum(path.stat().st_size for path in _files(DIST))
        say(f"dist/ is up to date: {len(list(_files(DIST)))} files, {size / 2**20:.1f} MiB")


def build_twice() -> None:
    """Build, and fail unless building from nothing gives the same bytes."""
    build()
    with _alone(), tempfile.TemporaryDirectory(dir=CACHE) as folder:
        _write_dist(Path(folder), use_cache=False)
        if differences := _differences(Path(folder), DIST):
            raise BuildError(f"two builds differ in {', '.join(differences)}")
    say("a second build gives the same bytes")


@contextmanager
def _alone() -> Generator[None]:
    """Keep a second build.py from writing at the same time."""
    CACHE.mkdir(exist_ok=True)
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _write_dist(out: Path, *, use_cache: bool) -> None:
    toolchain.install("build")
    node = toolchain.find_node()
    toolchain.install_node_modules(node, dev=False)
    wheels = {path.name: path.read_bytes() for path in toolchain.browser_wheels()}
    catalog = _catalog_json()
    core_name, core_wheel = _core_wheel(catalog)

    with tempfile.TemporaryDirectory(dir=CACHE) as folder:
        stage = Path(folder)
        _unzip((PYODIDE / "python_stdlib.zip").read_bytes(), stage / "std")
        for name, data in wheels.items():
            if not name.startswith("micropip-"):
                _unzip(data, stage / "site")
        _unzip(core_wheel, stage / "core")
        archive = _archive(node, stage, use_cache=use_cache)
        side_module = (stage / "site" / SIDE_MODULE).read_bytes()

    shutil.rmtree(out, ignore_errors=True)
    engine = EngineFolder(out / "engine")
    lock = json.loads((PYODIDE / "pyodide-lock.json").read_text())
    installer = next(name for name in wheels if name.startswith("micropip-"))
    manifest = {
        "versions": _versions([*wheels, core_name], lock["info"]["python"]),
        "pyodide": {
            # Scripts end in .js: every host knows that type, not every one knows .mjs.
            "loader": engine.add("pyodide.js", (PYODIDE / "pyodide.mjs").read_bytes()),
            "module": engine.add("pyodide.asm.js", (PYODIDE / "pyodide.asm.mjs").read_bytes()),
            "wasm": engine.add("pyodide.asm.wasm", (PYODIDE / "pyodide.asm.wasm").read_bytes()),
            "stdlib": engine.add("python_stdlib.zip", (PYODIDE / "python_stdlib.zip").read_bytes()),
            "lockInfo": lock["info"],
        },
        "oneZip": {
            # Packed here, since few hosts pack a zip; the suffix is one that no host has rules for.
            "archive": engine.add("engine.pack", gzip.compress(archive, 9, mtime=0)),
            # Ends in .wasm, so that hosts give the type that lets the browser compile while it downloads.
            "sideModule": engine.add("pydantic_core.so.wasm", side_module),
            "sideModuleName": SIDE_MODULE.split(".")[0].replace("/", "."),
            "sideModulePath": f"{SITE_PACKAGES}/{SIDE_MODULE}",
        },
        "packages": {
            "installer": engine.add_wheel(installer, wheels.pop(installer)),
            "wheels": [engine.add_wheel(*wheel) for wheel in [*wheels.items(), (core_name, core_wheel)]],
        },
    }
    text = json.dumps(manifest, indent=2)
    (out / "engine" / "manifest.js").write_text(f"export const manifest = {text};\n", encoding="utf-8")
    (out / CATALOG_NAME).write_text(catalog, encoding="utf-8")
    for path in _files(WEB, skip=BUILD_FOLDERS):
        if path.suffix in PAGE_SUFFIXES:
            target = out / path.relative_to(WEB)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(path.read_bytes())


class EngineFolder:
    """The folder of heavy files, each named by its content so that a browser may keep it for good."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def add(self, name: str, data: bytes) -> dict[str, str | int]:
        """Write a file under a name that holds its digest; the manifest's entry."""
        stem, _, suffixes = name.partition(".")
        return self._write(f"{stem}-{_digest(data)}.{suffixes}", data)

    def add_wheel(self, name: str, data: bytes) -> dict[str, str | int]:
        """Write a wheel, whose file name is part of its format, under a folder that holds its digest."""
        return self._write(f"wheels/{_digest(data)}/{name}", data)

    def _write(self, path: str, data: bytes) -> dict[str, str | int]:
        target = self.folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
        return {"path": path, "bytes": len(data)}


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:12]


def _versions(wheel_names: list[str], python: str) -> dict[str, str]:
    pyodide = json.loads((PYODIDE / "package.json").read_text())["version"]
    return {"pyodide": pyodide, "python": python} | dict(name.split("-")[:2] for name in wheel_names)


# --- what the page's Python holds -------------------------------------------------------------------------


def _catalog_json() -> str:
    """The catalog's YAML, checked by the core, as the JSON that travels."""
    sys.path.insert(0, str(ROOT / "py"))
    from willitserve.catalog import Catalog
    from willitserve.errors import WillItServeError

    folder = ROOT / "catalog"
    paths = sorted(folder.rglob("*.yaml"))
    texts = {path.relative_to(folder).as_posix(): path.read_text("utf-8") for path in paths}
    try:
        return Catalog.from_yaml_texts(texts).to_json()
    except WillItServeError as error:
        raise BuildError(f"catalog/: {error}") from error


def _core_wheel(catalog: str) -> tuple[str, bytes]:
    """The core as a wheel for the page: its modules, the catalog as JSON, the door that the worker calls."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    name, version = project["name"], project["version"]
    files = {
        path.relative_to(ROOT / "py").as_posix(): path.read_bytes()
        for path in _files(ROOT / "py" / name)
        if path.suffix in {".py", ".typed"}
    }
    files["engine_door.py"] = (WEB / "build" / "engine_door.py").read_bytes()
    files[f"{name}/catalog_data/{CATALOG_NAME}"] = catalog.encode()
    info = f"{name}-{version}.dist-info"
    files[f"{info}/METADATA"] = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n".encode()
    files[f"{info}/WHEEL"] = WHEEL_FILE
    record = [f"{path},sha256={_record_digest(data)},{len(data)}\n" for path, data in sorted(files.items())]
    files[f"{info}/RECORD"] = ("".join(record) + f"{info}/RECORD,,\n").encode()
    with tempfile.SpooledTemporaryFile() as wheel:
        with zipfile.ZipFile(wheel, "w") as out:
            for path, data in sorted(files.items()):
                # ZipInfo without a date is of 1980: the same sources give the same bytes.
                out.writestr(zipfile.ZipInfo(path), data, zipfile.ZIP_DEFLATED, 9)
        wheel.seek(0)
        return f"{name}-{version}-py3-none-any.whl", wheel.read()


def _record_digest(data: bytes) -> str:
    return urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def _archive(node: toolchain.Node, stage: Path, *, use_cache: bool) -> bytes:
    """One stored zip of compiled modules: what the core loads of the standard library, packages and itself.

    Pyodide makes it, under Node; then Python is started from it and must answer the exercise as CPython does.
    """
    exercise = stage / "exercise.json"
    queries = ROOT / "tests" / "golden" / "requests.json"
    exchanges = run([sys.executable, WEB / "build" / "exercise.py", stage / "core", queries])
    exercise.write_text(exchanges, encoding="utf-8")
    tools = [*sorted((WEB / "build").glob("pack.*")), WEB / "boot.js", WEB / "package-lock.json"]
    inputs = [exercise, *tools, *sorted(_files(stage / "core")), toolchain.LOCKS / "browser.txt"]
    kept = CACHE / "archives" / f"{sha256_of(*inputs)[:16]}.zip"
    if use_cache and kept.exists():
        return kept.read_bytes()
    say("compiling the page's Python")
    shutil.copy(WEB / "build" / "pack.py", stage)
    side_module = {
        "file": str(stage / "site" / SIDE_MODULE),
        "name": SIDE_MODULE.split(".")[0].replace("/", "."),
        "path": f"{SITE_PACKAGES}/{SIDE_MODULE}",
    }
    job = {"pyodide": str(PYODIDE), "stage": str(stage), "sideModule": side_module, "exercise": str(exercise)}
    (stage / "job.json").write_text(json.dumps(job), encoding="utf-8")
    run([node.node, WEB / "build" / "pack.mjs", stage / "job.json"])
    archive = (stage / "archive.zip").read_bytes()
    if use_cache:
        kept.parent.mkdir(exist_ok=True)
        kept.write_bytes(archive)
        by_age = sorted(kept.parent.iterdir(), key=lambda path: path.stat().st_mtime)
        for old in by_age[:-KEPT_ARCHIVES]:
            old.unlink()
    return archive


def _unzip(data: bytes, folder: Path) -> None:
    with tempfile.SpooledTemporaryFile() as file:
        file.write(data)
        with zipfile.ZipFile(file) as archive:
            archive.extractall(folder)


# --- differences ------------------------------------------------------------------------------------------


def _files(folder: Path, skip: frozenset[str] = frozenset()) -> Iterator[Path]:
    """All files below a folder, sorted; ``skip`` names folders directly in it that are left out."""
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.relative_to(folder).parts[0] not in skip and path.suffix != ".pyc":
            yield path


def _differences(one: Path, other: Path) -> list[str]:
    """Names of the files that are in one of two folders only, or differ."""
    names = {path.relative_to(folder).as_posix() for folder in (one, other) for path in _files(folder)}
    _, differing, missing = filecmp.cmpfiles(one, other, names, shallow=False)
    return sorted([*differing, *missing])


def _show_catalog_changes(before: Path, after: Path) -> None:
    """Print what a reader of the data would want to see of a change: each value added, removed or altered."""
    if not before.exists():
        return
    old, new = (dict(_leaves(json.loads(path.read_text("utf-8")))) for path in (before, after))
    changes = [f"- {key}: {old[key]}" for key in old.keys() - new.keys()]
    changes += [f"+ {key}: {new[key]}" for key in new.keys() - old.keys()]
    both = old.keys() & new.keys()
    changes += [f"~ {key}: {old[key]} -> {new[key]}" for key in both if old[key] != new[key]]
    if changes:
        say(f"the catalog's data changed in {len(changes)} values:")
        for change in sorted(changes, key=lambda change: change[2:])[:SHOWN_CHANGES]:
            say(f"  {change}")
        if len(changes) > SHOWN_CHANGES:
            say(f"  and {len(changes) - SHOWN_CHANGES} more")


def _leaves(value: Json, path: str = "") -> Iterator[tuple[str, str]]:
    """Each scalar of a JSON value with its path; entries of a list go by their id where they have one."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _leaves(item, f"{path}/{key}")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            name = item.get("id", index) if isinstance(item, dict) else index
            yield from _leaves(item, f"{path}/{name}")
    else:
        yield path, json.dumps(value, ensure_ascii=False)


# --- serve ------------------------------------------------------------------------------------------------


class PageHandler(http.server.SimpleHTTPRequestHandler):
    """dist/ with the types a browser insists on, never kept without asking."""

    extensions_map = {  # noqa: RUF012  the base class's own way to set it
        ".html": "text/html; charset=utf-8",
        ".css": "text/css; charset=utf-8",
        ".js": "text/javascript; charset=utf-8",
        ".json": "application/json",
        ".svg": "image/svg+xml",
        ".wasm": "application/wasm",
        "": "application/octet-stream",
    }

    def end_headers(self) -> None:
        """Add what development wants: a changed file is seen at the next reload."""
        self.send_header("Cache-Control", "no-cache")
        super().end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the base class's name
        """Say only what went wrong."""
        if len(args) > 1 and str(args[1]) >= "400":
            super().log_message(format, *args)


def serve(port: int) -> None:
    """Serve dist/ on this machine until interrupted, on the first free port from ``port`` on."""
    handler = partial(PageHandler, directory=str(DIST))
    for candidate in range(port, port + PORTS_TRIED):
        try:
            server = http.server.ThreadingHTTPServer(("127.0.0.1", candidate), handler)
        except OSError:
            say(f"port {candidate} is in use")
            continue
        say(f"open http://localhost:{candidate}/{EXAMPLE}\n(Ctrl+C ends it)")
        with server:
            try:
                server.serve_forever()
            except KeyboardInterrupt:
                return
    raise BuildError(f"no free port from {port} to {port + PORTS_TRIED - 1}: give another with --port.")


if __name__ == "__main__":
    sys.exit(main())
