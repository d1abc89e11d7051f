from __future__ import annotations

import numpy as np

from detection_core.detectors.parts.anchors.choice import (
    Candidate,
    aspect_ratios,
    choose_anchors,
    sample,
    scales_and_ratios,
    to_pixels,
)
from detection_core.detectors.parts.anchors.coverage import AnchorMap


def anchors(*sides):
    """Square anchors on a map of 10 x 10 cells of 8 pixels."""
    sizes = [(float(side), float(side)) for side in sides]
    return [AnchorMap(shape=(10, 10), stride=(8.0, 8.0), offset=(4.0, 4.0), sizes=sizes)]


def squares(side, count=100):
    corners = np.random.default_rng(0).uniform(0, 80 - side, (count, 2))
    return np.concatenate([corners, corners + side], axis=1)


def test_anchors_that_match_more_are_taken():
    given, better = Candidate({}, anchors(8)), Candidate({"side": 30}, anchors(30))
    fit = choose_anchors(given, [better], squares(30), keep_count=True)
    assert (fit.changes, fit.default, fit.fitted, fit.anchors) == ({"side": 30}, 0.0, 1.0, 100)


def test_a_further_anchor_that_matches_nothing_more_is_not_laid():
    given, more = Candidate({}, anchors(30)), Candidate({"sides": [30, 60]}, anchors(30, 60))
    assert choose_anchors(given, [more], squares(30), keep_count=False).changes == {}


def test_where_the_count_stays_more_anchors_are_no_choice():
    given, more = Candidate({}, anchors(8)), Candidate({"sides": [8, 30]}, anchors(8, 30))
    assert choose_anchors(given, [more], squares(30), keep_count=True).changes == {}
    assert choose_anchors(given, [more], squares(30), keep_count=False).fitted == 1.0


def test_boxes_are_tried_on_some_thousands_of_them():
    assert len(sample(np.zeros((10, 4)))) == 10 and len(sample(np.zeros((10_000, 4)))) < 4_000
    np.testing.assert_array_equal(to_pixels(np.array([[0, 0.5, 1, 1]]), (10, 20)), [[0, 10, 10, 20]])


def test_ratios_are_those_of_the_boxes_and_others_beside_them():
    wide = np.tile([[0.0, 0.0, 10.0, 30.0]], (50, 1))
    assert aspect_ratios(wide, 1) == [3.0]
    assert aspect_ratios(wide, 3) == [2.0, 3.0, 4.5]
    tried = list(scales_and_ratios(wide, 2))
    assert {octave for _, octave, _ in tried} == {1, 2, 3} and tried[0][0] == 1.0
