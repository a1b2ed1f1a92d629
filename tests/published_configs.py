"""Published config.json files, cut down to the keys that decide shape; origins in
tests/data/configs/README.md."""

from pathlib import Path
from typing import Final

from willitserve.architecture import Architecture
from willitserve.config import describe, read_config

FOLDER: Final = Path(__file__).parent / "data" / "configs"

MODEL_IDS: Final = sorted(path.stem.replace("__", "/", 1) for path in FOLDER.glob("*.json"))


def published_config(model_id: str) -> dict[str, object]:
    """The config of a published model as parsed JSON."""
    return read_config((FOLDER / f"{model_id.replace('/', '__')}.json").read_text())


def published_architecture(model_id: str) -> Architecture:
    """What is read out of that config."""
    return describe(published_config(model_id))
