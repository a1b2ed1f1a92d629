"""The base of every model that crosses a boundary: frozen, closed to unknown keys, documented by field
docstrings."""

from pydantic import BaseModel, ConfigDict


class Record(BaseModel):
    """Immutable, strict about keys; a string under a field is its doc and its schema text."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)
