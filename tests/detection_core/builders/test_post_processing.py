"""Post-processing of a config."""

import functools

import numpy as np
import pytest

from detection_core.builders.post_processing import (
    SCORE_ACTIVATIONS,
    build_nms_options,
    build_post_processing,
    build_score_converter,
)
from detection_core.errors import ConfigError
from detection_core.protos import post_processing_pb2
from tests.support.cases import cases, refused
from tests.support.configs import parsed
from tests.support.golden_cases import GoldenCase, cases_of

CASES = cases_of("detection_core/ops", "nms")
CONVERTED = [case for case in CASES.values() if "logits" in case.inputs]
REFUSED = [case for case in CASES.values() if case.name.startswith("builder_error")]
_message = functools.partial(parsed, post_processing_pb2.PostProcessing)


@cases(*CONVERTED)
def test_golden_score_conversion(*, case: GoldenCase):
    found = build_score_converter(_message(case.config))(case.inputs["logits"])
    np.testing.assert_allclose(found, case.outputs["scores"], rtol=1e-4, atol=1e-5)


def test_every_activation_has_a_golden():
    assert {_message(case.config).score_converter for case in CONVERTED} == set(SCORE_ACTIVATIONS)
    assert set(SCORE_ACTIVATIONS) == set(post_processing_pb2.PostProcessing.ScoreConverter.values())


@cases("builder_defaults", "builder_typical")
def test_golden_options(*, name):
    found = build_post_processing(_message(CASES[name].config)).nms
    facts = CASES[name].facts["keywords"]
    assert found.score_threshold == pytest.approx(facts["score_thresh"])
    assert found.iou_threshold == pytest.approx(facts["iou_thresh"])
    assert found.max_detections_per_class == facts["max_size_per_class"]
    assert found.max_total_detections == facts["max_total_size"]
    assert found.class_agnostic == facts["use_class_agnostic_nms"]
    assert found.soft_nms_sigma == facts["soft_nms_sigma"]
    assert found.change_coordinate_frame == facts["change_coordinate_frame"]


@cases(*REFUSED)
def test_golden_refusals(*, case: GoldenCase):
    refused(ConfigError, "batch_non_max_suppression", build_post_processing, _message(case.config))


def test_refusals_name_the_field_and_hard_suppression_beats_sigma():
    for field, value in (("score_threshold", -1), ("max_detections_per_class", 0)):
        with pytest.raises(ConfigError) as caught:
            build_nms_options(parsed(post_processing_pb2.BatchNonMaxSuppression, f"{field}: {value}"))
        assert caught.value.where == f"batch_non_max_suppression.{field}"
    refused(ConfigError, "logit_scale", build_score_converter, _message("logit_scale: 0"))
    message = parsed(post_processing_pb2.BatchNonMaxSuppression, "use_hard_nms: true soft_nms_sigma: 0.5")
    assert build_nms_options(message).soft_nms_sigma == 0.0
