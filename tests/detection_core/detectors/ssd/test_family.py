import numpy as np

from detection_core.builders.configured_model import configured_model
from detection_core.config.load import load_pipeline_config
from detection_core.config.messages.extractors import EXTRACTORS
from detection_core.config.num_classes import with_classes
from detection_core.config.paths.overrides import apply_overrides
from detection_core.detectors.base import REGULARIZATION_LOSS
from detection_core.detectors.ssd.family import FAMILY
from detection_core.detectors.ssd.model import CLASSIFICATION_LOSS, LOCALIZATION_LOSS
from tests.support.cases import cases
from tests.support.configs import LAYERS, PYRAMID, RETINA


def test_the_record_names_what_the_family_has():
    assert set(FAMILY.extractor_types) == set(EXTRACTORS)
    assert set(FAMILY.loss_names) == {LOCALIZATION_LOSS, CLASSIFICATION_LOSS, REGULARIZATION_LOSS}


@cases(PYRAMID, LAYERS, RETINA)
def test_the_anchors_are_those_that_the_detector_matches_objects_with(*, path):
    """To the last bit, in their order, without its network."""
    size = {"fixed_shape_resizer": {"height": 150, "width": 200}}
    config = with_classes(apply_overrides(load_pipeline_config(path), {"model.ssd.image_resizer": size}), 3)
    model = configured_model(config)
    np.testing.assert_array_equal(model.anchors(), model.build(seed=None).anchors)
