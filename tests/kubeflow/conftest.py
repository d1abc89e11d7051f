import pytest

from tests.support.executor_input import Cluster


@pytest.fixture(params=[False, True], ids=["2.x", "3.0"])
def cluster(request, tmp_path):
    """The places of a cluster, with driver and launcher before and after ML Metadata."""
    return Cluster(root=tmp_path / "cluster", in_process=True, keeps_tasks=request.param)
