import numpy as np

from detection_core.builders.matchers import MATCHERS, build_matcher
from detection_core.protos.matcher_pb2 import Matcher
from tests.support.cases import cases
from tests.support.configs import parsed
from tests.support.golden_cases import cases_of

CASES = cases_of("detection_core/detectors/parts/matchers", "matchers").values()
MATCHED = [case for case in CASES if "match_results" in case.outputs]


def _expected(case, valid):
    results = case.outputs["match_results"]
    if not case.config.startswith("bipartite"):
        return results
    # The reference permutes rows, valid ones first, and gives places in that order; ours are rows.
    rows = np.argsort(~valid, kind="stable")
    return np.where(results >= 0, rows[np.maximum(results, 0)], results)


@cases(*MATCHED)
def test_golden(*, case):
    similarity = case.inputs["similarity"]
    valid = case.inputs.get("valid_rows", np.ones(len(similarity), bool))
    found = build_matcher(parsed(Matcher, case.config)).match(similarity[np.newaxis], valid[np.newaxis])
    np.testing.assert_array_equal(found[0], _expected(case, valid))


def test_every_arm_has_a_golden():
    assert {case.config.split()[0] for case in MATCHED} == set(MATCHERS)
