"""Writes the engine's archive. Runs inside Pyodide, after the core has answered the exercise.

Nothing may be imported at the top that the page's Python does not need: what is loaded now is what is kept.
"""

import sys
from types import ModuleType

# Modules that the exercise does not load but that some answer may: each is loaded late by the module named.
LATE_STDLIB = (
    "_strptime",  # datetime.strptime
    "encodings.idna",  # str.encode, codecs
    "encodings.latin_1",
    "linecache",  # traceback
    "textwrap",  # traceback
    "traceback",  # Pyodide, to show an exception
    "tokenize",  # linecache
)
LATE_SITE = (
    "pydantic.errors",
    "pydantic._internal",  # its modules load one another late
)
# Imports inside functions of the core that the page never reaches: YAML is read when the catalog is built.
NOT_ON_THE_PAGE = frozenset({"willitserve.catalog_yaml"})
# Pyodide reads docstrings of its own modules; everywhere else docstrings and asserts are dropped.
KEEPS_DOCSTRINGS = ("_pyodide/", "pyodide/")
ARCHIVE_IN_PAGE = "/lib/python314.zip/"


def write_archive(stage: str, archive: str) -> None:
    """Write every loaded module (and the late ones) as a stored zip of compiled files.

    ``stage`` has ``std``, ``site`` and ``core``, each a folder of Python sources.
    """
    loaded = {name: _source_file(module) for name, module in sys.modules.items() if name != "pack"}

    import os
    import zipfile

    std, site, core = (f"{stage}/{part}" for part in ("std", "site", "core"))
    kept: dict[str, str] = {}  # name in the archive -> file
    for file in loaded.values():
        for prefix, folder in ((ARCHIVE_IN_PAGE, std), (f"{site}/", site), (f"{core}/", core)):
            if file.startswith(prefix) and file.endswith(".py"):
                kept[file.removeprefix(prefix)] = f"{folder}/{file.removeprefix(prefix)}"
    for folder, names in ((std, LATE_STDLIB), (site, LATE_SITE)):
        for name in names:
            kept |= _module_files(folder, name)
    _refuse_unkept_imports(kept, core, set(loaded))
    for directory, _, files in os.walk(core):
        for file in files:
            path = os.path.join(directory, file)
            if not file.endswith((".py", ".typed")) and ".dist-info" not in directory:
                kept[os.path.relpath(path, core)] = path

    with zipfile.ZipFile(archive, "w", zipfile.ZIP_STORED) as out:
        for name in sorted(kept):
            if name.endswith(".py"):
                out.writestr(zipfile.ZipInfo(f"{name}c"), _compiled(kept[name], name))
            else:
                out.writestr(zipfile.ZipInfo(name), _read(kept[name]))


def _source_file(module: ModuleType) -> str:
    """Where a module was read from; empty when the interpreter has it built in or frozen."""
    frozen = getattr(module.__spec__, "origin", None) == "frozen"
    return "" if frozen else getattr(module, "__file__", None) or ""


def _module_files(folder: str, dotted: str) -> dict[str, str]:
    """Files of a module, or of a package with the modules directly in it."""
    import os

    name = dotted.replace(".", "/")
    if os.path.isdir(f"{folder}/{name}"):
        names = [f"{name}/{file}" for file in os.listdir(f"{folder}/{name}") if file.endswith(".py")]
    else:
        names = [f"{name}.py"]
    parents = name.split("/")[:-1]
    names += ["/".join(parents[: end + 1]) + "/__init__.py" for end in range(len(parents))]
    return {name: f"{folder}/{name}" for name in names}


def _compiled(path: str, name: str) -> bytes:
    import py_compile

    optimize = 1 if name.startswith(KEEPS_DOCSTRINGS) else 2
    compiled = py_compile.compile(
        path,
        cfile="/tmp/compiled.pyc",
        dfile=ARCHIVE_IN_PAGE + name,
        doraise=True,
        optimize=optimize,
        # The archive has no source to compare with, and no date: the same sources give the same bytes.
        invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
    )
    return _read(str(compiled))


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _refuse_unkept_imports(kept: dict[str, str], core: str, loaded: set[str]) -> None:
    """Fail on an import inside a function of the core that would find nothing on the page."""
    known = loaded | {name.removesuffix(".py").removesuffix("/__init__").replace("/", ".") for name in kept}
    for name, path in sorted(kept.items()):
        if path.startswith(f"{core}/willitserve/"):
            for imported in sorted(_run_time_imports(_read(path)) - known - NOT_ON_THE_PAGE):
                raise ImportError(f"{name} imports {imported}, which the archive leaves out")


def _run_time_imports(source: bytes) -> set[str]:
    """Absolute names of the modules that a source imports anywhere but under ``if TYPE_CHECKING``."""
    import ast

    names: set[str] = set()
    waiting: list[ast.AST] = [ast.parse(source)]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            waiting += node.orelse
            continue
        waiting += ast.iter_child_nodes(node)
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names.add(node.module)
    return names
