import numpy as np
import tensorflow as tf

from detection_core.augment import patches
from detection_core.ops.objects import new_truth
from detection_core.structures import Sample
from tests.support.cases import cases
from tests.support.golden_cases import load_cases

CASES = load_cases(__file__, "autoaugment")
IMAGE, BOXES = (tf.constant(CASES["input"].inputs[name]) for name in ("image", "boxes"))
SIZE = tf.shape(IMAGE)[:2]
SEED = tf.constant([3, 4], tf.int64)


@cases(*[n for n in CASES if n.startswith(("cutout", "bbox_cutout"))])
def test_golden_cutout(*, name):
    given = CASES[name].params
    if name.startswith("bbox"):
        which, *draws = given["draws"]
        box, share = BOXES[int(which * len(BOXES))], tf.constant(given["pad_fraction"])
        found = patches.cut_out_of_box(IMAGE, box, share, tf.constant(draws))
    else:
        centre = tf.cast(tf.constant(given["draws"]) * tf.cast(SIZE, tf.float32), tf.int32)
        found = patches.fill_square(IMAGE, centre, tf.fill([2], given["pad_size"]))
    np.testing.assert_array_equal(found, CASES[name].outputs["image"])


def _sample(boxes, masks=True):
    count = len(boxes)
    planes = tf.ones([count, 40, 56], tf.uint8) if masks else tf.zeros([count, 0, 0], tf.uint8)
    boxes = tf.constant(boxes, tf.float32, [count, 4])
    truth = new_truth(boxes, tf.zeros([count], tf.int32), masks=planes)
    return Sample(IMAGE, truth, tf.constant(""))


def test_cuts_lie_anywhere_in_the_image_and_in_boxes_that_are_changed_by_chance():
    seeds = [tf.constant([i, 0], tf.int64) for i in range(6)]
    cut = [patches.cut_out(IMAGE, tf.constant(3), seed).numpy() for seed in seeds]
    changed = [(image != IMAGE.numpy()).any(-1) for image in cut]
    assert all(6 <= c.sum() <= 36 for c in changed) and len({c.tobytes() for c in changed}) > 3
    found = patches.cut_out_of_any_box(_sample([[0.5, 0.5, 0.9, 0.9]]), tf.constant(0.5), SEED)
    assert (np.asarray(found.image) != np.asarray(IMAGE)).any()
    empty = patches.cut_out_of_any_box(_sample([]), tf.constant(0.5), SEED)
    np.testing.assert_array_equal(empty.image, IMAGE)
    sample = _sample([[0.0, 0.0, 0.2, 0.2], [0.5, 0.5, 0.7, 0.7]])

    def changed(chance, number):
        seed = tf.constant([number, 4], tf.int64)
        return patches.change_boxes(sample, BLACK, tf.constant(chance), seed).image

    np.testing.assert_array_equal(changed(0.0, 3), IMAGE)
    taken = {tuple(changed(0.5, i).numpy()[[2, 22], [2, 32]].any(axis=1)) for i in range(12)}
    assert len(taken) >= 3


BLACK = patches.BoxChange(lambda part, _: tf.zeros_like(part), tf.zeros_like)


@cases(True, False)
def test_pixels_and_masks_of_a_box_change_together_and_nothing_else(*, masks):
    sample = _sample([[0.1, 0.2, 0.5, 0.6], [0.9, 0.9, 1.0, 1.0]], masks)
    found = patches.change_boxes(sample, BLACK, tf.constant(1.0), SEED)
    inside = np.zeros((40, 56), bool)
    inside[4:21, 11:34] = inside[36:, 50:] = True
    np.testing.assert_array_equal(found.image, np.where(inside[..., None], 0, IMAGE))
    if masks:
        np.testing.assert_array_equal(found.truth.masks, np.stack([~inside, ~inside]))
    np.testing.assert_array_equal(found.truth.boxes, sample.truth.boxes)
