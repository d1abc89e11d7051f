import pytest

from detection_core.zoo.cache import CACHE_VARIABLE, MIRROR_VARIABLE
from pipeline.init.plan import Request, make_plan
from tests.pipeline.init.looked_at import LAPTOP
from tests.support.dataset_files import Coco


@pytest.fixture(autouse=True)
def no_network(tmp_path, monkeypatch):
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setenv(MIRROR_VARIABLE, str(tmp_path / "mirror"))


@pytest.fixture
def data(tmp_path):
    """A data set that is not written yet."""
    return Coco(tmp_path / "data", images=60)


@pytest.fixture
def planned(data):
    """What is planned for the data set, or for another folder."""

    def planned(folder="", **request):
        return make_plan(Request(data=str(folder or data.write()), folder="mine", **request), LAPTOP)

    return planned
