"""What can go wrong between a page and the Hub, as data: `HubStandIn.misbehave` attaches one to a path."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Status:
    """This answer instead of the file or the JSON. Without `cors` a page sees a TypeError only."""

    code: int
    body: str = ""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    cors: bool = True


@dataclass(frozen=True)
class Delay:
    """The right answer, late."""

    seconds: float


@dataclass(frozen=True)
class Silence:
    """The connection is accepted and nothing ever comes."""


@dataclass(frozen=True)
class Truncated:
    """The right headers, `keep_bytes` of the body, then the connection is closed."""

    keep_bytes: int


@dataclass(frozen=True)
class IgnoredRange:
    """200 and the whole file."""


@dataclass(frozen=True)
class ContentRange:
    """206 with this Content-Range whatever the body is; `{start}`, `{end}` and `{total}` are filled in."""

    text: str


@dataclass(frozen=True)
class HiddenHeaders:
    """No Access-Control-Expose-Headers: the page cannot read Content-Range."""


@dataclass(frozen=True)
class CdnHost:
    """`resolve` sends to this CDN host instead of the usual one."""

    host: str


@dataclass(frozen=True)
class Preflight:
    """OPTIONS is answered with this status; other methods are answered as usual."""

    code: int


Fault = (
    Status | Delay | Silence | Truncated | IgnoredRange | ContentRange | HiddenHeaders | CdnHost | Preflight
)
