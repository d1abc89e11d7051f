from tests.support.configs import PYRAMID, assert_each_refused, assert_fine, assert_problems

MATCHER = "model.ssd.matcher.argmax_matcher"
UNMATCHED, LOWER = f"{MATCHER}.unmatched_threshold", f"{MATCHER}.negatives_lower_than_unmatched"


def test_thresholds_leave_room_between_them_unless_they_are_ignored():
    assert_each_refused(PYRAMID, {UNMATCHED: 0.75})
    assert_problems(PYRAMID, {UNMATCHED: 0.5, LOWER: False}, {LOWER})
    assert_fine(PYRAMID, {UNMATCHED: 0.75, f"{MATCHER}.ignore_thresholds": True})
