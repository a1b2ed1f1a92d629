"""The only door for the worker: JSON text and header bytes in, JSON text out. Nothing is raised through it.

Methods: catalog, choose_files, open_checkpoint, add_header, plan, drop (parameters in the models below). A
reply is `{"value": …}` or `{"error": {"code", "message", "hint"}}`; an unexpected failure has the code
`internal` and its traceback as the hint.
"""

import json
import traceback
from collections.abc import Callable
from typing import Literal, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from willitserve import __version__
from willitserve.catalog import Catalog
from willitserve.catalog_files import load_packaged_catalog
from willitserve.errors import InputError, WillItServeError
from willitserve.plan import Model, bandwidth_text, find_engine, memory_text, plan
from willitserve.reading import (
    HubTotals,
    OpenCheckpoint,
    from_catalog,
    from_totals,
    headers_text,
    no_model,
)
from willitserve.repository import choose_files
from willitserve.request import DEFAULTS, read_query, shown

PAGE_CONTEXT = 8192
"""Context that the page plans when none is asked for, unless the model's own is shorter."""


class _Params(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class File(_Params):
    """One file of a listing."""

    name: str
    size: int | None = None


class ChooseFiles(_Params):
    files: list[File]
    index: str | None = None
    """Text of the index of the weight files, when an earlier choice asked for it among its `configs`."""


class Open(_Params):
    key: str
    model_id: str
    revision: str | None = None
    source: Literal["hub", "folder"] = "hub"
    gated: bool = False
    config: str | None
    hf_quant_config: str | None = None
    files: list[File] = Field(default_factory=list)
    read: list[str]


class AddHeader(_Params):
    key: str
    file: str
    file_size: int | None = None


class Hub(_Params):
    id: str
    sha: str | None = None
    gated: bool = False
    file_bytes: int | None = None
    parameters: dict[str, int] = Field(default_factory=dict)


class Plan(_Params):
    query: dict[str, str]
    checkpoint: str | None = None
    hub: Hub | None = None


class Drop(_Params):
    key: str


class _Door:
    """What the worker keeps between calls: the catalog, open checkpoints, and the last catalog model asked
    for."""

    def __init__(self) -> None:
        self._catalog: Catalog | None = None
        self._open: dict[str, OpenCheckpoint] = {}
        self._finished: dict[str, Model] = {}
        self._from_catalog: dict[str, Model] = {}

    @property
    def catalog(self) -> Catalog:
        if self._catalog is None:
            self._catalog = load_packaged_catalog()
        return self._catalog

    def versions(self) -> dict[str, str]:
        return {"core": __version__, "catalog": f"v{self.catalog.schema_version}"}

    def describe_catalog(self) -> object:
        catalog = self.catalog
        return {
            "gpus": [
                {
                    "id": gpu.id,
                    "name": gpu.name,
                    "vendor": gpu.vendor,
                    "memory_text": memory_text(gpu),
                    "bandwidth_text": bandwidth_text(gpu),
                }
                for gpu in catalog.gpus
            ],
            "models": [
                {"id": model_id, "revision": entry.revision, "gated": entry.gated_as(model_id)}
                for entry in catalog.models
                for model_id in entry.ids()
            ],
            "engines": [{"id": engine.id, "name": engine.name} for engine in catalog.engines],
            "defaults": {key: value for key, value in DEFAULTS.items() if value}
            | {"engine": find_engine(catalog, "vllm").id},
            "versions": self.versions(),
        }

    def choose(self, params: ChooseFiles) -> object:
        choice = choose_files([(file.name, file.size) for file in params.files], params.index)
        return {
            "kind": choice.kind,
            "read": list(choice.read),
            "configs": list(choice.configs),
            "sentence": choice.sentence,
            "ignored": [{"name": name, "reason": reason} for name, reason in choice.ignored],
        }

    def open(self, params: Open) -> object:
        at = f" at {params.revision[:7]}" if params.revision else ""
        where = "the Hub" if params.source == "hub" else "a local folder"
        count = headers_text(len(params.read))
        opened = OpenCheckpoint(
            model_id=params.model_id,
            revision=params.revision,
            source=params.source,
            source_sentence=f"{count} read from {where}{at}.",
            gated=params.gated,
            expected=frozenset(params.read),
        )
        opened.set_config(params.config)
        if params.hf_quant_config is not None:
            opened.set_hf_quant_config(params.hf_quant_config)
        self._open[params.key] = opened
        self._finished.pop(params.key, None)
        return {}

    def add_header(self, params: AddHeader, payload: bytes | None) -> object:
        opened = self._open.get(params.key)
        if opened is None:
            raise InputError(f"no checkpoint is open as {shown(params.key)}", field="checkpoint")
        if payload is None:
            raise InputError("add_header needs the first bytes of the file", field="checkpoint")
        tensors = opened.add(params.file, payload, file_size=params.file_size)
        self._finished.pop(params.key, None)
        return {"tensors": tensors, "done": len(opened.read), "of": len(opened.expected)}

    def plan(self, params: Plan) -> object:
        request = read_query(params.query)
        model = self._model(params, request.model)
        report = plan(self.catalog, model, request, page_context=PAGE_CONTEXT, versions=self.versions())
        return report.model_dump(mode="json")

    def _model(self, params: Plan, asked: str) -> Model:
        if params.checkpoint is not None:
            opened = self._open.get(params.checkpoint)
            if opened is None:
                raise InputError(f"no checkpoint is open as {shown(params.checkpoint)}", field="checkpoint")
            if params.checkpoint not in self._finished:
                self._finished[params.checkpoint] = opened.finish()
            return self._finished[params.checkpoint]
        model_id, _, revision = asked.partition("@")
        entry = self.catalog.find_model(model_id) if model_id else None
        if entry is not None and (not revision or entry.revision == revision):
            if model_id not in self._from_catalog:
                self._from_catalog.clear()
                self._from_catalog[model_id] = from_catalog(entry, model_id)
            return self._from_catalog[model_id]
        if params.hub is not None:
            hub = params.hub
            return from_totals(
                HubTotals(
                    model_id=hub.id,
                    revision=hub.sha,
                    gated=hub.gated,
                    file_bytes=hub.file_bytes,
                    parameters=hub.parameters,
                )
            )
        if not asked:
            return no_model("Name a model, for example Qwen/Qwen3-8B.")
        return no_model(
            f"“{shown(asked)}” is not in the catalog, and no headers of it were read.", model_id=asked
        )

    def drop(self, params: Drop) -> object:
        self._open.pop(params.key, None)
        self._finished.pop(params.key, None)
        return {}


_door = _Door()


def _call(method: str, params: object, payload: bytes | None) -> object:
    readers: dict[str, Callable[[], object]] = {
        "catalog": _door.describe_catalog,
        "choose_files": lambda: _door.choose(ChooseFiles.model_validate(params)),
        "open_checkpoint": lambda: _door.open(Open.model_validate(params)),
        "add_header": lambda: _door.add_header(AddHeader.model_validate(params), payload),
        "plan": lambda: _door.plan(Plan.model_validate(params)),
        "drop": lambda: _door.drop(Drop.model_validate(params)),
    }
    reader = readers.get(method)
    if reader is None:
        raise InputError(f"there is no method “{shown(method)}”", hint=f"Known: {', '.join(readers)}.")
    return reader()


def _failure(code: str, message: str, hint: str) -> str:
    return json.dumps({"error": {"code": code, "message": message, "hint": hint}}, ensure_ascii=False)


def handle(text: str, payload: bytes | None = None) -> str:
    """Answer one call. `text` is `{"method", "params"}`, `payload` the bytes of a header; see the module's
    head."""
    try:
        call: object = json.loads(text)
    except (ValueError, RecursionError) as error:
        return _failure("input", f"The call is not JSON: {error}.", "")
    if not isinstance(call, dict):
        return _failure("input", "A call is a JSON object with method and params.", "")
    fields = cast("dict[str, object]", call)
    try:
        value = _call(str(fields.get("method")), fields.get("params", {}), payload)
        return json.dumps({"value": value}, ensure_ascii=False, separators=(",", ":"))
    except WillItServeError as error:
        return _failure(error.code, error.said, error.hint)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(step) for step in first["loc"])
        return _failure("input", f"{place}: {first['msg']}", "")
    except Exception:  # the page must be told, whatever it was
        return _failure("internal", "The planner failed on this input.", traceback.format_exc(limit=-6))
