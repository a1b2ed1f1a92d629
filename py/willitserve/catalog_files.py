"""The catalog that is packaged with the code. The only catalog module that opens files: the doors use it, the
core does not."""

from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path

from willitserve.catalog import Catalog
from willitserve.errors import CatalogError

_DATA_PACKAGE = "willitserve.catalog_data"
_JSON_NAME = "catalog-v1.json"
_FOLDERS = ("gpus", "engines", "models")


def load_packaged_catalog() -> Catalog:
    """The catalog beside the code: that of the installed package, or of the source checkout.

    Raises
        CatalogError: there is no catalog, or it breaks a rule.
    """
    return load_catalog(_data_folder())


def load_catalog(folder: Traversable) -> Catalog:
    """The catalog of a folder: its built JSON if there is one, else its YAML files.

    Raises
        CatalogError: it breaks a rule.
    """
    built = folder / _JSON_NAME
    if built.is_file():
        return Catalog.from_json(built.read_text("utf-8"))
    return Catalog.from_yaml_texts(read_folder(folder))


def read_folder(folder: Traversable) -> dict[str, str]:
    """The YAML files of a `catalog/` folder, path below it -> text, as `Catalog.from_yaml_texts` takes
    them."""
    texts = {item.name: item.read_text("utf-8") for item in folder.iterdir() if item.name.endswith(".yaml")}
    for name in _FOLDERS:
        if (folder / name).is_dir():
            for item in (folder / name).iterdir():
                if item.name.endswith(".yaml"):
                    texts[f"{name}/{item.name}"] = item.read_text("utf-8")
    return texts


def _data_folder() -> Traversable:
    try:
        return resources.files(_DATA_PACKAGE)
    except ModuleNotFoundError:
        # A source checkout: the package is mapped to the folder beside py/.
        checkout = Path(__file__).resolve().parents[2] / "catalog"
        if not (checkout / "sources.yaml").is_file():
            raise CatalogError(
                f"There is no catalog: neither the package {_DATA_PACKAGE} nor {checkout}.",
                hint="Install with `pip install .`, or run from a whole checkout.",
            ) from None
        return checkout
