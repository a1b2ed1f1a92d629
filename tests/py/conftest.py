"""What many tests ask for: the packaged catalog and models of it, read once."""

from collections.abc import Callable
from functools import cache

import pytest
from hypothesis import settings

from willitserve.assess import Subject
from willitserve.catalog import Catalog
from willitserve.catalog_files import load_packaged_catalog
from willitserve.plan import Model
from willitserve.reading import from_catalog

# A busy machine is no failure: no example is timed.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


@pytest.fixture(scope="session")
def catalog() -> Catalog:
    """The catalog of this checkout."""
    return load_packaged_catalog()


@pytest.fixture(scope="session")
def model_of(catalog: Catalog) -> Callable[[str], Model]:
    """A catalog model by id, through the code that live headers take."""

    @cache
    def model_of(model_id: str) -> Model:
        entry = catalog.find_model(model_id)
        assert entry is not None, f"{model_id} is not in the catalog"
        return from_catalog(entry, model_id)

    return model_of


@pytest.fixture(scope="session")
def subject_of(model_of: Callable[[str], Model]) -> Callable[[str], Subject]:
    """The same, understood well enough to plan with."""

    def subject_of(model_id: str) -> Subject:
        subject = model_of(model_id).subject
        assert subject is not None, model_of(model_id).facts.source_sentence
        return subject

    return subject_of
