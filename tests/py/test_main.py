"""The terminal door: fixed JSON names, exit codes, one line on bad input."""

import json
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from willitserve.__main__ import main

INSPECT_NAMES = {
    "model_id",
    "architecture",
    "num_params",
    "num_active_params",
    "weight_bytes",
    "bytes_per_param",
    "quantization",
    "kv_bytes_per_token",
    "kv_fixed_bytes_per_sequence",
    "max_model_len",
    "kv_bytes_at_max_model_len",
    "valid_tp",
    "rejected_tp",
}
PLAN_NAMES = {
    "verdict": {"code", "sentence"},
    "memory": {
        "gpu_total_bytes",
        "requested_bytes",
        "weight_bytes_per_gpu",
        "activation_bytes_per_gpu",
        "non_torch_bytes_per_gpu",
        "cuda_graph_bytes_per_gpu",
        "kv_cache_bytes_per_gpu",
        "kv_bytes_per_token_per_gpu",
        "num_gpu_blocks",
        "kv_cache_tokens",
        "max_concurrency",
        "needed_kv_bytes_per_gpu",
        "estimated_max_model_len",
        "max_users",
    },
    "bandwidth": {
        "decode_tokens_per_s_ceiling",
        "decode_tokens_per_s_low",
        "decode_tokens_per_s_high",
        "aggregate_tokens_per_s_ceiling",
        "ttft_s_low",
        "ttft_s_high",
    },
    "precision": {
        "checkpoint_format",
        "compute_format",
        "native",
        "recommended",
        "recommended_because",
        "alternatives",
    },
    "scaling": {"tp", "pp", "replicas", "gpus_per_replica", "valid_tp", "rejected_tp"},
}


def report_of(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:  # noqa: ANN401  a JSON report
    assert main([*arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def write_checkpoint(folder: Path, config: dict[str, object]) -> None:
    table = {"model.embed_tokens.weight": {"dtype": "BF16", "shape": [8, 4], "data_offsets": [0, 64]}}
    text = json.dumps(table).encode()
    folder.mkdir()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + bytes(64))
    (folder / "config.json").write_text(json.dumps(config), "utf-8")


def test_inspect_has_the_fixed_names(capsys: pytest.CaptureFixture[str]) -> None:
    report = report_of(capsys, "inspect", "Qwen/Qwen3-8B")
    assert set(report) >= INSPECT_NAMES
    assert report["num_params"] == 8_190_735_360
    assert report["kv_bytes_per_token"] == 147_456
    assert report["valid_tp"] == [1, 2, 4, 8, 16]


def test_plan_has_the_fixed_names_and_bytes_are_ints(capsys: pytest.CaptureFixture[str]) -> None:
    report = report_of(capsys, "plan", "Qwen/Qwen3-8B", "--gpu", "l40s-48gb", "--context", "8192")
    for part, names in PLAN_NAMES.items():
        assert set(report[part]) >= names, part
    for name, value in report["memory"].items():
        if "bytes" in name:
            assert isinstance(value, int), name
    assert report["startup_log"]
    assert isinstance(report["warnings"], list)


def test_every_figure_explains_a_number_of_the_report(capsys: pytest.CaptureFixture[str]) -> None:
    report = report_of(
        capsys, "plan", "google/gemma-3-27b-it", "--gpu", "a100-sxm4-80gb", "--context", "8192"
    )
    assert report["figures"]
    for path, figure in report["figures"].items():
        part, name, *_ = path.split(".")
        assert name in report[part], path
        if figure["value"] is None:
            assert figure["because"], path
        else:
            assert figure["arithmetic"], path
            assert figure["basis"] in ("exact", "derived", "estimated", "assumed"), path


def test_without_a_context_the_model_s_own_is_planned(capsys: pytest.CaptureFixture[str]) -> None:
    report = report_of(capsys, "plan", "Qwen/Qwen3-8B", "--gpu", "h200-sxm5-141gb")
    assert report["query"]["context"] == "40960"


def test_any_memory_may_be_given(capsys: pytest.CaptureFixture[str]) -> None:
    tiny = report_of(capsys, "plan", "Qwen/Qwen3-8B", "--gpu", "l4-24gb", "--gpu-memory-gib", "0.001")
    assert tiny["verdict"]["code"] == "does-not-fit"
    huge = report_of(capsys, "plan", "Qwen/Qwen3-8B", "--gpu", "l4-24gb", "--gpu-memory-gib", "1000.5")
    assert huge["verdict"]["code"] == "serves"
    assert huge["memory"]["gpu_total_bytes"] == round(1000.5 * 2**30)


def test_does_not_fit_is_a_report(capsys: pytest.CaptureFixture[str]) -> None:
    report = report_of(capsys, "plan", "meta-llama/Llama-3.3-70B-Instruct", "--gpu", "l4-24gb")
    assert report["verdict"]["code"] == "does-not-fit"


def test_rough_gives_three_cards_for_70b(capsys: pytest.CaptureFixture[str]) -> None:
    report = report_of(capsys, "rough", "70B", "--gpu", "h100-sxm5-80gb")
    assert report["gpus_per_replica"] == 3


@pytest.mark.parametrize("what", ["gpus", "engines", "models"])
def test_the_catalog_is_listed(capsys: pytest.CaptureFixture[str], what: str) -> None:
    assert len(report_of(capsys, "catalog", what)) >= 5


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param(["plan", "no/such", "--gpu", "l4-24gb"], "neither a folder nor", id="model"),
        pytest.param(["plan", "Qwen/Qwen3-8B", "--gpu", "voodoo2"], "voodoo2", id="card"),
        pytest.param(["plan", "Qwen/Qwen3-8B", "--gpu", "H100"], "h100-pcie-80gb", id="ambiguous card"),
        pytest.param(["plan", "Qwen/Qwen3-8B", "--gpu", "l4-24gb", "--users", "0"], "Users", id="users"),
        pytest.param(
            ["plan", "Qwen/Qwen3-8B", "--gpu", "l4-24gb", "--context", "-1"], "Context", id="context"
        ),
        pytest.param(["plan", "Qwen/Qwen3-8B", "--gpu", "l4-24gb", "--engine", "tgi"], "tgi", id="engine"),
        pytest.param(
            ["plan", "Qwen/Qwen3-8B", "--gpu", "l4-24gb", "--engine", "vllm@0.1"], "0.1", id="version"
        ),
        pytest.param(["rough", "seventy", "--gpu", "l4-24gb"], "seventy", id="parameters"),
        pytest.param(["inspect", "/no/such/folder"], "neither a folder nor", id="folder"),
    ],
)
def test_bad_input_is_one_line_and_exit_2(
    capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    assert main(arguments) == 2
    err = capsys.readouterr().err
    assert said in err
    assert err.count("\n") == 1


def test_a_missing_option_is_exit_2(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["plan", "Qwen/Qwen3-8B"])
    assert caught.value.code == 2
    assert "--gpu" in capsys.readouterr().err


def test_a_folder_is_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "org__tiny"
    write_checkpoint(folder, {"model_type": "llama", "num_hidden_layers": 1})
    assert main(["plan", str(folder), "--gpu", "l4-24gb"]) in (0, 2)
    assert main(["inspect", str(tmp_path)]) == 2
    assert "safetensors" in capsys.readouterr().err


def test_a_damaged_file_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "org__tiny"
    write_checkpoint(folder, {})
    (folder / "model.safetensors").write_bytes(b"<html>not found</html>")
    assert main(["inspect", str(folder)]) == 2
    assert "model.safetensors" in capsys.readouterr().err


def test_the_module_runs_as_a_program() -> None:
    command = [sys.executable, "-m", "willitserve", "rough", "8B", "--gpu", "l4-24gb"]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2] / "py"
    )
    assert done.returncode == 0, done.stderr
    assert "for one replica" in done.stdout
