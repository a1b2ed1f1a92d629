"""The terminal door: the same core as the page, without network, for scripts, tests and CI.

Exit 0 when a report was made ("does not fit" is a report), 2 on bad input with one line on stderr that says
what to do.
"""

import argparse
import json
import re
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import NoReturn

from pydantic import BaseModel

from willitserve import __version__
from willitserve.catalog import Catalog
from willitserve.catalog_files import load_packaged_catalog
from willitserve.errors import AmbiguousGpuError, InputError, WillItServeError
from willitserve.folder import open_folder
from willitserve.gpu import GpuSpec
from willitserve.plan import Model, bandwidth_text, memory_text, plan
from willitserve.reading import from_catalog, inspect
from willitserve.report import Figure, InspectReport, PlanReport, Problem
from willitserve.request import WEIGHTS, read_query
from willitserve.rough import parse_parameters, rough_plan

PLAN_OPTIONS: dict[str, str] = {
    "users": "users",
    "context": "context",
    "tp": "tp",
    "pp": "pp",
    "engine": "engine",
    "gpu_memory_utilization": "util",
    "gpu_memory_gib": "mem",
    "max_num_seqs": "seqs",
    "max_num_batched_tokens": "batched",
    "kv_cache_dtype": "kv",
    "quantization": "weights",
    "dtype": "dtype",
    "input_tokens": "input",
    "output_tokens": "output",
}
"""Option of the terminal -> key of a request."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        print(f"{self.prog}: {message}; see {self.prog} --help", file=sys.stderr)
        raise SystemExit(2)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="willitserve", description="Will this model serve on this GPU?")
    parser.add_argument("--version", action="version", version=f"willitserve {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, parser_class=_Parser)

    asked = commands.add_parser("inspect", help="what the precise calculator knows of a checkpoint")
    asked.add_argument("checkpoint", help="folder with config.json and *.safetensors, or a catalog model id")
    asked.add_argument("--json", action="store_true", help="print the report as JSON")

    asked = commands.add_parser("plan", help="will it serve on this GPU, for these users, at this context?")
    asked.add_argument("checkpoint", help="folder with config.json and *.safetensors, or a catalog model id")
    asked.add_argument("--gpu", required=True, metavar="ID", help="catalog id or name of the card")
    for option in PLAN_OPTIONS:
        asked.add_argument(f"--{option.replace('_', '-')}", metavar="VALUE")
    asked.add_argument("--enforce-eager", action="store_true", help="no CUDA graphs")
    asked.add_argument("--json", action="store_true", help="print the report as JSON")

    asked = commands.add_parser("rough", help="the planning calculator: 70B on which cards?")
    asked.add_argument("parameters", help="70B, 0.6B, 405B")
    asked.add_argument("--gpu", required=True, metavar="ID", help="catalog id or name of the card")
    asked.add_argument(
        "--weights", default="bf16", choices=[name for name in WEIGHTS if name != "checkpoint"]
    )
    asked.add_argument("--json", action="store_true", help="print the report as JSON")

    asked = commands.add_parser("catalog", help="what the catalog holds")
    asked.add_argument("what", choices=["gpus", "engines", "models"])
    asked.add_argument("--json", action="store_true", help="print the entries as JSON")
    return parser


def _model(checkpoint: str) -> Model:
    folder = Path(checkpoint)
    if folder.is_dir():
        return open_folder(folder).finish()
    entry = _packaged().find_model(checkpoint)
    if entry is None:
        raise InputError(
            f"“{checkpoint}” is neither a folder nor a model of the catalog",
            hint="`willitserve catalog models` lists them.",
        )
    return from_catalog(entry, checkpoint)


def _figure_line(figure: Figure) -> str:
    if figure.value is None:
        return f"  {figure.label}: not known ({figure.because})"
    band = ""
    if figure.low is not None and figure.high is not None:
        band = f" [{figure.low:,.{figure.digits}f} to {figure.high:,.{figure.digits}f}]"
    return (
        f"  {figure.label}: {figure.value:,.{figure.digits}f} {figure.unit}{band} ({figure.basis})"
        f" {figure.arithmetic}"
    )


def _print_plan(report: PlanReport) -> None:
    print(report.verdict.sentence)
    print(report.model.source_sentence)
    for title, prefix in (("Memory", "memory."), ("Bandwidth", "bandwidth.")):
        print(title)
        for key, figure in report.figures.items():
            if key.startswith(prefix) and not key.startswith("memory.bar."):
                print(_figure_line(figure))
    if report.precision is not None:
        print(
            f"Precision\n  stored {report.precision.checkpoint_format}, computed in"
            f" {report.precision.compute_format}"
        )
        print(f"  {report.precision.recommended_because}")
    if report.scaling is not None:
        valid = ", ".join(str(tp) for tp in report.scaling.valid_tp)
        print(f"Scaling\n  TP {report.scaling.tp}, PP {report.scaling.pp}; TP that start: {valid}")
        for rejected in report.scaling.rejected_tp:
            print(f"  TP {rejected.tp} does not: {rejected.reason}")
    for way in report.ways_out:
        print(f"Way out. {way.sentence}")
    for note in (*report.warnings, *report.problems):
        print(f"Note. {note.sentence}")


def _print_inspect(report: InspectReport) -> None:
    for name, value in report.model_dump(mode="json", exclude={"checkpoint"}).items():
        print(f"{name}: {value:,}" if isinstance(value, int) else f"{name}: {value}")
    for part in report.checkpoint.parts:
        params = "parameters not known" if part.num_params is None else f"{part.num_params:,} parameters"
        loaded = "" if part.served else ", not loaded"
        print(f"part: {part.label}, {part.format_label}: {part.bytes:,} B, {params}{loaded}")
    print(f"layers: {report.checkpoint.layer_pattern}")


def _show(report: BaseModel, *, as_json: bool) -> None:
    if as_json:
        print(report.model_dump_json(indent=1))
    elif isinstance(report, PlanReport):
        _print_plan(report)
    elif isinstance(report, InspectReport):
        _print_inspect(report)
    else:
        print(report.model_dump_json(indent=1))


@cache
def _packaged() -> Catalog:
    """The catalog, read when a command first needs it."""
    return load_packaged_catalog()


def _find_gpu(catalog: Catalog, name: str) -> GpuSpec:
    """The card of that name; an ambiguous name is refused with the ids and how they differ."""
    try:
        return catalog.find_gpu(name)
    except AmbiguousGpuError as error:
        by_id = {gpu.id: gpu for gpu in catalog.gpus}
        choices = "; ".join(
            f"{gpu_id} ({memory_text(by_id[gpu_id])}, {bandwidth_text(by_id[gpu_id])})"
            for gpu_id in error.choices
        )
        raise InputError(
            f"“{name}” is {len(error.choices)} different cards: {choices}", field="gpu"
        ) from error


def _inspect(options: argparse.Namespace) -> None:
    model = _model(options.checkpoint)
    report = inspect(model)
    if report is None:
        raise InputError(model.facts.source_sentence)
    _show(report, as_json=options.json)


def _refuse(problems: Sequence[Problem]) -> None:
    """The page goes on with defaults where a value cannot be used; a script must not."""
    if problems:
        rules = [re.sub(r", so .{1,80}? (is|are) used\.", ".", problem.sentence) for problem in problems]
        raise InputError(" ".join(rules))


def _plan(options: argparse.Namespace) -> None:
    catalog = _packaged()
    query = {"gpu": str(options.gpu)}
    for option, key in PLAN_OPTIONS.items():
        value = getattr(options, option)
        if value is not None:
            query[key] = str(value)
    if options.enforce_eager:
        query["eager"] = "1"
    request = read_query(query)
    _refuse(request.problems)
    _find_gpu(catalog, request.gpu)
    model = _model(options.checkpoint)
    versions = {"core": __version__, "catalog": f"v{catalog.schema_version}"}
    report = plan(catalog, model, request, versions=versions)
    _refuse(report.problems)
    if model.subject is None:
        raise InputError(model.facts.source_sentence)
    _show(report, as_json=options.json)


def _rough(options: argparse.Namespace) -> None:
    gpu = _find_gpu(_packaged(), options.gpu)
    memory = gpu.marketed_memory_bytes or (gpu.total_memory.total_bytes if gpu.total_memory else None)
    if memory is None:
        raise InputError(f"the memory of {gpu.name} is not known")
    report = rough_plan(
        parse_parameters(options.parameters),
        weights=options.weights,
        gpu_memory_bytes=memory,
        gpu_name=gpu.name,
    )
    if options.json:
        print(report.model_dump_json(indent=1))
    else:
        print(f"{report.sentence}\n{report.arithmetic}")


def _catalog(options: argparse.Namespace) -> None:
    catalog = _packaged()
    if options.what == "gpus":
        rows = [(gpu.id, f"{gpu.name}: {memory_text(gpu)}, {bandwidth_text(gpu)}") for gpu in catalog.gpus]
    elif options.what == "engines":
        rows = [(engine.id, engine.name) for engine in catalog.engines]
    else:
        rows = [(entry.id, entry.basis) for entry in catalog.models]
    if options.json:
        print(json.dumps([{"id": name, "text": text} for name, text in rows], ensure_ascii=False, indent=1))
    else:
        for name, text in rows:
            print(f"{name}\t{text}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit status."""
    options = _parser().parse_args(arguments)
    try:
        {"inspect": _inspect, "plan": _plan, "rough": _rough, "catalog": _catalog}[options.command](options)
    except WillItServeError as error:
        print(f"willitserve: {error.sentence}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        # The reader of our output (head, less) has seen enough.
        sys.stderr.close()
    except OSError as error:
        print(f"willitserve: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
