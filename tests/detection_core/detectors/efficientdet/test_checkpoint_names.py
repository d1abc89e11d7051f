"""Names of google/automl's variables; test_network.py compares those of the larger networks."""

import pytest

from detection_core.detectors.efficientdet.checkpoint_names import automl_variables
from detection_core.detectors.efficientdet.network import build_network
from tests.support import efficientdet_goldens as goldens
from tests.support.cases import cases


@cases("efficientdet-d0", "efficientdet-lite0")
def test_variables_are_the_reference_s_and_another_network_is_refused(*, name):
    settings = goldens.settings(name)
    network = build_network(settings, (128, 128), None)
    goldens.assert_variables(name, network, settings)
    with pytest.raises(ValueError, match="class_tower_2"):
        automl_variables(network, goldens.settings(name, box_class_repeats=2))
