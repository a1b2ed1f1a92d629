"""Signed URLs of the CDN, bound to the one Range header that was sent to `resolve`."""

import base64
import hashlib
import hmac
import json
import time
from urllib.parse import parse_qs, urlencode

LIFETIME_S = 3600
SECRET = b"the stand-in's own key pair"


def _signature(policy: str) -> str:
    return hmac.new(SECRET, policy.encode(), hashlib.sha256).hexdigest()


def signed_query(resource: str, range_header: str | None) -> str:
    """The query of a signed URL: for any range when `resolve` was asked without one, else for that one."""
    expires = int(time.time()) + LIFETIME_S
    condition: dict[str, object] = {"DateLessThan": {"AWS:EpochTime": expires}}
    if range_header is not None:
        condition["ByteRange"] = {"ExpectedHeader": range_header}
    statement = {"Statement": [{"Resource": resource, "Condition": condition}]}
    policy = base64.urlsafe_b64encode(json.dumps(statement).encode()).decode()
    fields = {
        "Expires": expires,
        "Policy": policy,
        "Signature": _signature(policy),
        "Key-Pair-Id": "K1STANDIN",
    }
    return urlencode(fields)


def refusal(resource: str, query: str, range_header: str | None) -> str | None:
    """Why the CDN refuses this request, or None when the signature holds."""
    fields = parse_qs(query)
    try:
        policy, signature = fields["Policy"][0], fields["Signature"][0]
        statement = json.loads(base64.urlsafe_b64decode(policy))["Statement"][0]
    except (KeyError, ValueError, IndexError):
        return "Auth failed: missing policy"
    if not hmac.compare_digest(signature, _signature(policy)) or statement["Resource"] != resource:
        return "Auth failed: invalid signature"
    condition = statement["Condition"]
    if time.time() >= condition["DateLessThan"]["AWS:EpochTime"]:
        return "Auth failed: expired"
    if "ByteRange" in condition and condition["ByteRange"]["ExpectedHeader"] != range_header:
        return "Auth failed: invalid range"
    return None
