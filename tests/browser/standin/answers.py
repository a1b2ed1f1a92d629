"""The answers of the Hub and its CDN, header by header as recorded from the real ones."""

import gzip
import json
import re
from collections.abc import Mapping

from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from browser.standin.log import Exchange
from browser.standin.repo import Repo, StoredFile

HUB_HOST = "huggingface.co"
HUB_EXPOSED = (
    "X-Repo-Commit,X-Request-Id,X-Error-Code,X-Error-Message,X-Total-Count,ETag,Link,Accept-Ranges,Content-Range,"
    "X-Linked-Size,X-Linked-ETag,X-Xet-Hash"
)
CDN_HEADERS = {
    "Access-Control-Allow-Origin": "*",
    "Access-Control-Allow-Headers": "Content-Range, Content-Type, Content-Disposition, ETag",
    "Access-Control-Expose-Headers": (
        "Accept-Ranges, Content-Range, Content-Type, Content-Disposition, ETag, X-Cache"
    ),
}
CDN_FILE_HEADERS = {
    "Accept-Ranges": "bytes",
    "Cache-Control": "public, max-age=31536000",
    "Content-Security-Policy": "default-src 'none'; sandbox",
    "X-Cache": "Hit from cloudfront",
}
SINGLE_RANGE = re.compile(r"bytes=(\d+)-(\d+)")


class _ConnectionBrokenError(Exception):
    """Ends a response in the middle: uvicorn closes the connection."""


class BrokenOffResponse(Response):
    """All headers, a part of the body, then a closed connection."""

    def __init__(self, body: bytes, status: int, headers: Mapping[str, str], *, whole_bytes: int) -> None:
        super().__init__(body, status, dict(headers))
        self.headers["Content-Length"] = str(whole_bytes)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        await send({"type": "http.response.body", "body": bytes(self.body), "more_body": True})
        raise _ConnectionBrokenError


def hub_headers(exchange: Exchange) -> dict[str, str]:
    """The headers that every answer of the Hub has, whatever its status."""
    bucket = "resolvers" if "/resolve/" in exchange.path else "api"
    quota = 3000 if bucket == "resolvers" else 500
    return {
        "Access-Control-Allow-Origin": exchange.origin or f"https://{HUB_HOST}",
        "Access-Control-Expose-Headers": HUB_EXPOSED,
        "Access-Control-Max-Age": "86400",
        "Vary": "Origin",
        "RateLimit": f'"{bucket}";r={quota - 24};t=166',
        "RateLimit-Policy": f'"fixed window";"{bucket}";q={quota};w=300',
        "X-Powered-By": "huggingface-moon",
        "X-Request-Id": "Root=1-00000000-000000000000000000000000",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Referrer-Policy": "strict-origin-when-cross-origin",
        "X-Cache": "Miss from cloudfront",
    }


def json_answer(value: object, exchange: Exchange) -> Response:
    return Response(json.dumps(value), 200, hub_headers(exchange), "application/json; charset=utf-8")


def error_answer(
    exchange: Exchange,
    status: int,
    message: str,
    *,
    code: str | None = None,
    extra: Mapping[str, str] | None = None,
) -> Response:
    headers = {**hub_headers(exchange), "X-Error-Message": message, **(extra or {})}
    if code is not None:
        headers["X-Error-Code"] = code
    if status == 401:
        headers["WWW-Authenticate"] = 'Bearer realm="Authentication required", charset="UTF-8"'
    if exchange.path.startswith("/api/"):
        return Response(json.dumps({"error": message}), status, headers, "application/json; charset=utf-8")
    return Response(message, status, headers, "text/plain; charset=utf-8")


def redirect(
    exchange: Exchange, status: int, location: str, *, word: str, extra: Mapping[str, str] | None = None
) -> Response:
    headers = {**hub_headers(exchange), **(extra or {}), "Location": location}
    return Response(f"{word}. Redirecting to {location}", status, headers, "text/plain; charset=utf-8")


def git_answer(exchange: Exchange, file: StoredFile, extra: Mapping[str, str]) -> Response:
    headers = {
        **hub_headers(exchange),
        **extra,
        "ETag": f'"{file.sha256[:40]}"',
        "Content-Type": "text/plain; charset=utf-8",
    }
    asked = SINGLE_RANGE.fullmatch(exchange.range or "")
    if asked is not None:
        start, end = int(asked[1]), min(int(asked[2]), file.size - 1)
        if start >= file.size:
            return Response(status_code=416, headers=headers)
        headers["Content-Range"] = f"bytes {start}-{end}/{file.size}"
        return Response(file.read(start, end + 1), 206, headers)
    if "gzip" in (exchange.accept_encoding or ""):
        headers |= {
            "Content-Encoding": "gzip",
            "ETag": f"W/{headers['ETag']}",
            "Vary": "Origin, Accept-Encoding",
        }
        # streamed, so that it has no Content-Length, like the real answer
        return StreamingResponse(iter([gzip.compress(file.read(0, file.size))]), 200, headers)
    return Response(file.read(0, file.size), 200, headers)


def model_json(repo: Repo, sha: str, *, blobs: bool) -> dict[str, object]:
    siblings: list[dict[str, object]] = []
    for name, file in repo.files.items():
        sibling: dict[str, object] = {"rfilename": name}
        if blobs:
            sibling |= {"size": file.size, "blobId": file.sha256[:40]}
            if file.large:
                sibling["lfs"] = {"sha256": file.sha256, "size": file.size, "pointerSize": 135}
        siblings.append(sibling)
    value: dict[str, object] = {
        "_id": repo.object_id,
        "id": repo.id,
        "modelId": repo.id,
        "author": repo.id.split("/")[0],
        "sha": sha,
        "private": repo.private,
        "disabled": repo.disabled,
        "gated": repo.gated,
        "lastModified": "2026-01-01T00:00:00.000Z",
        "pipeline_tag": "text-generation",
        "library_name": "transformers",
        "tags": ["transformers", "safetensors"],
        "downloads": 1000,
        "likes": 10,
        "siblings": siblings,
        "usedStorage": sum(file.size for file in repo.files.values()),
    }
    parameters = repo.parameters()
    if parameters:
        value["safetensors"] = {"parameters": parameters, "total": sum(parameters.values())}
    return value
