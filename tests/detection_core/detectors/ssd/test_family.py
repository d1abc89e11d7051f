import types

import numpy as np

from detection_core.config.messages.extractors import EXTRACTORS
from detection_core.detectors.base import REGULARIZATION_LOSS
from detection_core.detectors.ssd.family import FAMILY
from detection_core.detectors.ssd.model import CLASSIFICATION_LOSS, LOCALIZATION_LOSS


def test_the_record_names_what_the_family_has():
    assert set(FAMILY.extractor_types) == set(EXTRACTORS)
    assert set(FAMILY.loss_names) == {LOCALIZATION_LOSS, CLASSIFICATION_LOSS, REGULARIZATION_LOSS}


def test_the_anchors_are_those_that_the_detector_matches_objects_with():
    anchors = np.asarray([[0.0, 0.0, 0.5, 0.5]], np.float32)
    detector = types.SimpleNamespace(anchors=anchors)
    assert FAMILY.anchors(detector) is anchors
