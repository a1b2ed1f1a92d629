"""Asks the core what the page may ask, in CPython; pack.mjs asks the same in Pyodide and compares.

python exercise.py FOLDER QUERIES
    FOLDER   the core as the page gets it
    QUERIES  tests/golden/requests.json
"""

import base64
import json
import struct
import sys
from pathlib import Path
from typing import Any

HEADER = json.dumps({"model.norm.weight": {"dtype": "BF16", "shape": [16], "data_offsets": [0, 32]}}).encode()
PREFIX = struct.pack("<Q", len(HEADER)) + HEADER
FILE = {"name": "model.safetensors", "size": len(PREFIX) + 32}
CONFIG = json.dumps({"architectures": ["LlamaForCausalLM"], "model_type": "llama"})

# Good requests and refused ones: a refusal may load modules that an answer does not.
REQUESTS: list[tuple[str, bytes | None]] = [
    ("not json", None),
    ('{"method": "no such method", "params": {}}', None),
    ('{"method": "catalog"}', None),
]
CALLS: list[tuple[str, dict[str, Any], bytes | None]] = [
    ("catalog", {}, None),
    ("choose_files", {"files": [FILE, {"name": "config.json", "size": len(CONFIG)}]}, None),
    ("choose_files", {"files": [{"name": "model-q4.gguf", "size": 1}]}, None),
    (
        "open_checkpoint",
        {
            "key": "k",
            "model_id": "org/model",
            "revision": "0" * 40,
            "config": CONFIG,
            "hf_quant_config": None,
            "files": [FILE],
            "read": [FILE["name"]],
        },
        None,
    ),
    ("add_header", {"key": "k", "file": FILE["name"], "file_size": FILE["size"]}, PREFIX[:9]),
    ("add_header", {"key": "k", "file": FILE["name"], "file_size": FILE["size"]}, PREFIX),
    ("plan", {"query": {"gpu": "h100-sxm5-80gb"}, "checkpoint": "k", "hub": None}, None),
    ("plan", {"query": {"gpu": "no such card", "users": "x"}, "checkpoint": None, "hub": None}, None),
    ("drop", {"key": "k"}, None),
    ("plan", {"query": {}, "checkpoint": "k", "hub": None}, None),
    (
        "plan",
        {
            "query": {"model": "org/other", "gpu": "l4-24gb"},
            "checkpoint": None,
            "hub": {"id": "org/other", "file_bytes": 16 * 10**9, "parameters": {"BF16": 8 * 10**9}},
        },
        None,
    ),
]



def main(folder: str, queries: str) -> None:
    """Print a JSON list of {text, payload, reply}; the payload is base64 or null."""
    sys.path.insert(0, folder)
    from willitserve import api

    golden: dict[str, dict[str, str]] = json.loads(Path(queries).read_text("utf-8"))
    calls = CALLS + [("plan", {"query": query}, None) for query in golden.values()]
    requests = REQUESTS + [
        (json.dumps({"method": method, "params": params}), payload) for method, params, payload in calls
    ]
    exchanges: list[dict[str, str | None]] = []
    for text, payload in requests:
        reply = api.handle(text, payload)
        if json.loads(reply).get("error", {}).get("code") == "internal":
            raise SystemExit(f"the core broke on {text}:\n{reply}")
        packed = None if payload is None else base64.b64encode(payload).decode()
        exchanges.append({"text": text, "payload": packed, "reply": reply})
    json.dump(exchanges, sys.stdout)


main(*sys.argv[1:])
