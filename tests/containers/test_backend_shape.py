"""The checks of `tests/kubeflow/test_backend_shape.py` on the image, the way a cluster starts it."""

import pytest

from tests.kubeflow.test_backend_shape import *  # noqa: F403
from tests.kubeflow.test_backend_shape import data  # noqa: F401

pytestmark = [pytest.mark.docker, pytest.mark.timeout(300)]
