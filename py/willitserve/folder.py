"""A checkpoint in a local folder: config.json and the first bytes of its weight files. Used by the terminal
door only."""

from pathlib import Path

from willitserve.errors import RepositoryError
from willitserve.reading import OpenCheckpoint, headers_text
from willitserve.repository import choose_files
from willitserve.safetensors import HEADER_LIMIT_BYTES, LENGTH_BYTES

INDEX_NAME = "model.safetensors.index.json"


def open_folder(folder: Path) -> OpenCheckpoint:
    """Read the headers that an engine would load from `folder`.

    Raises
        RepositoryError: no such folder, or no loadable set of weights in it; the message says what is there
        instead. HeaderError: a file is not valid safetensors; the message names it.
    """
    if not folder.is_dir():
        raise RepositoryError(
            f"there is no folder {folder}", hint="Give a folder with config.json and *.safetensors."
        )
    files = sorted((item.name, item.stat().st_size) for item in folder.iterdir() if item.is_file())
    index = folder / INDEX_NAME
    index_text = index.read_text("utf-8", errors="replace") if index.is_file() else None
    choice = choose_files(files, index_text=index_text)
    if choice.kind != "safetensors":
        raise RepositoryError(f"no *.safetensors to load in {folder}: {choice.sentence}")
    sizes = dict(files)
    opened = OpenCheckpoint(
        model_id=folder.name.replace("__", "/", 1),
        revision=None,
        source="folder",
        source_sentence=f"{headers_text(len(choice.read))} read from {folder}.",
        expected=frozenset(choice.read),
    )
    config = folder / "config.json"
    opened.set_config(config.read_text("utf-8", errors="replace") if config.is_file() else None)
    sidecar = folder / "hf_quant_config.json"
    if sidecar.is_file():
        opened.set_hf_quant_config(sidecar.read_text("utf-8", errors="replace"))
    for name in choice.read:
        with (folder / name).open("rb") as file:
            start = file.read(LENGTH_BYTES)
            length = min(int.from_bytes(start, "little"), HEADER_LIMIT_BYTES)
            opened.add(name, start + file.read(length), file_size=sizes[name])
    return opened
