import functools

import numpy as np
import pytest

from detection_core.builders import post_processing
from detection_core.protos import post_processing_pb2
from tests.support.cases import cases, config_refused
from tests.support.configs import parsed
from tests.support.golden_cases import cases_of

CASES = cases_of("detection_core/ops", "nms")
CONVERTED = [case for case in CASES.values() if "logits" in case.inputs]
REFUSED = [case for case in CASES.values() if case.name.startswith("builder_error")]
_message = functools.partial(parsed, post_processing_pb2.PostProcessing)


@cases(*CONVERTED)
def test_golden_score_conversion(*, case):
    found = post_processing.build_score_converter(_message(case.config))(case.inputs["logits"])
    np.testing.assert_allclose(found, case.outputs["scores"], rtol=1e-4, atol=1e-5)


def test_every_activation_has_a_golden():
    activations = set(post_processing.SCORE_ACTIVATIONS)
    assert {_message(case.config).score_converter for case in CONVERTED} == activations
    assert activations == set(post_processing_pb2.PostProcessing.ScoreConverter.values())


OPTIONS = {
    "score_threshold": "score_thresh", "iou_threshold": "iou_thresh", "soft_nms_sigma": "soft_nms_sigma",
    "max_detections_per_class": "max_size_per_class", "max_total_detections": "max_total_size",
    "class_agnostic": "use_class_agnostic_nms", "change_coordinate_frame": "change_coordinate_frame",
}  # fmt: skip


def test_golden_options_and_refusals_and_hard_suppression_beats_sigma():
    for name in ("builder_defaults", "builder_typical"):
        found = post_processing.build_post_processing(_message(CASES[name].config)).nms
        for ours, theirs in OPTIONS.items():
            assert getattr(found, ours) == pytest.approx(CASES[name].facts["keywords"][theirs]), ours
    for case in REFUSED:
        message, build = _message(case.config), post_processing.build_post_processing
        config_refused("batch_non_max_suppression", build, message)
    message = parsed(post_processing_pb2.BatchNonMaxSuppression, "use_hard_nms: true soft_nms_sigma: 0.5")
    assert post_processing.build_nms_options(message).soft_nms_sigma == 0.0
