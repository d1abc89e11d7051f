import pytest

from tests.support.executor_input import Cluster


@pytest.fixture
def cluster(tmp_path):
    return Cluster(root=tmp_path / "cluster", in_process=True)
