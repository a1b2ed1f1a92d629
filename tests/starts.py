"""One planned start, as tests of the memory arithmetic ask for it."""

from willitserve.assess import Assessment, Subject, assess
from willitserve.catalog import Catalog
from willitserve.plan import find_engine
from willitserve.request import read_query


def planned_start(catalog: Catalog, subject: Subject, gpu: str, **query: str) -> Assessment:
    """What the core computes for a model on a card; `query` are the keys of the page."""
    request = read_query({"model": "a/model", "gpu": gpu, **query})
    assert request.problems == ()
    engine = find_engine(catalog, request.engine)
    return assess(catalog, subject, request, catalog.find_gpu(gpu), engine)
