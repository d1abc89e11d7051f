from tests.support.cases import cases
from tests.support.configs import PYRAMID, assert_fine, assert_problems

MATCHER = "model.ssd.matcher.argmax_matcher"

# Config, what is changed in it, and the paths of the problems that must be found, no more and no fewer.
WRONG = [
    (PYRAMID, {f"{MATCHER}.unmatched_threshold": 0.75}, {f"{MATCHER}.unmatched_threshold"}),
    (
        PYRAMID,
        {f"{MATCHER}.unmatched_threshold": 0.5, f"{MATCHER}.negatives_lower_than_unmatched": False},
        {f"{MATCHER}.negatives_lower_than_unmatched"},
    ),
]


@cases(*WRONG)
def test_a_problem_is_found_where_it_is_and_nowhere_else(*, path, changes, expected):
    assert_problems(path, changes, expected)


def test_thresholds_that_are_ignored_may_be_anything():
    assert_fine(PYRAMID, {f"{MATCHER}.unmatched_threshold": 0.75, f"{MATCHER}.ignore_thresholds": True})
