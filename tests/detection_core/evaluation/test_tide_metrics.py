"""TIDE's kinds of errors, against its authors' package and by hand.

`tide_metrics.json` has the figures of `tide_images`, as fractions: those of tidecv 1.0.1 with numpy 1.23.5,
from `TIDE().evaluate(...)` in the mode bbox or mask. Its `ap`, the main errors and the special errors are in
the order of `TIDE_METRICS`. Boxes are those of `boxes_xywh`, crowds are its ignore regions.
"""

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detection_core.artifacts.evaluation import (
    BACKGROUND,
    BOTH,
    CLASSIFICATION,
    DUPLICATE,
    LOCALIZATION,
    TIDE_METRICS,
)
from detection_core.evaluation.error_kinds import classify_errors
from detection_core.evaluation.evaluated_split import EvaluatedSplit
from detection_core.evaluation.metric_sets import MetricOptions, compute_metrics, known_metrics
from detection_core.evaluation.results import match_image
from detection_core.evaluation.tide_metrics import evaluate_tide
from tests.support.evaluated_images import DATA, NAMES, evaluated, grid_images, tide_images

GOLDENS = json.loads((DATA / "tide_metrics.json").read_text())
SETS = {"bbox": "tide_metrics", "mask": "tide_mask_metrics"}
LEFT, RIGHT = [0, 0, 1, 0.5], [0, 0.5, 1, 1]


def test_figures_are_those_of_the_authors_package_in_which_each_kind_costs_something():
    for key, expected in GOLDENS.items():
        name, seed, mode = key.split()
        options = MetricOptions(sets=(SETS[mode],))
        for compares_masks in (False, True) if name == "flagged" else (False,):
            images = tuple(tide_images(name, int(seed)))
            split = EvaluatedSplit(images=images, class_names=NAMES, compares_masks=compares_masks)
            found = compute_metrics(split, options)
            assert tuple(found)[12:] == TIDE_METRICS[SETS[mode]]
            assert set(found) <= set(known_metrics(options, NAMES))
            values = list(found.values())[12:]
            np.testing.assert_allclose(values, expected, rtol=0, atol=1e-9, err_msg=key)
    for mode in SETS:
        rows = np.array([row for key, row in GOLDENS.items() if key.endswith(mode)])
        assert (rows.max(axis=0) > 0.001).all(), mode


def kinds_of(*found, objects=((LEFT, 0),), crowd=None):
    """Return the kinds of errors of boxes with classes, best first, and the objects that were meant."""
    boxes, classes = zip(*found, strict=True)
    scores = np.linspace(0.9, 0.5, len(found))
    image = evaluated(*zip(*objects, strict=True), boxes, scores, classes, height=100, width=200, crowd=crowd)
    return tuple(values.tolist() for values in classify_errors(image, match_image(image)))


def test_a_detection_has_one_kind_of_error():
    near, far = [0, 0, 0.3, 0.5], [0, 0, 0.05, 0.5]  # of LEFT: overlaps of 0.3 and 0.05
    for box, label, expected in (
        (near, 0, LOCALIZATION), (LEFT, 1, CLASSIFICATION), (LEFT, 0, DUPLICATE), (near, 1, BOTH),
        (far, 0, BACKGROUND), (far, 1, BACKGROUND), (RIGHT, 0, BACKGROUND),
    ):  # fmt: skip
        assert kinds_of((LEFT, 0), (box, label))[0] == ["", expected]
    # A bad place in an object of its class is that, whatever else is there.
    both = kinds_of((near, 0), objects=((LEFT, 0), (near, 1)))
    assert both == ([LOCALIZATION], [0])
    other = kinds_of((near, 0), objects=((RIGHT, 0), (near, 1)))
    assert other == ([CLASSIFICATION], [1])
    assert kinds_of((LEFT, 1), crowd=[True])[0] == [BACKGROUND], "a crowd is no object"
    alone = evaluated([], [], [LEFT], [0.9], [0])
    assert classify_errors(alone, match_image(alone))[0].tolist() == [BACKGROUND]


def errors_of(*images, **fields):
    split = EvaluatedSplit(images=images, class_names=NAMES, **fields)
    return dict(zip(TIDE_METRICS["tide_metrics"], evaluate_tide(split, masks=False), strict=True))


def gains(found):
    return {name.split("/")[-1]: value for name, value in found.items() if value and "dAP" in name}


def test_a_correction_gains_what_the_error_cost_and_an_image_has_at_most_100_detections():
    near = [0, 0, 0.3, 0.5]
    for box, label, expected in (
        (LEFT, 0, {}), (LEFT, 1, {CLASSIFICATION: 1.0}), (near, 0, {LOCALIZATION: 1.0}),
    ):  # fmt: skip
        found = errors_of(evaluated([LEFT], [0], [box], [0.9], [label]))
        own = {kind: found[f"TIDEBoxes_dAP@.50IOU/{kind}"] for kind in expected}
        assert own == pytest.approx(expected) and "missed" not in gains(found)
    # Of two errors about one object the one with the higher score is corrected, the other does not help.
    found = errors_of(evaluated([LEFT], [0], [LEFT, near], [0.9, 0.8], [1, 0]))
    assert gains(found) == {CLASSIFICATION: pytest.approx(1.0)}
    found = gains(errors_of(evaluated([LEFT, RIGHT], [0, 0], [LEFT], [0.9], [0])))
    assert found == pytest.approx(dict.fromkeys(("missed", "false_negatives"), 50 / 101))
    nothing = errors_of(evaluated([], [], [], [], []))
    assert all(math.isnan(value) for value in nothing.values())
    boxes = [RIGHT] * 100 + [LEFT]
    found = errors_of(evaluated([LEFT], [0], boxes, np.linspace(0.9, 0.1, 101), [0] * 101))
    assert found["TIDEBoxes_Precision/mAP@.50IOU"] == 0.0 and gains(found) == {}


@given(data=st.data())
@settings(max_examples=10, deadline=None)
def test_without_equal_scores_the_order_of_images_does_not_matter(data):
    images = grid_images(data.draw(st.integers(0, 5)))[:30]
    rng = np.random.default_rng(0)
    for image in images:
        count = len(image.detections.scores)
        image.detections.scores[:] = np.sort(rng.random(count))[::-1]
    shuffled = data.draw(st.permutations(images))
    assert errors_of(*images) == pytest.approx(errors_of(*shuffled), nan_ok=True)
