"""A static site of which single files can be broken on purpose."""

import asyncio
from dataclasses import dataclass, field
from fnmatch import fnmatch

from starlette.datastructures import MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send


@dataclass
class Fault:
    """What is wrong with the files whose path matches."""

    pattern: str
    status: int | None = None
    headers: dict[str, str] = field(default_factory=dict[str, str])
    body: bytes | None = None
    stalls: bool = False


class FaultySite:
    """Wraps a static site; ``break_file`` takes effect from the next request on."""

    def __init__(self, site: ASGIApp) -> None:
        self.site = site
        self.faults: list[Fault] = []
        self.requested: list[str] = []

    def break_file(
        self,
        pattern: str,
        *,
        status: int | None = None,
        headers: dict[str, str] | None = None,
        body: bytes | None = None,
        stalls: bool = False,
    ) -> None:
        """Break the files whose path matches a shell pattern: other status, headers or body, or no answer."""
        self.faults.append(Fault(pattern, status, headers or {}, body, stalls))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path: str = scope["path"]
        self.requested.append(path)
        fault = next((fault for fault in self.faults if fnmatch(path, fault.pattern)), None)
        if fault is None:
            await self.site(scope, receive, send)
        elif fault.stalls:
            while (await receive())["type"] != "http.disconnect":
                await asyncio.sleep(0)
        elif fault.status is not None or fault.body is not None:
            body = b"broken" if fault.body is None else fault.body
            await Response(body, fault.status or 200, fault.headers)(scope, receive, send)
        else:

            async def send_with_headers(message: Message) -> None:
                if message["type"] == "http.response.start":
                    MutableHeaders(scope=message).update(fault.headers)
                await send(message)

            await self.site(scope, receive, send_with_headers)
