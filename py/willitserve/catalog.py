"""The catalog: cards, what formats they run, engines and models, with a source for every figure.

Text in, objects out: no file is opened here. `catalog_files.py` reads the packaged files for the doors,
`build.py` turns the YAML files into the one JSON text that travels to the browser.
"""

import json
from collections.abc import Mapping
from functools import cached_property
from typing import Literal, Self

from pydantic import Field, ValidationError

from willitserve.engine import AllReduce, EngineSpec
from willitserve.errors import CatalogError
from willitserve.formats import FormatTable
from willitserve.gpu import GpuSpec
from willitserve.gpu_names import GpuNames
from willitserve.model_entry import ModelEntry
from willitserve.record import Record
from willitserve.source import Source


class Catalog(Record):
    """All facts that the planner brings along. A change of shape makes it version 2."""

    schema_version: Literal[1] = 1
    sources: dict[str, Source]
    """By the code that GPU entries name."""
    gpus: tuple[GpuSpec, ...]
    """By id."""
    formats: FormatTable
    engines: tuple[EngineSpec, ...] = ()
    all_reduce: dict[str, AllReduce] = Field(default_factory=dict)
    """Measured all-reduce times by card group."""
    engine_sources: dict[str, str] = Field(default_factory=dict)
    models: tuple[ModelEntry, ...] = ()
    """By id, without regard to case."""

    @classmethod
    def from_yaml_texts(cls, files: Mapping[str, str]) -> Self:
        """The catalog in the files of the `catalog/` folder, given as path -> text.

        Paths are `sources.yaml`, `formats.yaml`, `gpus/*.yaml`, `engines/*.yaml` and `models/*.yaml`.

        Raises
            CatalogError: a rule is broken: repeated or unknown key, missing or idle source, entries out of
            order, a name that two
                entries claim. The message names file, line and entry.
        """
        # PyYAML is not part of what the browser loads.
        from willitserve.catalog_yaml import read_catalog_files

        return cls.model_validate(read_catalog_files(files))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The catalog that `to_json` wrote.

        Raises
            CatalogError: the text is no catalog of this schema version.
        """
        try:
            return cls.model_validate_json(text)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            place = ".".join(str(step) for step in first["loc"])
            raise CatalogError(f"catalog JSON, {place}: {first['msg']}") from error

    def to_json(self) -> str:
        """The same catalog as the same text, byte for byte, whatever wrote the files; fields at their default
        are left out."""
        values = self.model_dump(mode="json", exclude_defaults=True)
        return json.dumps(
            {"schema_version": self.schema_version, **values}, ensure_ascii=False, separators=(",", ":")
        )

    @cached_property
    def _gpu_names(self) -> GpuNames:
        return GpuNames(self.gpus)

    @cached_property
    def _models_by_id(self) -> dict[str, ModelEntry]:
        return {model_id.casefold(): model for model in self.models for model_id in model.ids()}

    def find_gpu(self, name: str) -> GpuSpec:
        """The part that an id, a product name, a driver's or a Kubernetes label's spelling means.

        Raises
            AmbiguousGpuError: several parts that answer differently carry the name; `choices` are their ids.
            UnknownGpuError: none does.
        """
        return self._gpu_names.find(name)

    def namesakes(self, gpu: GpuSpec) -> tuple[GpuSpec, ...]:
        """Other parts that share an everyday name with `gpu`."""
        return self._gpu_names.namesakes(gpu)

    def find_model(self, model_id: str) -> ModelEntry | None:
        """The entry of a repository id, an alias or a former name of it, without regard to case; None: not in
        the catalog."""
        return self._models_by_id.get(model_id.strip().casefold())
