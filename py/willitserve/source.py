"""Where a figure of the catalog was read."""

from willitserve.record import Record


class Source(Record):
    """One public source; entries name it by a short code."""

    title: str
    url: str | None = None
    """None: public material without one address, such as figures that many logs agree on; the title says how
    they were found."""
