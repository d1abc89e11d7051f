from __future__ import annotations

import pytest

from tests.kubeflow.executor_input import Cluster


@pytest.fixture
def cluster(tmp_path):
    return Cluster(root=tmp_path / "cluster")
