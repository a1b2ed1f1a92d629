"""Figures of a plan: each number in display units with its basis, arithmetic, reason, source and check."""

from willitserve.assess import Assessment, Subject
from willitserve.kv_cache import arithmetic, fixed_arithmetic
from willitserve.report import Basis, Figure
from willitserve.step_time import StepSeconds
from willitserve.units import GB, GIB, ceil_div

VLLM_KV = "vLLM vllm/v1/kv_cache_interface.py and vllm/v1/core/kv_cache_planning.py"


def gib(num_bytes: float, digits: int = 1) -> str:
    """Bytes as text in GiB, as engines and drivers print them."""
    return f"{num_bytes / GIB:,.{digits}f} GiB"


def _unknown(label: str, unit: str, because: str) -> Figure:
    return Figure(label=label, value=None, unit=unit, basis="unknown", because=because)


def _weights(subject: Subject, plan: Assessment) -> Figure:
    checkpoint = subject.checkpoint
    stored = checkpoint.stored_bytes
    line = f"{checkpoint.num_tensors:,} tensors, {stored:,} B stored"
    basis: Basis = "derived"
    because = "read from the data_offsets of the headers; tables and padding by the engine's rules"
    if plan.weight_format is not None:
        bits = plan.weight_format.bits_per_weight_x100 / 100
        line += f"; block matrices at {bits:g} bits per weight, scales included, the rest in {plan.run_dtype}"
        basis = "assumed"
        because = (
            "as the usual checkpoints of that format are made: embeddings, head, norms and routers stay"
            " 16-bit"
        )
    not_loaded = sum(group.stored_bytes for group in checkpoint.groups if not group.served)
    if not_loaded:
        line += f"; {not_loaded:,} B not loaded (draft blocks, stored copies, buffers)"
    if plan.request.tp > 1:
        line += f"; matrices divided by TP {plan.request.tp}, norms, routers and the like whole on each rank"
    if plan.request.pp > 1:
        line += f"; stage {plan.rank.stage + 1} of {plan.request.pp}, {len(plan.rank.layers)} layers"
    tables = len(subject.architecture.rotary_tables)
    if tables:
        line += f"; {tables} rotary table{'s' if tables > 1 else ''} made at load"
    line += f"; in whole blocks of PyTorch's allocator = {plan.rank.weights:,} B on a GPU"
    return Figure(
        label="Weights per GPU",
        value=plan.rank.weights / GIB,
        unit="GiB",
        digits=2,
        basis=basis,
        arithmetic=line,
        because=because,
        source="safetensors headers; vLLM vllm/model_executor/layers/linear.py, rotary_embedding/base.py",
        check="vLLM prints “Model loading took … GiB”.",
    )


def _kv_per_token(subject: Subject, plan: Assessment) -> Figure:
    request = plan.request
    line = arithmetic(subject.architecture, kv_dtype_bits=plan.kv_dtype_bits, tp=request.tp)
    if request.pp > 1:
        line += f"; a stage holds {len(plan.rank.layers)} of the layers"
    return Figure(
        label="KV cache per token per GPU",
        value=plan.rank.kv_per_token,
        unit="B",
        digits=0,
        basis="derived",
        arithmetic=line,
        because=plan.kv_dtype_because,
        source=VLLM_KV,
        check="Divide “Available KV cache memory” by “GPU KV cache size” in the start-up log.",
    )


def _overheads(plan: Assessment) -> dict[str, Figure]:
    overhead = plan.engine.overhead
    rank = plan.rank
    figures: dict[str, Figure] = {}
    key = "memory.activation_bytes_per_gpu"
    if rank.activation is None:
        figures[key] = _unknown("Activation peak", "GiB", "config.json does not give the vocabulary")
    else:
        spread = overhead.activation_error_ratio * rank.activation / GIB
        figures[key] = Figure(
            label="Activation peak",
            value=rank.activation / GIB,
            unit="GiB",
            digits=2,
            basis="estimated",
            low=rank.activation / GIB - spread,
            high=rank.activation / GIB + spread,
            arithmetic=(
                f"in what {plan.engine.share_name} leaves free"
                if overhead.activation_in_reserve
                else f"the larger of the sampler ({plan.max_num_seqs:,} sequences x vocabulary x"
                f" ({plan.run_dtype} + {overhead.sampler_bytes_per_logit:g} B)) and a forward pass of"
                f" {plan.batched_tokens:,} tokens"
            ),
            because="law fitted on measured starts",
            source=overhead.source,
            check="Start vLLM with VLLM_LOGGING_LEVEL=DEBUG: it prints the activation peak after profiling.",
        )
    figures["memory.non_torch_bytes_per_gpu"] = Figure(
        label="Outside PyTorch",
        value=rank.non_torch / GIB,
        unit="GiB",
        digits=2,
        basis="estimated",
        low=max(0.0, rank.non_torch / GIB - overhead.non_torch_error_gib),
        high=rank.non_torch / GIB + overhead.non_torch_error_gib,
        arithmetic=_non_torch_arithmetic(plan),
        because="CUDA libraries, compiled kernels, communication buffers; measured starts",
        source=overhead.source,
        check="Start vLLM with VLLM_LOGGING_LEVEL=DEBUG: non-torch memory after profiling.",
    )
    taken = (
        "taken from the KV pool"
        if plan.engine.subtracts_cuda_graphs
        else "not taken from the KV pool by this version"
    )
    figures["memory.cuda_graph_bytes_per_gpu"] = Figure(
        label="CUDA graphs",
        value=rank.cuda_graphs / GIB,
        unit="GiB",
        digits=2,
        basis="estimated",
        low=max(0.0, rank.cuda_graphs / GIB - overhead.cuda_graph_error_gib),
        high=rank.cuda_graphs / GIB + overhead.cuda_graph_error_gib if rank.cuda_graphs else 0.0,
        arithmetic=(
            f"a constant and {len(rank.layers)} layers x {overhead.cuda_graph_gib_per_layer:g} GiB, for the"
            f" batch sizes that {plan.max_num_seqs:,} sequences need"
            if rank.cuda_graphs
            else "none in eager mode"
        ),
        because=f"measured starts; {taken}",
        source=overhead.source,
        check="vLLM prints “Graph capturing finished in … secs, took … GiB”.",
    )
    return figures


def _non_torch_arithmetic(plan: Assessment) -> str:
    overhead, request = plan.engine.overhead, plan.request
    if request.tp == 1:
        own = overhead.non_torch_gib if request.pp == 1 else overhead.non_torch_pipeline_gib
        return f"{own:g} GiB" + (" beside what ranks took when they met" if request.pp > 1 else "")
    group = plan.rank.non_torch / GIB - overhead.non_torch_gib
    return f"{overhead.non_torch_gib:g} GiB + {group:.2f} GiB of buffers for a group of {request.tp} ranks"


def _users_in(pool_bytes: int, needed_bytes: int, max_num_seqs: int) -> int | None:
    return min(max_num_seqs, max(0, pool_bytes) // needed_bytes) if needed_bytes else None


def _pool(plan: Assessment) -> dict[str, Figure]:
    rank, request = plan.rank, plan.request
    figures: dict[str, Figure] = {}
    if plan.total is None or plan.requested_bytes is None or plan.pool_bytes is None or plan.pool is None:
        because = (
            "the memory of this card is not known"
            if plan.total is None
            else "the activation peak is not known"
        )
        for key, label, unit in (
            ("memory.kv_cache_bytes_per_gpu", "KV pool per GPU", "GiB"),
            ("memory.max_users", f"Users at {plan.context:,} tokens", "users"),
        ):
            figures[key] = _unknown(label, unit, because)
        return figures
    figures["memory.gpu_total_bytes"] = Figure(
        label="Memory of the card",
        value=plan.total.total_bytes / GIB,
        unit="GiB",
        digits=2,
        basis=plan.total.basis,
        arithmetic=f"{plan.total.total_bytes:,} B",
        because=plan.total.because,
        source=", ".join(
            plan.gpu.sources.get("torch_total_gib", ()) or plan.gpu.sources.get("memory_mib", ())
        ),
        check="python -c 'import torch; print(torch.cuda.mem_get_info())'",
    )
    figures["memory.requested_bytes"] = Figure(
        label="Budget of the engine",
        value=plan.requested_bytes / GIB,
        unit="GiB",
        digits=2,
        basis="derived",
        arithmetic=(
            f"{gib(plan.requested_bytes / plan.utilization, 2)} x {plan.utilization:g}"
            f" = {gib(plan.requested_bytes, 2)}"
        ),
        because=plan.engine.share_name + ("" if request.util else f", the default of {plan.engine.name}"),
        source=plan.engine.source,
        check="vLLM prints it at DEBUG level as “Requested memory”.",
    )
    graphs = rank.cuda_graphs if plan.engine.subtracts_cuda_graphs else 0
    spread = plan.band_bytes / GIB
    line = (
        f"{gib(plan.requested_bytes, 2)} - {gib(rank.weights, 2)} weights -"
        f" {gib(rank.activation or 0, 2)} activation"
        f" - {gib(rank.non_torch, 2)} outside PyTorch"
        + (f" - {gib(graphs, 2)} CUDA graphs" if graphs else "")
    )
    left = plan.pool_bytes if not plan.missing_bytes else -plan.missing_bytes
    figures["memory.kv_cache_bytes_per_gpu"] = Figure(
        label="KV pool per GPU",
        value=plan.pool_bytes / GIB,
        unit="GiB",
        digits=2,
        basis="estimated",
        low=max(0.0, left / GIB - spread - plan.sort_bytes / GIB),
        high=max(0.0, left / GIB + spread),
        arithmetic=f"{line} = {gib(left, 2)}",
        because="what the budget leaves; the overheads in it are estimates",
        source=plan.engine.source,
        check="vLLM prints “Available KV cache memory: … GiB”.",
    )
    pool = plan.pool
    figures["memory.needed_kv_bytes_per_gpu"] = Figure(
        label=f"KV of one request of {plan.context:,} tokens",
        value=pool.needed_bytes / GIB,
        unit="GiB",
        digits=3,
        basis="derived",
        arithmetic=f"whole blocks of {rank.layout.block_size} tokens: {pool.needed_bytes:,} B"
        if rank.layout
        else f"{pool.needed_bytes:,} B",
        source=VLLM_KV,
        check="When it does not fit, vLLM prints “… GiB KV cache is needed”.",
    )
    if pool.concurrency is not None:
        seqs = "" if plan.max_users == pool.max_users else f"; max_num_seqs is {plan.max_num_seqs:,}"
        figures["memory.max_concurrency"] = Figure(
            label="Maximum concurrency",
            value=pool.concurrency,
            unit="x",
            digits=2,
            basis="estimated",
            arithmetic=(
                f"{pool.num_blocks:,} blocks / {rank.layout.blocks_for(plan.context):,} blocks per request"
                if rank.layout and pool.num_blocks is not None
                else f"{gib(plan.pool_bytes, 2)} / {gib(pool.needed_bytes, 3)}"
            ),
            because="follows the KV pool",
            source=VLLM_KV,
            check=f"vLLM prints “Maximum concurrency for {plan.context:,} tokens per request: …x”.",
        )
        figures["memory.max_users"] = Figure(
            label=f"Users at {plan.context:,} tokens",
            value=plan.max_users,
            unit="users",
            digits=0,
            basis="estimated",
            low=_users_in(left - plan.band_bytes - plan.sort_bytes, pool.needed_bytes, plan.max_num_seqs),
            high=_users_in(left + plan.band_bytes, pool.needed_bytes, plan.max_num_seqs),
            arithmetic=f"whole requests in the pool: {pool.concurrency:,.2f}, rounded down{seqs}",
            because="follows the KV pool",
            source=VLLM_KV,
            check="Raise the load until vLLM’s metric num_requests_waiting leaves zero.",
        )
    if pool.tokens is not None:
        groups = rank.layout.num_groups if rank.layout else 1
        figures["memory.kv_cache_tokens"] = Figure(
            label="Tokens in the KV pool",
            value=pool.tokens,
            unit="tokens",
            digits=0,
            basis="estimated",
            arithmetic=(
                f"concurrency x {plan.context:,}"
                if plan.engine.printed_tokens == "concurrency"
                else f"{pool.num_blocks:,} blocks / {groups} groups x block size"
            ),
            because="as this version of the engine counts them",
            source=plan.engine.source,
            check="vLLM prints “GPU KV cache size: … tokens”.",
        )
    return figures


def _step_arithmetic(step: StepSeconds) -> str:
    """The expected time between two tokens, by what it is spent on."""
    parts = (
        ("weights", step.weights),
        ("KV", step.kv),
        ("launches and host", step.overhead),
        ("all-reduces", step.all_reduce),
        ("prefill of other users", step.prefill),
    )
    terms = " + ".join(f"{seconds * 1e3:,.2f} ms {name}" for name, seconds in parts if seconds)
    return f"{terms} = {step.total * 1e3:,.2f} ms per token; the band is that x or / {1 + step.error:.2f}"


def _speed(plan: Assessment) -> dict[str, Figure]:
    users, request = plan.running_users, plan.request
    each = "each user" if users == request.users else f"each of the {users:,} that may run"
    every = "all users" if users == request.users else f"all {users:,} that may run"
    fits = plan.pool is None or plan.max_users is None or plan.max_users > 0
    lead = "Decode ceiling" if fits else "Decode ceiling if it fitted"
    expected = "Expected" if fits else "Expected if it fitted"
    speed = plan.speed
    if speed is None:
        because = "the memory bandwidth of this card is not known"
        if plan.task == "embed":
            because = "an encoder does not decode"
        return {
            "bandwidth.decode_tokens_per_s_ceiling": _unknown(
                "Decode ceiling, each user", "tokens/s", because
            )
        }
    card_bandwidth = plan.gpu.bandwidth_bytes_per_s or 0
    in_step = ceil_div(users, request.pp)
    total = speed.step.total(in_step)
    weights = speed.step.dense_weights + speed.step.routed_weights
    line = (
        f"{card_bandwidth / GB:,.0f} GB/s / ({weights / GB:,.2f} GB weights"
        f" + {in_step:,} x {speed.step.kv_per_user / GB:,.4f} GB KV = {total / GB:,.2f} GB)"
    )
    if request.pp > 1:
        line += f", {request.pp} stages one after the other"
    bound = "a hard bound: every step reads these bytes once; only speculative decoding beats it"
    if speed.distinct_experts > speed.experts_per_token > 0:
        bound += (
            f". Counted are the {speed.experts_per_token} experts per layer that one token reads, which all"
            f" users may share; routing that spreads evenly reads about {speed.distinct_experts}, and the"
            " expected band has that"
        )
    figures = {
        "bandwidth.decode_tokens_per_s_ceiling": Figure(
            label=f"{lead}, {each}",
            value=speed.ceiling.per_user,
            unit="tokens/s",
            digits=1,
            basis="derived",
            arithmetic=f"{line} = {speed.ceiling.per_user:,.1f} steps/s"
            + (", bytes of one rank" if request.tp > 1 else ""),
            because=bound,
            source=", ".join(plan.gpu.sources.get("memory_bandwidth_gb_per_s", ())) or "catalog",
            check=(
                "Measure TPOT with `vllm bench serve`; DCGM’s DRAM_ACTIVE near 0.8 or more says you are at"
                " it."
            ),
        ),
        "bandwidth.aggregate_tokens_per_s_ceiling": Figure(
            label=f"{lead}, {every}",
            value=speed.ceiling.aggregate,
            unit="tokens/s",
            digits=0,
            basis="derived",
            arithmetic=(
                f"{users:,} x {speed.ceiling.per_user:,.1f}"
                if speed.ceiling.aggregate == users * speed.ceiling.per_user
                else f"{users:,} users through the fullest stage"
            ),
            because="a hard bound",
        ),
        "bandwidth.one_user_tokens_per_s_ceiling": Figure(
            label=f"{lead}, one user alone",
            value=speed.one_user.per_user,
            unit="tokens/s",
            digits=1,
            basis="derived",
            arithmetic=f"the same with one user = {speed.one_user.per_user:,.1f}",
            because="a hard bound",
        ),
    }
    if speed.low is None or speed.high is None:
        figures["bandwidth.decode_tokens_per_s_low"] = _unknown(
            "Expected, each user", "tokens/s", speed.because
        )
    else:
        middle = (speed.low + speed.high) / 2
        figures["bandwidth.decode_tokens_per_s_low"] = Figure(
            label=f"{expected}, {each}",
            value=middle,
            unit="tokens/s",
            digits=0,
            basis="estimated",
            low=speed.low,
            high=speed.high,
            arithmetic=_step_arithmetic(speed.seconds) if speed.seconds else "",
            because=speed.because,
            source=plan.engine.step_time.source,
            check="`vllm bench serve` with these input and output lengths: mean TPOT.",
        )
    if speed.ttft_low is None or speed.ttft_high is None:
        because = speed.because if speed.low is None else "the card’s dense TFLOPS are not known"
        figures["bandwidth.ttft_s_low"] = _unknown("Time to first token, no queue", "s", because)
    else:
        figures["bandwidth.ttft_s_low"] = Figure(
            label="Time to first token, no queue",
            value=(speed.ttft_low + speed.ttft_high) / 2,
            unit="s",
            digits=2,
            basis="estimated",
            low=speed.ttft_low,
            high=speed.ttft_high,
            arithmetic=(
                f"FLOPs of a prompt of {speed.input_tokens:,} tokens over the dense peak and the share of"
                " it that runs reach"
            ),
            because="this is where TFLOPS count; queueing comes on top",
            source=plan.engine.step_time.source,
            check="`vllm bench serve` with one request at a time: mean TTFT.",
        )
    return figures


def figures_of(subject: Subject, plan: Assessment) -> dict[str, Figure]:
    """All figures of a plan, keyed by the path of the number they explain."""
    fixed = plan.rank.kv_fixed_per_sequence
    figures = {
        "memory.weight_bytes_per_gpu": _weights(subject, plan),
        "memory.kv_bytes_per_token_per_gpu": _kv_per_token(subject, plan),
    }
    if fixed:
        figures["memory.kv_fixed_bytes_per_sequence_per_gpu"] = Figure(
            label="KV and state per sequence, whatever its length",
            value=fixed / GIB,
            unit="GiB",
            digits=3,
            basis="derived",
            arithmetic=fixed_arithmetic(
                subject.architecture,
                kv_dtype_bits=plan.kv_dtype_bits,
                tp=plan.request.tp,
                layers=plan.rank.layers,
            ),
            source=VLLM_KV,
        )
    return figures | _overheads(plan) | _pool(plan) | _speed(plan)
