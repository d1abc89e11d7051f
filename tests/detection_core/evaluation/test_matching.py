import numpy as np
import pytest

from detection_core.evaluation.matching import (
    IN_CROWD,
    NOT_MATCHED,
    best_score_threshold,
    finds_any,
    match_image,
)
from detection_core.evaluation.results import iou_px
from tests.support.coco_goldens import coco_engine
from tests.support.evaluated_images import evaluated, random_boxes, random_images

LEFT, RIGHT = [0.0, 0.0, 0.5, 0.5], [0.5, 0.5, 1.0, 1.0]


def test_overlap_against_a_slow_loop():
    rng = np.random.default_rng(0)
    found, true, crowd = random_boxes(rng, 20), random_boxes(rng, 15), rng.random(15) < 0.3
    overlaps = iou_px(found, true, crowd)
    for d, a in enumerate(found.astype(float)):
        for g, b in enumerate(true.astype(float)):
            height, width = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
            shared = max(height, 0) * max(width, 0)
            area = (a[2] - a[0]) * (a[3] - a[1])
            union = area if crowd[g] else area + (b[2] - b[0]) * (b[3] - b[1]) - shared
            assert overlaps[d, g] == pytest.approx(shared / union, abs=1e-12)


def test_each_object_is_found_once_and_a_score_has_the_best_balance():
    objects, crowd = [LEFT, RIGHT, [0.5, 0, 1, 0.4]], [False, False, True]
    found = [LEFT, LEFT, LEFT, [0.6, 0.1, 0.8, 0.2], RIGHT]
    scores, classes = [0.9, 0.8, 0.7, 0.6, 0.5], [1, 0, 0, 2, 1]
    match = match_image(evaluated(objects, [0, 1, 2], found, scores, classes, crowd=crowd))
    assert match.found_by.tolist() == [NOT_MATCHED, 0, NOT_MATCHED, IN_CROWD, 1]
    some = [LEFT, RIGHT, LEFT, LEFT], [0.9, 0.6, 0.4, 0.3], [0, 0, 0, 0]
    for found, threshold in ((some, 0.6), (([], [], []), 0.5)):
        images = [evaluated([LEFT, RIGHT], [0, 0], *found)]
        assert best_score_threshold(images, [match_image(images[0])]) == pytest.approx(threshold)
    for found, is_found in ((LEFT, True), (RIGHT, False)):
        assert finds_any([match_image(evaluated([LEFT], [0], [found], [0.9], [0]))]) == is_found
    assert best_score_threshold([], []) == 0.5


def test_agrees_with_pycocotools_on_which_detections_are_hits():
    images, hits = random_images(4), {}
    engine = coco_engine(images, dict.fromkeys(range(5), ""))
    for record in engine.evalImgs:
        if record and record["aRng"] == engine.params.areaRng[0]:
            matches, ignored = record["dtMatches"][0], record["dtIgnore"][0]
            for i, m, crowd in zip(record["dtIds"], matches, ignored, strict=True):
                hits[i] = IN_CROWD if crowd else (1 if m else NOT_MATCHED)
    ours = np.concatenate([match_image(image).found_by for image in images])
    expected = np.array([hits[i + 1] for i in range(len(ours))])
    np.testing.assert_array_equal(np.minimum(ours, 1) * (ours < 0) + (ours >= 0), expected)
