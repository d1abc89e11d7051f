import numpy as np
import pytest
from google.protobuf import text_format

from detection_core.builders.similarity import SIMILARITIES, build_similarity
from detection_core.errors import ConfigError
from detection_core.protos import region_similarity_calculator_pb2
from tests.detection_core.ops import test_iou
from tests.support.cases import cases
from tests.support.golden_cases import GoldenCase, load_cases

CASES = load_cases(test_iou.__file__, "region_similarity")
BUILT = [case for case in CASES.values() if case.config]


def _build(text: str):
    message = region_similarity_calculator_pb2.RegionSimilarityCalculator()
    return build_similarity(text_format.Parse(text, message))


@cases(*BUILT)
def test_golden(*, case: GoldenCase):
    found = _build(case.config)(case.inputs["boxes1"], case.inputs["boxes2"]).numpy()
    # Ground truth has score 1; the golden's rows have scores of their own.
    scores = case.inputs.get("scores_of_boxes1", np.ones(len(found), np.float32))
    # The reference divides by the area of an empty box, 0 / 0; ours shares nothing with it.
    expected = np.nan_to_num(case.outputs["similarity"], nan=0.0)
    np.testing.assert_allclose(found * scores[:, np.newaxis], expected, rtol=1e-5, atol=1e-5)


def test_every_arm_has_a_golden():
    assert {case.config.split()[0] for case in BUILT} == set(SIMILARITIES)


def test_none_set():
    assert CASES["unknown_error"].error
    with pytest.raises(ConfigError, match="iou_similarity"):
        _build("")
