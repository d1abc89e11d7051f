import itertools

import numpy as np

from detection_core.evaluation.coco_matches import match_class
from detection_core.evaluation.coco_metrics import AREA_RANGES, evaluate_coco
from tests.support.cases import cases
from tests.support.coco_goldens import NAMES
from tests.support.evaluated_images import evaluated, random_images


@cases(*range(4))
def test_objects_found_are_those_that_the_engine_counts(*, seed):
    images = random_images(seed)
    result = evaluate_coco(images, NAMES)
    for (place, area), (k, class_) in itertools.product(enumerate(AREA_RANGES), enumerate(result.classes)):
        matches = match_class(images, class_, area)
        recall = result.recall[:, k, place, :]
        if not matches.objects.sum():
            assert (recall == -1).all()
            continue
        found = [matches.hits[:, matches.rank < most].sum(axis=1) for most in (1, 10, 100)]
        np.testing.assert_allclose(np.stack(found, axis=1) / matches.objects.sum(), recall, atol=1e-12)


def test_detections_come_by_falling_score_name_their_image_and_take_the_best_object():
    images = random_images(1)
    matches = match_class(images, 0)
    scores = np.concatenate([i.detections.scores[i.detections.classes == 0] for i in images])
    owners = np.repeat(np.arange(len(images)), [(i.detections.classes == 0).sum() for i in images])
    order = np.argsort(-scores, kind="stable")
    np.testing.assert_array_equal(matches.image, owners[order])
    assert not (matches.hits & matches.ignored).any()
    # Of two objects the first detection takes the one it overlaps most, which leaves the other to the second.
    objects, found = [[0, 0, 0.5, 0.5], [0, 0, 0.5, 0.4]], [[0, 0, 0.5, 0.5], [0, 0, 0.5, 0.31]]
    matches = match_class([evaluated(objects, [0, 0], found, [0.9, 0.8], [0, 0])], 0)
    assert matches.hits.sum(axis=1).tolist() == [2] * 6 + [1] * 4  # its overlap is 0.775
