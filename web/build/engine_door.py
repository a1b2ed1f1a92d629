"""The step between the page's worker and the planning core, shipped beside the core."""

import importlib.util
import sys
from collections.abc import Callable
from importlib.machinery import ExtensionFileLoader
from typing import Protocol


class JsBytes(Protocol):
    """A Uint8Array of JavaScript, as Pyodide shows it to Python."""

    def to_bytes(self) -> bytes:
        """Copy the bytes into Python."""
        ...


def link(name: str, path: str) -> None:
    """Import the extension module ``name`` that is already linked as ``path``.

    Its package lies in the archive, and an archive cannot hold a module that the browser has compiled.
    """
    loader = ExtensionFileLoader(name, path)
    spec = importlib.util.spec_from_file_location(name, path, loader=loader)
    if spec is None:
        raise ImportError(f"{name} is not at {path}", name=name, path=path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    loader.exec_module(module)


def open_core() -> Callable[[str, JsBytes | None], str]:
    """Import the core and give the function that answers the page's calls."""
    from willitserve import api

    def handle(text: str, payload: JsBytes | None = None) -> str:
        return api.handle(text, None if payload is None else payload.to_bytes())

    return handle
