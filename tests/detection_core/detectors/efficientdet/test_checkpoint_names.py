import numpy as np
import pytest

from detection_core.detectors.efficientdet.checkpoint_names import automl_variables, regularized
from detection_core.detectors.efficientdet.network import build_network
from detection_core.training.object_checkpoint import VARIABLE_SUFFIX
from tests.support import efficientdet_goldens as goldens

NAMES = [
    pytest.param(f"efficientdet-{name}", marks=[] if name in ("d0", "lite0") else pytest.mark.slow)
    for name in ("d0", "lite0", "d1", "d2", "lite1")
]


@pytest.mark.parametrize("name", NAMES)
def test_variables_have_the_reference_s_keys_names_shapes_and_order(name):
    settings, golden = goldens.settings(name), goldens.read_json(name)
    variables = automl_variables(build_network(settings, (128, 128), None), settings)
    found = {
        f"{key}{VARIABLE_SUFFIX}": [list(variable.shape), "float32", own, variable.trainable]
        for key, own, variable in variables
    }
    assert found == {key: rest for key, *rest in golden["variables"]}
    trainable = [own for _, own, variable in variables if variable.trainable]
    assert trainable == golden["trainable_variables_order"]
    assert sum(int(np.prod(found.variable.shape)) for found in variables) == golden["num_parameters"]
    assert len(list(regularized(variables))) == golden["l2_regularised"]["count"]


def test_a_network_that_is_not_ours_is_refused():
    settings = goldens.settings(box_class_repeats=2)
    network = build_network(goldens.settings(), (128, 128), None)
    with pytest.raises(ValueError, match="class_tower_2"):
        automl_variables(network, settings)
