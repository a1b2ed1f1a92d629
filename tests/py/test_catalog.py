"""The catalog's rules about its files, and the JSON that travels."""

import json
from pathlib import Path

import pytest

from willitserve.catalog import Catalog
from willitserve.catalog_files import load_catalog, load_packaged_catalog, read_folder
from willitserve.errors import AmbiguousGpuError, CatalogError

ROOT = Path(__file__).resolve().parents[2]
SOURCES = """sources:
  sheet:
    title: Datasheet
    url: https://example.org/sheet
"""
FORMATS = """engine: vLLM
version: 0.33.0
source: https://example.org/tree
legend: {native: runs in that format}
columns: ["9.0"]
treated_as: {"9.1": "9.0"}
not_covered: {}
formats:
  bf16:
    description: 16 bit
    support: {"9.0": native}
    sources: [platforms.py]
"""
GPU = """  - id: {id}
    name: {name}
    vendor: NVIDIA
    platform: cuda
    architecture: Hopper
    compute_capability: "9.0"
    status: shipping
    memory_mib: null
    torch_total_gib: null
    memory_type: HBM3
    memory_bus_bits: null
    memory_bandwidth_gb_per_s: {bandwidth}
    num_multiprocessors: null
    dense_tflops: {{}}
    dense_tflops_sources: {{}}
    native_dtypes: null
    interconnect: {{type: pcie, peer_to_peer: pcie}}
    form_factor: PCIe
    typical_node_gpus: null
    tdp_w: null
    release_year: null
    mig: null
    confidence: high
    sources: {{identity: [sheet], compute_capability: [sheet], memory_bandwidth_gb_per_s: [sheet]}}
"""
MODEL = """  - id: {id}
    revision: null
    gated: false
    basis: architecture
    config_basis: published file
    source: https://example.org
    config: {{}}
    tensors:
      - {{name: w, dtype: BF16, shape: [1]}}
"""


def gpu(entry_id: str, name: str, bandwidth: int = 1000) -> str:
    return GPU.format(id=entry_id, name=name, bandwidth=bandwidth)


def files(*, gpus: str, models: str = "", **others: str) -> dict[str, str]:
    """A small catalog; `others` replaces or adds files."""
    texts = {"sources.yaml": SOURCES, "formats.yaml": FORMATS, "gpus/test.yaml": f"gpus:\n{gpus}"}
    if models:
        texts["models/test.yaml"] = f"models:\n{models}"
    return texts | {name.replace("__", "/") + ".yaml": text for name, text in others.items()}


A1 = gpu("a1", "Card A1")
B1 = gpu("b1", "Card B1")
SHARED = "    shared_names: [Card]\n"


@pytest.mark.parametrize(
    ("texts", "complaint"),
    [
        pytest.param(
            files(gpus=A1 + "    confidence: low\n"),
            r"^gpus/test\.yaml:26: key 'confidence' stands twice",
            id="repeated key",
        ),
        pytest.param(
            files(gpus=A1 + "    price: 1\n"),
            r"^gpus/test\.yaml:26: a1: price: Extra inputs",
            id="unknown field",
        ),
        pytest.param(
            files(gpus=A1.replace("[sheet], memory", "[flyer], memory")),
            r"^gpus/test\.yaml:2: a1: source 'flyer' is not in sources\.yaml",
            id="source that is not listed",
        ),
        pytest.param(
            files(gpus=A1.replace(", memory_bandwidth_gb_per_s: [sheet]", "")),
            r"^gpus/test\.yaml:2: a1: Value error, a1: no source for memory_bandwidth_gb_per_s",
            id="figure without source",
        ),
        pytest.param(
            files(gpus=A1, sources=SOURCES + "  idle: {title: Nobody}\n"),
            r"^sources\.yaml:5: no entry uses the source 'idle'",
            id="source without figure",
        ),
        pytest.param(files(gpus=B1 + A1), r"^gpus/test\.yaml:26: a1 belongs before b1", id="out of order"),
        pytest.param(
            files(gpus=A1, gpus__more=f"gpus:\n{A1}"),
            r"^gpus/test\.yaml:2: a1 stands twice, also at gpus/more\.yaml:2",
            id="id in two files",
        ),
        pytest.param(
            files(gpus=A1 + gpu("b1", "CARD-a1")),
            r"^gpus/test\.yaml:26: b1: a1 at gpus/test\.yaml:2 has the name 'carda1' too",
            id="name of two entries",
        ),
        pytest.param(
            files(gpus=A1 + "    shared_names: [Card]\n"),
            r"^gpus/test\.yaml:2: a1: nobody shares the name 'card'",
            id="shared name of one entry",
        ),
        pytest.param(
            files(gpus=A1 + B1 + "    shared_names: [Card A1]\n"),
            r"^gpus/test\.yaml:26: b1: the shared name 'carda1' is a1's own",
            id="shared name that is another's own",
        ),
        pytest.param(
            files(gpus=A1.replace('"9.0"', "9.0")),
            r"^gpus/test\.yaml:7: a1: compute_capability: Input should be a valid string",
            id="number where text belongs",
        ),
        pytest.param(
            files(gpus=A1.replace("HBM3", "2024-01-01")),
            r"^gpus/test\.yaml:11: '2024-01-01' is neither clearly text nor clearly a value",
            id="date",
        ),
        pytest.param(
            files(gpus=A1.replace("HBM3", "yes")), r"^gpus/test\.yaml:11: 'yes' is neither", id="yes for true"
        ),
        pytest.param(
            files(gpus=A1.replace("1000", "1e3")),
            r"^gpus/test\.yaml:13: '1e3' is neither",
            id="number without point",
        ),
        pytest.param(files(gpus=A1 + "   x"), r"^gpus/test\.yaml:26: no YAML", id="no YAML"),
        pytest.param(
            files(gpus=A1, formats="- bf16\n"), r"^formats\.yaml:1: a catalog file is a mapping", id="list"
        ),
        pytest.param(
            files(gpus=A1, formats=FORMATS.replace("native}\n    sources", "fast}\n    sources")),
            r"^formats\.yaml:11: formats\.bf16\.support\.9\.0: Input should be",
            id="word that the legend lacks",
        ),
        pytest.param(
            files(gpus=A1, formats=FORMATS.replace('columns: ["9.0"]', 'columns: ["9.0", "10.0"]')),
            r"^formats\.yaml:1: Value error, bf16: its columns and the table's differ in 10\.0",
            id="hole in the matrix",
        ),
        pytest.param(
            files(gpus=A1, notes="a: b\n"), r"^notes\.yaml: no place in the catalog", id="stray file"
        ),
        pytest.param(
            files(gpus=A1, models=MODEL.format(id="org/a") + MODEL.format(id="org/A")),
            r"^models/test\.yaml:11: org/A: org/a at models/test\.yaml:2 answers for org/A too",
            id="model twice",
        ),
        pytest.param(
            files(gpus=A1, models=MODEL.format(id="org/a").replace("name: w", 'name: "w.{0-"')),
            r"^models/test\.yaml:10: org/a: tensors\.0\.name: String should match pattern",
            id="broken pattern",
        ),
        pytest.param(
            files(gpus=A1, models=MODEL.format(id="org/a").replace("revision: null", "revision: main")),
            r"^models/test\.yaml:3: org/a: revision: String should match pattern",
            id="branch for a revision",
        ),
    ],
)
def test_a_broken_rule_names_its_place(texts: dict[str, str], complaint: str) -> None:
    with pytest.raises(CatalogError, match=complaint):
        Catalog.from_yaml_texts(texts)


@pytest.mark.parametrize("missing", ["sources.yaml", "formats.yaml"])
def test_a_missing_file_is_named(missing: str) -> None:
    texts = files(gpus=A1)
    del texts[missing]
    with pytest.raises(CatalogError, match=missing):
        Catalog.from_yaml_texts(texts)


def test_files_merge_by_id_whatever_their_order() -> None:
    texts = files(gpus=B1, gpus__more=f"gpus:\n{A1}")
    there = Catalog.from_yaml_texts(texts)
    back = Catalog.from_yaml_texts(dict(reversed(texts.items())))
    assert [entry.id for entry in there.gpus] == ["a1", "b1"]
    assert there.to_json() == back.to_json()


def test_a_shared_name_of_equal_parts_is_no_question() -> None:
    same = Catalog.from_yaml_texts(files(gpus=A1 + SHARED + B1 + SHARED))
    assert same.find_gpu("card").id == "a1"
    assert [other.id for other in same.namesakes(same.find_gpu("a1"))] == ["b1"]


def test_a_shared_name_of_unequal_parts_is_asked_back() -> None:
    slower = gpu("b1", "Card B1", bandwidth=999)
    catalog = Catalog.from_yaml_texts(files(gpus=A1 + SHARED + slower + SHARED))
    with pytest.raises(AmbiguousGpuError) as raised:
        catalog.find_gpu("CARD")
    assert raised.value.choices == ("a1", "b1")
    assert raised.value.code == "gpu-ambiguous"


@pytest.fixture(scope="module")
def packaged() -> Catalog:
    return load_packaged_catalog()


def test_the_json_that_travels_is_the_same_catalog(packaged: Catalog) -> None:
    text = packaged.to_json()
    again = Catalog.from_json(text)
    assert again == packaged
    assert again.to_json() == text
    assert json.loads(text)["schema_version"] == 1


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{", "Invalid JSON"),
        ('{"schema_version": 2}', "schema_version"),
        ('{"schema_version": 1, "sources": {}, "gpus": [{}]}', r"gpus\.0\.id"),
    ],
)
def test_other_json_is_refused(text: str, complaint: str) -> None:
    with pytest.raises(CatalogError, match=complaint):
        Catalog.from_json(text)


def test_the_folder_is_read_whole() -> None:
    found = set(read_folder(ROOT / "catalog"))
    on_disk = {str(path.relative_to(ROOT / "catalog")) for path in (ROOT / "catalog").rglob("*.yaml")}
    assert found == on_disk
    assert {"sources.yaml", "formats.yaml", "gpus/nvidia.yaml", "models/llama.yaml"} <= found


def test_a_built_catalog_goes_before_the_files(tmp_path: Path) -> None:
    (tmp_path / "sources.yaml").write_text("not: read", encoding="utf-8")
    built = Catalog.from_yaml_texts(files(gpus=A1))
    (tmp_path / "catalog-v1.json").write_text(built.to_json(), encoding="utf-8")
    assert load_catalog(tmp_path) == built
    (tmp_path / "catalog-v1.json").unlink()
    with pytest.raises(CatalogError, match="sources"):
        load_catalog(tmp_path)
