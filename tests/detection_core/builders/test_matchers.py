import numpy as np
import pytest
from google.protobuf import text_format

from detection_core.builders.matchers import MATCHERS, build_matcher
from detection_core.errors import ConfigError
from detection_core.protos import matcher_pb2
from tests.detection_core.detectors.parts.matchers import test_argmax
from tests.support.cases import cases
from tests.support.golden_cases import GoldenCase, load_cases

CASES = load_cases(test_argmax.__file__, "matchers")
MATCHED = [case for case in CASES.values() if "match_results" in case.outputs]


def _build(text: str):
    return build_matcher(text_format.Parse(text, matcher_pb2.Matcher()))


def _expected(case: GoldenCase, valid: np.ndarray) -> np.ndarray:
    results = case.outputs["match_results"]
    if not case.config.startswith("bipartite"):
        return results
    # The reference permutes rows, valid ones first, and gives places in that order; ours are rows.
    rows = np.argsort(~valid, kind="stable")
    return np.where(results >= 0, rows[np.maximum(results, 0)], results)


@cases(*MATCHED)
def test_golden(*, case: GoldenCase):
    similarity = case.inputs["similarity"]
    valid = case.inputs.get("valid_rows", np.ones(len(similarity), bool))
    found = _build(case.config).match(similarity[np.newaxis], valid[np.newaxis])
    np.testing.assert_array_equal(found[0], _expected(case, valid))


def test_every_arm_has_a_golden():
    assert {case.config.split()[0] for case in MATCHED} == set(MATCHERS)


@cases(
    ("", "empty_matcher"),
    (
        "argmax_matcher { matched_threshold: 0.3 unmatched_threshold: 0.5 }",
        "argmax_constructor_unmatched_above_matched",
    ),
    (
        "argmax_matcher { negatives_lower_than_unmatched: false }",
        "argmax_constructor_equal_thresholds_and_not_negatives_lower",
    ),
)
def test_refusals(*, text, golden):
    assert CASES[golden].error
    with pytest.raises(ConfigError):
        _build(text)
