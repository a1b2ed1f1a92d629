"""What an engine does with each weight and KV format on each compute capability: the shape of
`catalog/formats.yaml`."""

from typing import Literal, Self

from pydantic import Field, model_validator

from willitserve.record import Record

Support = Literal["native", "weight_only", "storage_only", "emulated", "unsupported", "no_binary", "unclear"]
"""The legend in the file says what each means."""


class FormatSupport(Record):
    """One storage format over all compute capabilities of the table."""

    description: str
    support: dict[str, Support]
    """By compute capability."""
    notes: tuple[str, ...] = ()
    sources: tuple[str, ...] = Field(min_length=1)
    """Files of the engine's source tree, read at the table's version."""


class FormatTable(Record):
    """The precision matrix of one engine version."""

    engine: str
    version: str
    source: str
    """Address of the source tree that `sources` are paths of."""
    legend: dict[Support, str]
    columns: tuple[str, ...]
    treated_as: dict[str, str]
    """Compute capabilities without a column of their own, and the column that holds for them."""
    not_covered: dict[str, str]
    """Targets about which the table says nothing by format, with what is known."""
    formats: dict[str, FormatSupport]

    @model_validator(mode="after")
    def _is_full(self) -> Self:
        for name, entry in self.formats.items():
            odd = entry.support.keys() ^ set(self.columns)
            if odd:
                raise ValueError(f"{name}: its columns and the table's differ in {', '.join(sorted(odd))}")
        columns = set(self.columns)
        odd = (set(self.treated_as.values()) - columns) | (self.treated_as.keys() & columns)
        if odd:
            raise ValueError(f"treated_as leads from a column or past the columns: {', '.join(sorted(odd))}")
        return self

    def support(self, format_name: str, compute_capability: str | None) -> Support | None:
        """What the engine does with `format_name` on a card of that capability; None: the table does not
        say."""
        entry = self.formats.get(format_name)
        if entry is None or compute_capability is None:
            return None
        return entry.support.get(self.treated_as.get(compute_capability, compute_capability))
