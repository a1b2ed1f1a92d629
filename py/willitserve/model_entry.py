"""One model of the catalog: its configuration and a compact pattern of its checkpoint's header."""

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field, JsonValue

from willitserve.header_pattern import NamedTensor, TensorPattern, expand
from willitserve.record import Record

Basis = Literal["published header", "published index", "published count", "sibling count", "architecture"]
"""What the tensor list rests on, firmest first: the files' own headers; the publisher's index (all names);
tensors of the model's architecture whose number of elements equals the published one; the same with the count
of a model of the same shape; the architecture alone."""


class ModelAlias(Record):
    """Another repository that the entry answers for: same tensors, and same configuration where it matters
    here."""

    id: str
    """As the Hub spells it."""
    gated: bool | None
    note: str
    """What it is and how it differs: `base model`, `the former name of the repository`."""


class ModelEntry(Record):
    """What a page can say about a model before, or instead of, reading its files."""

    id: str
    """As the Hub spells it: `org/name`."""
    aliases: tuple[ModelAlias, ...] = ()
    revision: Annotated[str, Field(pattern=r"^[0-9a-f]{40}$")] | None
    """The commit that was read, 40 hex digits; None: the facts are not tied to one commit."""
    gated: bool | None
    """Whether the Hub asks for a licence to be accepted before it hands out the files; None: that changed
    over time, not known for today."""
    basis: Basis
    config_basis: Literal["published file", "published values", "shape keys"]
    """published file: config.json as published, less keys that decide nothing here; published values: the
    same values from a copy made by a program; shape keys: only what the element count proves, other keys are
    left out."""
    notes: tuple[str, ...] = ()
    """What is not proven about this entry."""
    source: str
    """Where to check it."""
    config: dict[str, JsonValue]
    """Keys and values of config.json."""
    tensors: tuple[TensorPattern, ...] = Field(min_length=1)

    def expand(self) -> Iterator[NamedTensor]:
        """Every tensor of the checkpoint."""
        return expand(self.tensors)

    def ids(self) -> Iterator[str]:
        """The id and all aliases."""
        yield self.id
        yield from (alias.id for alias in self.aliases)

    def gated_as(self, model_id: str) -> bool | None:
        """Whether the repository that was asked for, the entry's own or an alias, is gated; None: not
        known."""
        for alias in self.aliases:
            if alias.id.casefold() == model_id.casefold():
                return alias.gated
        return self.gated
