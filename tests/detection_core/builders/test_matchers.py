"""Matchers of a config."""

import numpy as np

from detection_core.builders.matchers import MATCHERS, build_matcher
from detection_core.errors import ConfigError
from detection_core.protos.matcher_pb2 import Matcher
from tests.support.cases import cases, refused
from tests.support.configs import parsed
from tests.support.golden_cases import GoldenCase, cases_of

CASES = cases_of("detection_core/detectors/parts/matchers", "matchers")
MATCHED = [case for case in CASES.values() if "match_results" in case.outputs]


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
    found = build_matcher(parsed(Matcher, case.config)).match(similarity[np.newaxis], valid[np.newaxis])
    np.testing.assert_array_equal(found[0], _expected(case, valid))


def test_every_arm_has_a_golden():
    assert {case.config.split()[0] for case in MATCHED} == set(MATCHERS)


CONSTRUCTOR = "argmax_constructor"


@cases(
    ("", "empty_matcher"),
    (
        "argmax_matcher { matched_threshold: 0.3 unmatched_threshold: 0.5 }",
        f"{CONSTRUCTOR}_unmatched_above_matched",
    ),
    (
        "argmax_matcher { negatives_lower_than_unmatched: false }",
        f"{CONSTRUCTOR}_equal_thresholds_and_not_negatives_lower",
    ),
)
def test_what_the_reference_refuses_is_refused(*, text, golden):
    assert CASES[golden].error
    refused(ConfigError, "", build_matcher, parsed(Matcher, text))
