"""The Hub and its CDN as a browser meets them: redirects, CORS, signed ranges, error headers.

One ASGI application answers for all host names and tells them apart by the Host header. What it answers
follows recorded exchanges with the real Hub; what can go wrong is attached to a path with `misbehave`.
"""

import asyncio
import fnmatch
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import parse_qs, quote, unquote

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from browser.standin import signing
from browser.standin.answers import (
    CDN_FILE_HEADERS,
    CDN_HEADERS,
    HUB_HOST,
    SINGLE_RANGE,
    BrokenOffResponse,
    error_answer,
    git_answer,
    hub_headers,
    json_answer,
    model_json,
    redirect,
)
from browser.standin.faults import (
    CdnHost,
    ContentRange,
    Delay,
    Fault,
    HiddenHeaders,
    IgnoredRange,
    Preflight,
    Silence,
    Status,
    Truncated,
)
from browser.standin.log import Exchange, RequestLog
from browser.standin.repo import Repo, StoredFile

CDN_HOST = "us.aws.cdn.hf.co"
OTHER_CDN_HOST = "cas-bridge.xethub.hf.co"
DEAD_CDN_HOST = "us.gcp.cdn.hf.co"
"""Resolves to a port where nobody listens."""
NOT_FOUND_OR_PRIVATE = "Invalid username or password."
INVALID_CREDENTIALS = "Invalid credentials in Authorization header"


@dataclass(frozen=True)
class Account:
    """Who a token belongs to, and what it opens."""

    approved: frozenset[str] = frozenset()
    """Gated repositories whose terms this account was let into."""
    private: frozenset[str] = frozenset()
    may_read: bool = True
    """False: a fine-grained token without the right to read contents."""


@dataclass
class _Trap:
    host: Literal["hub", "cdn"]
    pattern: str
    fault: Fault
    times: int | None


@dataclass
class HubStandIn:
    """The state of the pretended Hub; `reset` makes it new."""

    repos: dict[str, Repo] = field(default_factory=dict[str, Repo])
    renamed: dict[str, str] = field(default_factory=dict[str, str])
    """Old or legacy id to the present one."""
    accounts: dict[str, Account] = field(default_factory=dict[str, Account])
    """Token to account; any other token is not accepted."""
    log: RequestLog = field(default_factory=RequestLog)
    _traps: list[_Trap] = field(default_factory=list[_Trap])
    _cdn_files: dict[str, tuple[str, StoredFile]] = field(default_factory=dict[str, tuple[str, StoredFile]])

    def reset(self) -> None:
        self.repos.clear()
        self.renamed.clear()
        self.accounts.clear()
        self._traps.clear()
        self._cdn_files.clear()
        self.log.clear()

    def add(self, repo: Repo) -> Repo:
        self.repos[repo.id] = repo
        return repo

    def misbehave(
        self, host: Literal["hub", "cdn"], path: str, fault: Fault, *, times: int | None = None
    ) -> None:
        """Answer with this fault where the path matches the glob, the next `times` times (None: always).

        A hub path is the decoded URL path (`/org/name/resolve/<sha>/file`); a CDN path is `org/name/file`.
        """
        self._traps.append(_Trap(host, path, fault, times))

    def _fault(self, host: Literal["hub", "cdn"], path: str, *, preflight: bool) -> Fault | None:
        for trap in self._traps:
            if trap.host != host or trap.times == 0 or isinstance(trap.fault, Preflight) != preflight:
                continue
            if fnmatch.fnmatchcase(path, trap.pattern):
                if trap.times is not None:
                    trap.times -= 1
                return trap.fault
        return None

    # --- ASGI

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        exchange = Exchange(
            method=request.method,
            host=request.headers.get("host", "").split(":")[0],
            path=scope["raw_path"].decode("ascii"),
            query=request.url.query,
            headers=dict(request.headers.items()),
        )

        async def counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                exchange.status = message["status"]
            else:
                exchange.sent_bytes += len(message.get("body", b""))
            await send(message)

        self.log.begin(exchange)
        try:
            if exchange.host == HUB_HOST:
                response = await self._hub(request, exchange)
            elif exchange.host in (CDN_HOST, OTHER_CDN_HOST):
                response = await self._cdn(request, exchange)
            else:
                response = Response("Misdirected Request", 421)
            await response(scope, receive, counted)
        finally:
            self.log.end(exchange)

    # --- the Hub

    async def _hub(self, request: Request, exchange: Exchange) -> Response:
        if "workers.dev" in (exchange.referer or ""):
            return Response("Not Found", 404)
        path = unquote(exchange.path)
        if request.method == "OPTIONS":
            match self._fault("hub", path, preflight=True):
                case Preflight(code=code):
                    return Response(status_code=code)
                case _:
                    return self._hub_preflight(exchange)
        fault = self._fault("hub", path, preflight=False)
        match fault:
            case Status():
                headers = hub_headers(exchange) if fault.cors else {}
                return Response(fault.body, fault.code, {**headers, **fault.headers}, "text/html")
            case Delay(seconds=seconds):
                await asyncio.sleep(seconds)
            case Silence():
                await _until_disconnect(request)
            case _:
                pass
        segments = exchange.path.strip("/").split("/")
        if segments[:2] == ["api", "resolve-cache"]:
            return self._resolve_cache(exchange, segments[3:])
        if segments == ["api", "models"]:
            listing = [{"_id": repo.object_id, "id": repo.id} for repo in self.repos.values()]
            return json_answer(listing[: int(parse_qs(exchange.query).get("limit", ["1000"])[0])], exchange)
        if segments[:2] == ["api", "models"]:
            return self._model_info(exchange, segments[2:])
        for place, segment in enumerate(segments):
            if segment == "resolve" and 0 < place < 3:
                return self._resolve(exchange, segments[:place], segments[place + 1 :], fault)
        return Response("Sorry, we can't find the page you are looking for.", 404, media_type="text/html")

    def _hub_preflight(self, exchange: Exchange) -> Response:
        headers = {
            "Access-Control-Allow-Origin": exchange.origin or f"https://{HUB_HOST}",
            "Access-Control-Allow-Methods": "GET",
            "Access-Control-Allow-Headers": exchange.asked_headers or "",
            "Access-Control-Max-Age": "86400",
            "Vary": "Origin",
        }
        return Response(status_code=200, headers=headers)

    def _present_id(self, asked: str) -> str | None:
        """The id this one has now, when it was renamed, is a legacy id, or is written in another case."""
        if asked in self.repos:
            return asked
        if asked in self.renamed:
            return self.renamed[asked]
        return next((repo_id for repo_id in self.repos if repo_id.lower() == asked.lower()), None)

    def _refused(self, exchange: Exchange, repo: Repo | None, *, contents: bool) -> Response | None:
        """The error for this caller; None when the repository (its files, with `contents`) is open to it."""
        token = (exchange.authorization or "").removeprefix("Bearer ")
        account = self.accounts.get(token)
        hidden = repo is None or (repo.private and (account is None or repo.id not in account.private))
        if hidden and account is not None:
            return error_answer(exchange, 404, "Repository not found", code="RepoNotFound")
        if hidden:
            return error_answer(exchange, 401, INVALID_CREDENTIALS if token else NOT_FOUND_OR_PRIVATE)
        if repo is None or not contents:
            return None
        if repo.disabled:
            return error_answer(exchange, 403, "Access to this resource is disabled.")
        if not repo.gated:
            return None
        if token and account is None:
            return error_answer(exchange, 401, INVALID_CREDENTIALS)
        if account is None:
            restricted = (
                f"Access to model {repo.id} is restricted. You must have access to it and be authenticated"
                " to access it. Please log in."
            )
            return error_answer(exchange, 401, restricted, code="GatedRepo")
        if not account.may_read:
            return error_answer(exchange, 403, "Forbidden: the token lacks the right to read this repository")
        if repo.id not in account.approved:
            unapproved = (
                f"Access to model {repo.id} is restricted and you are not in the authorized list."
                f" Visit https://huggingface.co/{repo.id} to ask for access."
            )
            return error_answer(exchange, 403, unapproved, code="GatedRepo")
        return None

    def _model_info(self, exchange: Exchange, segments: list[str]) -> Response:
        place = segments.index("revision") if "revision" in segments else len(segments)
        asked = "/".join(unquote(segment) for segment in segments[:place])
        present = self._present_id(asked)
        if present is not None and present != asked:
            rest = "".join(f"/{segment}" for segment in segments[place:])
            query = f"?{exchange.query}" if exchange.query else ""
            return redirect(exchange, 307, f"/api/models/{present}{rest}{query}", word="Temporary Redirect")
        repo = self.repos.get(asked)
        refused = self._refused(exchange, repo, contents=False)
        if refused is not None or repo is None:
            return refused or Response(status_code=500)
        revision = unquote(segments[place + 1]) if place + 1 < len(segments) else "main"
        sha = repo.commit(revision)
        if sha is None:
            return error_answer(exchange, 404, f"Invalid rev id: {revision}", code="RevisionNotFound")
        with_sizes = parse_qs(exchange.query).get("blobs") == ["true"]
        return json_answer(model_json(repo, sha, blobs=with_sizes), exchange)

    def _resolve(
        self, exchange: Exchange, owner: list[str], rest: list[str], fault: Fault | None
    ) -> Response:
        asked = "/".join(unquote(segment) for segment in owner)
        repo = self.repos.get(self._present_id(asked) or asked)
        refused = self._refused(exchange, repo, contents=True)
        if refused is not None or repo is None:
            return refused or Response(status_code=500)
        revision, name = unquote(rest[0]), "/".join(unquote(segment) for segment in rest[1:])
        sha = repo.commit(revision)
        if sha is None:
            return error_answer(exchange, 404, f"Invalid rev id: {revision}", code="RevisionNotFound")
        file = repo.files.get(name)
        headers = {
            "X-Repo-Commit": sha,
            "Accept-Ranges": "bytes",
            "Content-Security-Policy": "default-src 'none'; sandbox",
            "Vary": "Origin, Accept",
        }
        if file is None:
            return error_answer(exchange, 404, "Entry not found", code="EntryNotFound", extra=headers)
        if not file.large and (repo.private or exchange.authorization):
            return git_answer(exchange, file, headers)
        if not file.large:
            encoded = quote(f"/{repo.id}/resolve/{revision}/{name}", safe="") + "="
            query = f"{encoded}&etag=%22{file.sha256[:40]}%22"
            location = f"/api/resolve-cache/models/{repo.id}/{sha}/{quote(name)}?{query}"
            return redirect(exchange, 307, location, word="Temporary Redirect", extra=headers)
        resource = f"/xet-bridge-us/{repo.object_id}/{file.sha256}"
        self._cdn_files[resource] = (f"{repo.id}/{name}", file)
        host = fault.host if isinstance(fault, CdnHost) else CDN_HOST
        linked = {
            **headers,
            "X-Linked-Size": str(file.size),
            "X-Linked-ETag": f'"{file.sha256}"',
            "X-Xet-Hash": file.sha256,
            "Cache-Control": "no-store",
        }
        location = f"https://{host}{resource}?{signing.signed_query(resource, exchange.range)}"
        return redirect(exchange, 302, location, word="Found", extra=linked)

    def _resolve_cache(self, exchange: Exchange, segments: list[str]) -> Response:
        for width in (2, 1):
            repo = self.repos.get("/".join(unquote(segment) for segment in segments[:width]))
            if repo is not None:
                file = repo.files.get("/".join(unquote(segment) for segment in segments[width + 1 :]))
                if file is not None:
                    headers = {"X-Repo-Commit": segments[width], "Accept-Ranges": "bytes"}
                    return git_answer(exchange, file, headers)
        return error_answer(exchange, 404, "Entry not found", code="EntryNotFound")

    # --- the CDN

    async def _cdn(self, request: Request, exchange: Exchange) -> Response:
        name, file = self._cdn_files.get(exchange.path, ("", None))
        if request.method == "OPTIONS":
            match self._fault("cdn", name, preflight=True):
                case Preflight(code=code):
                    return Response(status_code=code)
                case _:
                    return Response(None, 200, {**CDN_HEADERS, "Access-Control-Allow-Methods": "GET"})
        fault = self._fault("cdn", name, preflight=False)
        refusal = signing.refusal(exchange.path, exchange.query, exchange.range)
        if file is None or refusal is not None:
            return Response(refusal or "Not found", 403, CDN_HEADERS, "text/plain")
        cors = dict(CDN_HEADERS)
        match fault:
            case Status():
                allowed = CDN_HEADERS if fault.cors else {}
                return Response(fault.body, fault.code, {**allowed, **fault.headers}, "text/plain")
            case Delay(seconds=seconds):
                await asyncio.sleep(seconds)
            case Silence():
                await _until_disconnect(request)
            case HiddenHeaders():
                del cors["Access-Control-Expose-Headers"]
            case _:
                pass
        headers = {**cors, **CDN_FILE_HEADERS, "ETag": f'"{file.sha256}"'}
        headers["Content-Type"] = "application/octet-stream"
        asked = SINGLE_RANGE.fullmatch(exchange.range or "")
        if asked is None or isinstance(fault, IgnoredRange):
            headers["Content-Length"] = str(file.size)
            return StreamingResponse(file.chunks(0, file.size), 200, headers)
        start, end = int(asked[1]), min(int(asked[2]), file.size - 1)
        if start >= file.size:
            return Response(status_code=416, headers=cors)
        body = file.read(start, end + 1)
        content_range = fault.text if isinstance(fault, ContentRange) else "bytes {start}-{end}/{total}"
        headers["Content-Range"] = content_range.format(start=start, end=end, total=file.size)
        if isinstance(fault, Truncated):
            return BrokenOffResponse(body[: fault.keep_bytes], 206, headers, whole_bytes=len(body))
        return Response(body, 206, headers)


async def _until_disconnect(request: Request) -> None:
    while not await request.is_disconnected():
        await asyncio.sleep(0.02)
