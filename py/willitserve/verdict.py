"""The verdict about a plan as asked, the state of each number, and the ways out that would change it."""

from collections.abc import Callable, Iterator
from dataclasses import replace

from willitserve.assess import Assessment
from willitserve.figures import gib
from willitserve.report import Note, State, Verdict, VerdictCode, WayOut
from willitserve.request import PlanRequest
from willitserve.weights import FLOAT_FORMATS

SERVING: frozenset[VerdictCode] = frozenset({"serves", "serves-with-changes"})


def _users(count: int) -> str:
    return f"{count:,} user" if count == 1 else f"{count:,} users"


def _cards(count: int) -> str:
    return f"{count:,} card" if count == 1 else f"{count:,} cards"


def machine_name(plan: Assessment) -> str:
    """`4 x H100 SXM 80 GB`, a pipeline named."""
    cards = plan.request.tp * plan.request.pp
    split = f" (TP {plan.request.tp} x PP {plan.request.pp})" if plan.request.pp > 1 else ""
    return f"{cards:,} x {plan.gpu.name}{split}"


def format_text(plan: Assessment) -> str:
    """`BF16`, `FP8`: what the weights are stored in; float weights take the dtype that the model runs in."""
    if plan.format_name in FLOAT_FORMATS or plan.format_name in ("bf16", "fp16"):
        return {"bfloat16": "BF16", "float16": "FP16", "float32": "FP32"}.get(plan.run_dtype, plan.run_dtype)
    return plan.format_name.split("-")[0].upper()


def judge(plan: Assessment) -> Verdict:
    """The verdict, worst reason first; ways out stand beside it and never soften it."""
    on = machine_name(plan)
    name = plan.engine.name
    if plan.refusals:
        return Verdict(
            code="will-not-start", sentence=f"{name} will not start on {on}: {plan.refusals[0].reason}"
        )
    rank = plan.rank
    if plan.total is None or plan.requested_bytes is None:
        sentence = (
            f"The memory of {plan.gpu.name} is not known, so whether {gib(rank.weights)} of weights fit"
            " cannot be said."
        )
        return Verdict(code="unknown", sentence=sentence)
    if rank.weights + rank.non_torch > plan.total.total_bytes:
        sentence = (
            f"Does not fit on {on}: {gib(rank.weights)} of weights per card,"
            f" {gib(plan.total.total_bytes)} of memory, of which the engine may use"
            f" {gib(plan.requested_bytes)}."
        )
        return Verdict(code="does-not-fit", sentence=sentence)
    if plan.pool is None or plan.pool_bytes is None:
        sentence = f"{gib(rank.weights)} of weights fit on {on}; what is left for KV cache cannot be said."
        return Verdict(code="unknown", sentence=sentence)
    if plan.missing_bytes or plan.pool_bytes == 0 or plan.pool.num_blocks == 0:
        sentence = (
            f"Loads on {on} but serves nobody: weights and overhead take all of the"
            f" {gib(plan.requested_bytes)}"
            f" the engine may use ({gib(plan.missing_bytes)} too much); no KV block is left."
        )
        return Verdict(code="serves-nobody", sentence=sentence)
    pool = plan.pool
    if plan.task == "embed":
        sentence = (
            f"Serves inputs of up to {plan.context:,} tokens on {on}: an encoder keeps no KV cache."
        )
        return Verdict(code="serves", sentence=sentence)
    if pool.needed_bytes > plan.pool_bytes:
        longest = pool.longest_request
        until = f" The longest request is about {longest:,} tokens." if longest else ""
        sentence = (
            f"Loads on {on}, but a request of the whole context of {plan.context:,} tokens needs"
            f" {gib(pool.needed_bytes)}"
            " of KV cache"
            f" and {gib(plan.pool_bytes)} are free.{until}"
        )
        return Verdict(code="context-too-long", sentence=sentence)
    wanted = plan.request.users
    held = plan.max_users
    at = f"at {plan.context:,} tokens on {on} in {format_text(plan)}"
    if held is not None and held < wanted:
        limit = (
            f"max_num_seqs is {plan.max_num_seqs:,}"
            if held == plan.max_num_seqs
            else f"{gib(pool.needed_bytes, 2)} of KV cache each, {gib(plan.pool_bytes)} free per card"
        )
        sentence = f"Serves {held:,} of {_users(wanted)} at once {at}: {limit}. The others wait."
        return Verdict(code="serves-with-changes", sentence=sentence)
    if plan.dtype_change is not None:
        return Verdict(
            code="serves-with-changes",
            sentence=f"Serves {_users(wanted)} {at}, with a change: {plan.dtype_change}",
        )
    return Verdict(code="serves", sentence=f"Serves {_users(wanted)} {at}.")


def memory_state(plan: Assessment, code: VerdictCode) -> State:
    """ok, or tight where the band of the overheads could turn the answer, or no."""
    if code in ("does-not-fit", "serves-nobody", "context-too-long"):
        return "no"
    if plan.task == "embed" and plan.pool is not None:
        return "ok"
    if plan.pool is None or plan.pool_bytes is None or plan.max_users is None:
        return "unknown"
    if plan.max_users < plan.request.users:
        return "tight"
    needed = plan.request.users * plan.pool.needed_bytes
    return "tight" if needed > plan.pool_bytes - plan.band_bytes else "ok"


def warnings_of(plan: Assessment) -> list[Note]:
    """What the asked plan should know, each with a stable code."""
    notes: list[Note] = []
    domain = plan.gpu.interconnect.domain_size
    tp = plan.request.tp
    if tp > 1 and domain is not None and tp > max(domain, 1):
        link = plan.gpu.interconnect.type.replace("_", " ")
        sentence = (
            f"TP {tp} reaches beyond {domain} card{'s' if domain > 1 else ''} that share a fast link"
            f" ({link}):"
            " every layer's all-reduce crosses the slower bus. Replicas or a pipeline avoid that."
        )
        notes.append(Note(code="tp-beyond-link", sentence=sentence))
    node = plan.gpu.typical_node_gpus
    if node is not None and tp * plan.request.pp > node:
        sentence = (
            f"{tp * plan.request.pp} cards are more than a usual machine of {node}: this crosses the network."
        )
        notes.append(Note(code="beyond-node", sentence=sentence))
    if plan.dtype_change is not None:
        notes.append(Note(code="dtype-change", sentence=plan.dtype_change))
    notes.extend(Note(code="will-not-start", sentence=refusal.reason) for refusal in plan.refusals[1:])
    return notes


Assess = Callable[[PlanRequest], Assessment]


def _candidates(plan: Assessment) -> Iterator[tuple[str, dict[str, str], PlanRequest]]:
    """Changes worth trying, the least intrusive first: (what, URL keys, request)."""
    request, pool = plan.request, plan.pool
    if plan.max_users is not None and 0 < plan.max_users < request.users:
        few = plan.max_users
        yield f"{_users(few)} at once", {"users": str(few)}, replace(request, users=few)
    if pool is not None and pool.longest_request and pool.longest_request < plan.context:
        tokens = pool.longest_request // 1024 * 1024
        if tokens:
            shorter = replace(request, context=tokens, users=1)
            yield f"one user at {tokens:,} tokens", {"context": str(tokens), "users": "1"}, shorter
    half_kv = plan.kv_dtype_bits == 16 and plan.rank.kv_per_token > 0
    half_weights = request.weights == "checkpoint" and plan.weight_bits == 16
    if half_kv:
        yield "KV cache in FP8", {"kv": "fp8"}, replace(request, kv="fp8")
    if half_weights:
        yield "weights in FP8", {"weights": "fp8"}, replace(request, weights="fp8")
    if half_kv and half_weights:
        both = replace(request, weights="fp8", kv="fp8")
        yield "weights and KV cache in FP8", {"weights": "fp8", "kv": "fp8"}, both
    for tp in plan.valid_tp:
        if tp > request.tp and tp <= 8:
            yield f"{_cards(tp * request.pp)} (TP {tp})", {"tp": str(tp)}, replace(request, tp=tp)
    if request.tp in {rejected.tp for rejected in plan.rejected_tp} or plan.refusals:
        for tp in reversed([tp for tp in plan.valid_tp if tp < request.tp]):
            yield f"{_cards(tp * request.pp)} (TP {tp})", {"tp": str(tp)}, replace(request, tp=tp)
    longest = plan.refusals and plan.refusals[0].rule == "context"
    if longest:
        yield "the model's own context", {"context": ""}, replace(request, context=None)


def ways_out(plan: Assessment, assess: Assess, *, at_most: int = 4) -> list[WayOut]:
    """Single changes after which all that was asked (or what the change says) is served, computed by the same
    rules."""
    found: list[WayOut] = []
    wider_found = False
    for what, query, request in _candidates(plan):
        if "tp" in query and wider_found:
            continue
        changed = assess(request)
        verdict = judge(changed)
        if verdict.code not in SERVING or (verdict.code != "serves" and "users" not in query):
            continue
        wider_found = wider_found or "tp" in query
        found.append(
            WayOut(
                sentence=f"{what[0].upper()}{what[1:]}: {verdict.sentence}", query=query, code=verdict.code
            )
        )
        if len(found) == at_most:
            break
    return found
