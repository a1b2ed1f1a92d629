"""The files of `catalog/`, checked against every rule, as values for `Catalog`. Each complaint names file,
line and entry."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol, TypeVar, cast

from pydantic import ValidationError

from willitserve.engine import EngineFile
from willitserve.errors import CatalogError
from willitserve.formats import FormatTable
from willitserve.gpu import GpuSpec
from willitserve.gpu_names import fold
from willitserve.model_entry import ModelEntry
from willitserve.record import Record
from willitserve.source import Source
from willitserve.strict_yaml import YamlDocument, read_yaml


class SourcesFile(Record):
    """`catalog/sources.yaml`."""

    sources: dict[str, Source]


class GpuFile(Record):
    """One file of `catalog/gpus/`."""

    gpus: tuple[GpuSpec, ...]


class ModelFile(Record):
    """One file of `catalog/models/`."""

    models: tuple[ModelEntry, ...]


class _HasId(Protocol):
    @property
    def id(self) -> str: ...


_FileShape = TypeVar("_FileShape", bound=Record)
_Placed = dict[str, str]
"""Entry id -> `file:line`."""


def read_catalog_files(files: Mapping[str, str]) -> dict[str, object]:
    """The fields of `Catalog`, from path -> text; the order of the mapping does not matter.

    Raises
        CatalogError: see `Catalog.from_yaml_texts`.
    """
    documents = {path: read_yaml(path, files[path]) for path in sorted(files)}
    sources = _checked(_only(documents, "sources.yaml"), SourcesFile).sources
    formats = _checked(_only(documents, "formats.yaml"), FormatTable)
    gpus: list[GpuSpec] = []
    models: list[ModelEntry] = []
    engines: list[Record] = []
    all_reduce: dict[str, Record] = {}
    engine_sources: dict[str, str] = {}
    gpu_places: _Placed = {}
    model_places: _Placed = {}
    source_places = _places_of_keys(documents["sources.yaml"], "sources")
    for path, document in documents.items():
        match path.partition("/")[0]:
            case "gpus":
                entries = _checked(document, GpuFile).gpus
                _note_places(document, "gpus", entries, gpu_places)
                gpus += entries
            case "models":
                model_entries = _checked(document, ModelFile).models
                _note_places(document, "models", model_entries, model_places)
                models += model_entries
            case "engines":
                engine_file = _checked(document, EngineFile)
                engines += engine_file.engines
                all_reduce |= engine_file.all_reduce
                engine_sources |= engine_file.sources
            case "sources.yaml" | "formats.yaml":
                pass
            case _:
                raise CatalogError(f"{path}: no place in the catalog; see catalog/README.md")
    _check_gpu_sources(gpus, gpu_places, sources, source_places)
    _check_gpu_names(gpus, gpu_places)
    _check_model_ids(models, model_places)
    return {
        "sources": sources,
        "gpus": sorted(gpus, key=lambda gpu: gpu.id),
        "formats": formats,
        "engines": engines,
        "all_reduce": all_reduce,
        "engine_sources": engine_sources,
        "models": sorted(models, key=lambda model: model.id.casefold()),
    }


def _only(documents: Mapping[str, YamlDocument], path: str) -> YamlDocument:
    if path not in documents:
        raise CatalogError(f"{path}: the catalog lacks this file")
    return documents[path]


def _checked(document: YamlDocument, shape: type[_FileShape]) -> _FileShape:
    try:
        return shape.model_validate(document.values)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = first["loc"]
        raise CatalogError(
            f"{document.path}:{document.line_of(place)}: {_name_place(document, place)}{first['msg']}"
        ) from error


def _name_place(document: YamlDocument, place: tuple[int | str, ...]) -> str:
    """`entry id: field: `, as far as `place` leads into an entry and a field."""
    words: list[str] = []
    match place:
        case (str(list_name), int(position), *rest):
            entries = document.values.get(list_name)
            entry = cast("object", entries[position]) if isinstance(entries, list) else None
            if isinstance(entry, dict):
                words.append(str(cast("dict[str, object]", entry).get("id", "an entry without id")))
            field = ".".join(str(step) for step in rest)
        case _:
            field = ".".join(str(step) for step in place)
    return "".join(f"{word}: " for word in [*words, field] if word)


def _places_of_keys(document: YamlDocument, mapping: str) -> _Placed:
    values = cast("dict[str, object]", document.values[mapping])
    return {key: f"{document.path}:{document.line_of((mapping, key))}" for key in values}


def _note_places(document: YamlDocument, list_name: str, entries: Iterable[_HasId], places: _Placed) -> None:
    """Adds where each entry stands, and refuses a file whose ids do not ascend."""
    before = ""
    for position, entry in enumerate(entries):
        place = f"{document.path}:{document.line_of((list_name, position))}"
        if entry.id in places:
            raise CatalogError(f"{place}: {entry.id} stands twice, also at {places[entry.id]}")
        if entry.id.casefold() < before.casefold():
            raise CatalogError(f"{place}: {entry.id} belongs before {before}")
        places[entry.id] = place
        before = entry.id


def _check_gpu_sources(
    gpus: Iterable[GpuSpec], places: _Placed, sources: Mapping[str, Source], source_places: _Placed
) -> None:
    used: set[str] = set()
    for gpu in gpus:
        for code in gpu.source_codes():
            if code not in sources:
                raise CatalogError(f"{places[gpu.id]}: {gpu.id}: source {code!r} is not in sources.yaml")
            used.add(code)
    for code in sources:
        if code not in used:
            raise CatalogError(f"{source_places[code]}: no entry uses the source {code!r}")


def _check_gpu_names(gpus: Iterable[GpuSpec], places: _Placed) -> None:
    owners: dict[str, str] = {}
    carriers: dict[str, list[str]] = {}
    for gpu in gpus:
        for name in _folded(gpu.id, gpu.name, *gpu.aliases):
            owner = owners.setdefault(name, gpu.id)
            if owner != gpu.id:
                raise CatalogError(
                    f"{places[gpu.id]}: {gpu.id}: {owner} at {places[owner]} has the name {name!r} too",
                    hint="Make it a shared name of both.",
                )
        for name in _folded(*gpu.shared_names):
            carriers.setdefault(name, []).append(gpu.id)
    for name, ids in carriers.items():
        place = f"{places[ids[0]]}: {ids[0]}"
        if name in owners:
            raise CatalogError(f"{place}: the shared name {name!r} is {owners[name]}'s own")
        if len(ids) == 1:
            raise CatalogError(f"{place}: nobody shares the name {name!r}", hint="Make it an alias.")


def _folded(*names: str) -> Iterator[str]:
    yield from dict.fromkeys(fold(name) for name in names)


def _check_model_ids(models: Iterable[ModelEntry], places: _Placed) -> None:
    owners: dict[str, str] = {}
    for model in models:
        for model_id in model.ids():
            owner = owners.get(model_id.casefold())
            if owner is not None:
                raise CatalogError(
                    f"{places[model.id]}: {model.id}: {owner} at {places[owner]} answers for {model_id} too"
                )
            owners[model_id.casefold()] = model.id
