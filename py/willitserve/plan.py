"""The whole answer: four numbers in order, the verdict, ways out, figures, and what could not be used of the
request."""

from dataclasses import dataclass, replace

from willitserve.assess import Assessment, Subject, assess, pick_weight_format
from willitserve.catalog import Catalog
from willitserve.citations import with_citations
from willitserve.engine import EngineSpec
from willitserve.errors import AmbiguousGpuError, InputError
from willitserve.facts_figures import gpu_figures, model_figures
from willitserve.figures import figures_of, gib
from willitserve.gpu import GpuSpec
from willitserve.inspection import inspect_subject
from willitserve.kv_cache import layers_of_stages
from willitserve.memory_bar import bar_figures, memory_bar
from willitserve.precision_report import precision_report
from willitserve.report import (
    BandwidthReport,
    Figure,
    GpuChoice,
    GpuFacts,
    MemoryReport,
    ModelFacts,
    Note,
    PlanReport,
    Problem,
    ScalingReport,
    State,
    Verdict,
    VerdictCode,
)
from willitserve.request import DEFAULTS, PlanRequest, shown
from willitserve.startup_log import predicted_lines
from willitserve.units import GB, GIB, ceil_div
from willitserve.verdict import SERVING, judge, memory_state, warnings_of, ways_out
from willitserve.weights import stage_weight_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A model as it was read, understood or not."""

    facts: ModelFacts
    subject: Subject | None
    """None: what was read does not suffice for a plan; the facts say what is missing."""
    withheld: tuple[str, ...] = ()
    """Why everything but the weights is withheld; empty: nothing is."""


def find_engine(catalog: Catalog, name: str) -> EngineSpec:
    """The span of versions that `vllm`, `vllm@0.19` or `vllm@0.19.1` names; no version: the newest.

    Raises
        InputError: no such engine, or a version before the first that is described.
    """
    family, _, version = name.strip().lower().partition("@")
    spans = [engine for engine in catalog.engines if engine.family == family]
    if not spans:
        families = ", ".join(sorted({engine.family for engine in catalog.engines}))
        raise InputError(
            f"engine “{shown(name)}” is not described", field="engine", hint=f"Known: {families}."
        )
    if not version:
        return spans[-1]
    wanted = _version(version)
    if wanted is None:
        raise InputError(
            f"“{shown(version)}” is not a version", field="engine", hint=f"Write {family}@0.19, for example."
        )
    for engine in reversed(spans):
        first = _version(engine.first_version)
        if first is not None and wanted[: len(first)] >= first:
            return engine
    oldest = spans[0].first_version
    raise InputError(
        f"{family} {shown(version)} is older than {oldest}",
        field="engine",
        hint=f"Described from {oldest} on.",
    )


def _version(text: str) -> tuple[int, ...] | None:
    parts = text.removeprefix("v").split(".")
    if not 1 <= len(parts) <= 4 or not all(
        part.isascii() and part.isdigit() and len(part) < 6 for part in parts
    ):
        return None
    return tuple(int(part) for part in parts)


def _memory(plan: Assessment, state: State) -> MemoryReport:
    rank, pool = plan.rank, plan.pool
    return MemoryReport(
        gpu_total_bytes=plan.total.total_bytes if plan.total else None,
        requested_bytes=plan.requested_bytes,
        weight_bytes_per_gpu=rank.weights,
        activation_bytes_per_gpu=rank.activation,
        non_torch_bytes_per_gpu=rank.non_torch,
        cuda_graph_bytes_per_gpu=rank.cuda_graphs,
        kv_cache_bytes_per_gpu=plan.pool_bytes,
        kv_bytes_per_token_per_gpu=rank.kv_per_token,
        kv_fixed_bytes_per_sequence_per_gpu=rank.kv_fixed_per_sequence,
        num_gpu_blocks=pool.num_blocks if pool else None,
        kv_cache_tokens=pool.tokens if pool else None,
        max_concurrency=pool.concurrency if pool else None,
        needed_kv_bytes_per_gpu=pool.needed_bytes if pool else None,
        estimated_max_model_len=pool.longest_request if pool else None,
        max_users=plan.max_users,
        kv_cache_dtype=plan.kv_dtype,
        state=state,
        bar=memory_bar(plan),
    )


def _bandwidth(plan: Assessment) -> BandwidthReport:
    speed = plan.speed
    return BandwidthReport(
        decode_tokens_per_s_ceiling=speed.ceiling.per_user if speed else None,
        decode_tokens_per_s_low=speed.low if speed else None,
        decode_tokens_per_s_high=speed.high if speed else None,
        aggregate_tokens_per_s_ceiling=speed.ceiling.aggregate if speed else None,
        one_user_tokens_per_s_ceiling=speed.one_user.per_user if speed else None,
        ttft_s_low=speed.ttft_low if speed else None,
        ttft_s_high=speed.ttft_high if speed else None,
        state="ok" if speed else "unknown",
    )


def _scaling(plan: Assessment) -> ScalingReport:
    request = plan.request
    held = plan.max_users
    replicas = None if not held else ceil_div(request.users, held)
    refused = bool(plan.refusals)
    domain = plan.gpu.interconnect.domain_size
    beyond = domain is not None and request.tp > max(1, domain)
    return ScalingReport(
        tp=request.tp,
        pp=request.pp,
        replicas=replicas,
        gpus_per_replica=request.tp * request.pp,
        valid_tp=list(plan.valid_tp),
        rejected_tp=list(plan.rejected_tp)
        + [entry for entry in plan.refusals if entry.tp not in {known.tp for known in plan.rejected_tp}][:1],
        nvlink_domain=domain,
        state="no" if refused else "tight" if beyond else "ok",
    )


def _applied(plan: Assessment | None, request: PlanRequest) -> dict[str, str]:
    applied = {
        "model": request.model,
        "gpu": plan.gpu.id if plan else request.gpu,
        "users": str(request.users),
        "context": str(plan.context) if plan else str(request.context or ""),
        "weights": request.weights,
        "kv": request.kv,
        "tp": str(request.tp),
        "pp": str(request.pp),
        "engine": plan.engine.id if plan else request.engine,
    }
    if plan is not None:
        applied |= {
            "util": f"{plan.utilization:g}",
            "seqs": str(plan.max_num_seqs),
            "batched": str(plan.batched_tokens),
        }
    if request.input is not None:
        applied["input"] = str(request.input)
    if request.output is not None:
        applied["output"] = str(request.output)
    if request.price is not None:
        applied["price"] = f"{request.price:g}"
    return applied


def _defaults(catalog: Catalog, plan: Assessment | None) -> dict[str, str]:
    values = {key: value for key, value in DEFAULTS.items() if value}
    values["engine"] = find_engine(catalog, "vllm").id
    if plan is not None and plan.context_is_default:
        values["context"] = str(plan.context)
    if plan is not None:
        values |= {"util": f"{plan.engine.gpu_memory_utilization:g}"}
    return values


def _gpu_facts(catalog: Catalog, gpu: GpuSpec) -> GpuFacts:
    namesakes = [
        Note(code=other.id, sentence=f"{other.name}: {bandwidth_text(other)}")
        for other in catalog.namesakes(gpu)
    ]
    total = gpu.total_memory
    firmness = [f"The catalog’s figures of {gpu.name} are not firm."] if gpu.confidence == "low" else []
    return GpuFacts(
        id=gpu.id,
        name=gpu.name,
        memory_bytes=total.total_bytes if total else None,
        bandwidth_bytes_per_s=gpu.bandwidth_bytes_per_s,
        namesakes=namesakes,
        notes=[*firmness, *(f"Sources differ: {text}." for text in gpu.disagreements)],
    )


def bandwidth_text(gpu: GpuSpec) -> str:
    """`3,350 GB/s`, or that it is not known."""
    rate = gpu.bandwidth_bytes_per_s
    return "bandwidth not known" if rate is None else f"{rate / GB:,.0f} GB/s"


def memory_text(gpu: GpuSpec) -> str:
    """`79.2 GiB`, or that it is not known."""
    total = gpu.total_memory
    return "memory not known" if total is None else gib(total.total_bytes)


def _empty_report(
    catalog: Catalog,
    request: PlanRequest,
    engine: EngineSpec,
    model: Model,
    verdict: Verdict,
    gpu: GpuSpec | None,
    problems: list[Problem],
) -> PlanReport:
    """What is true without a plan: the model's size, the card's rates, and why there is no more."""
    figures = model_figures(model.facts) | (gpu_figures(gpu) if gpu is not None else {})
    checkpoint = None
    if model.subject is not None:
        checkpoint, its_figures = inspect_subject(model.subject, 16, "16 bit")
        figures |= its_figures
    return PlanReport(
        verdict=verdict,
        model=model.facts,
        gpu=_gpu_facts(catalog, gpu) if gpu else None,
        engine=engine.name,
        query=_applied(None, request),
        defaults=_defaults(catalog, None),
        memory=None,
        bandwidth=None,
        precision=None,
        scaling=None,
        checkpoint=checkpoint,
        figures=with_citations(catalog, figures),
        problems=problems,
    )


def plan(
    catalog: Catalog,
    model: Model,
    request: PlanRequest,
    *,
    page_context: int | None = None,
    versions: dict[str, str],
) -> PlanReport:
    """The answer to a request; bad values of it are named in `problems` and their defaults apply.

    `page_context` caps the context that is planned when none is asked for (the engine itself takes the
    model's longest).
    """
    problems = list(request.problems)
    try:
        engine = find_engine(catalog, request.engine)
    except InputError as error:
        engine = find_engine(catalog, "vllm")
        sentence = f"{error.message[0].upper()}{error.message[1:]}, so {engine.name} is used. {error.hint}"
        problems.append(Problem(field="engine", code=error.code, sentence=sentence))
    gpu, choices = _find_gpu(catalog, request, problems)
    if gpu is None:
        report = _without_gpu(catalog, model, request, engine, choices, problems, page_context)
        return report.model_copy(update={"versions": versions})
    subject = model.subject
    if subject is None:
        verdict = Verdict(code="unknown", sentence=model.facts.source_sentence)
        report = _empty_report(catalog, request, engine, model, verdict, gpu, problems)
        return report.model_copy(update={"versions": versions})

    if model.withheld:
        report = _weights_only(catalog, subject, model, request, engine, gpu, problems)
        return report.model_copy(update={"versions": versions})

    def again(changed: PlanRequest) -> Assessment:
        return assess(catalog, subject, changed, gpu, engine, page_context=page_context)

    found = again(request)
    if request.input is not None and request.input > found.context:
        sentence = (
            f"A prompt of {request.input:,} tokens is longer than the context of {found.context:,}:"
            " the context is taken as the prompt."
        )
        problems.append(Problem(field="input", code="bad-value", sentence=sentence))
        request = replace(request, input=None)
        found = again(request)
    verdict = judge(found)
    notes = warnings_of(found)
    notes += [Note(code="assumed", sentence=text) for text in subject.architecture.assumed]
    notes += [Note(code="not-understood", sentence=text) for text in model.facts.not_understood]
    checkpoint, checkpoint_figures = inspect_subject(subject, found.kv_dtype_bits, found.kv_dtype)
    return PlanReport(
        verdict=verdict,
        model=model.facts,
        gpu=_gpu_facts(catalog, gpu),
        engine=engine.name,
        query=_applied(found, request),
        defaults=_defaults(catalog, found),
        memory=_memory(found, memory_state(found, verdict.code)),
        bandwidth=_bandwidth(found),
        precision=precision_report(catalog, subject, found),
        scaling=_scaling(found),
        checkpoint=checkpoint,
        figures=with_citations(
            catalog,
            figures_of(subject, found)
            | bar_figures(memory_bar(found))
            | model_figures(model.facts)
            | gpu_figures(gpu)
            | checkpoint_figures,
        ),
        startup_log=predicted_lines(found) if verdict.code in SERVING else [],
        warnings=notes,
        ways_out=[] if verdict.code == "serves" else ways_out(found, again),
        problems=problems,
        versions=versions,
    )


def _weights_only(
    catalog: Catalog,
    subject: Subject,
    model: Model,
    request: PlanRequest,
    engine: EngineSpec,
    gpu: GpuSpec,
    problems: list[Problem],
) -> PlanReport:
    """What is still true of a model whose cache is not understood: its weights against the card."""
    stages = layers_of_stages(subject.architecture.num_hidden_layers, request.pp)
    weights = max(
        stage_weight_bytes(
            subject.checkpoint,
            subject.architecture,
            stages,
            tp=request.tp,
            run_dtype_bits=16,
            weight_format=pick_weight_format(request),
            made_at_load=False,
        )
    )
    total = gpu.total_memory
    withheld = model.withheld[0]
    if total is not None and weights > total.total_bytes:
        verdict = Verdict(
            code="does-not-fit",
            sentence=(
                f"Does not fit: {gib(weights)} of weights per card, {gib(total.total_bytes)} of memory."
                f" {withheld}"
            ),
        )
    else:
        verdict = Verdict(
            code="unknown", sentence=f"{gib(weights)} of weights per card; the rest is withheld. {withheld}"
        )
    report = _empty_report(catalog, request, engine, model, verdict, gpu, problems)
    figure = Figure(
        label="Weights per GPU",
        value=weights / GIB,
        unit="GiB",
        digits=2,
        basis="derived",
        arithmetic=f"{subject.checkpoint.num_tensors:,} tensors, {subject.checkpoint.stored_bytes:,} B",
        because="read from the headers",
    )
    notes = [Note(code="not-understood", sentence=text) for text in model.facts.not_understood]
    figures = {"memory.weight_bytes_per_gpu": figure} | report.figures
    return report.model_copy(update={"figures": figures, "warnings": notes})


def _find_gpu(
    catalog: Catalog, request: PlanRequest, problems: list[Problem]
) -> tuple[GpuSpec | None, tuple[str, ...]]:
    if not request.gpu:
        problems.append(
            Problem(field="gpu", code="missing", sentence="Pick a GPU, for example h100-sxm5-80gb.")
        )
        return None, ()
    try:
        return catalog.find_gpu(request.gpu), ()
    except AmbiguousGpuError as error:
        return None, error.choices
    except InputError as error:
        problems.append(Problem(field="gpu", code=error.code, sentence=error.sentence))
        return None, ()


def _without_gpu(
    catalog: Catalog,
    model: Model,
    request: PlanRequest,
    engine: EngineSpec,
    choices: tuple[str, ...],
    problems: list[Problem],
    page_context: int | None,
) -> PlanReport:
    """The answer when no single card is meant: what is true of the model, and what each candidate would
    answer."""
    by_id = {gpu.id: gpu for gpu in catalog.gpus}
    offered: list[GpuChoice] = []
    for gpu_id in choices:
        gpu = by_id[gpu_id]
        sentence = f"{memory_text(gpu)}, {bandwidth_text(gpu)}"
        code: VerdictCode = "unknown"
        if model.subject is not None and not model.withheld:
            found = assess(
                catalog, model.subject, replace(request, gpu=gpu_id), gpu, engine, page_context=page_context
            )
            verdict = judge(found)
            code = verdict.code
            speed = ""
            if code in SERVING and found.speed is not None:
                speed = f"; at most {found.speed.ceiling.per_user:,.0f} tokens/s each"
            sentence += f": {verdict.sentence.removesuffix('.')}{speed}."
        offered.append(GpuChoice(id=gpu_id, name=gpu.name, sentence=sentence, code=code))
    if offered:
        text = f"“{shown(request.gpu)}” is {len(offered)} different cards. Which one?"
    elif model.subject is None:
        text = model.facts.source_sentence
    else:
        text = f"Pick a GPU: {gib(model.subject.checkpoint.stored_bytes)} of weights are to be placed."
    report = _empty_report(
        catalog, request, engine, model, Verdict(code="unknown", sentence=text), None, problems
    )
    return report.model_copy(update={"choices": offered})
