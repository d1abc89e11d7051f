import pytest
import tf_keras

from detection_core.builders.detector import build_detector
from detection_core.detectors.ssd.checkpoint_names.object_keys import object_keys
from detection_core.errors import ModelError
from detection_core.training.object_checkpoint import VARIABLE_SUFFIX
from tests.support.golden_networks import NAMES, load_golden


@pytest.mark.parametrize("name", NAMES)
def test_every_variable_has_the_key_and_shape_of_the_reference(name):
    golden = load_golden(name)
    found = object_keys(build_detector(golden.message, seed=None).network)
    wanted = {f"{path}{VARIABLE_SUFFIX}": tuple(shape) for path, shape in golden.facts["variables"].items()}
    assert {key: tuple(variable.shape) for key, variable in found.items()} == wanted


def test_a_layer_of_another_network_is_refused():
    inputs = tf_keras.Input((8, 8, 3))
    network = tf_keras.Model(inputs, tf_keras.layers.Conv2D(4, 1, name="somebody")(inputs))
    with pytest.raises(ModelError, match="found 'somebody'"):
        object_keys(network)
