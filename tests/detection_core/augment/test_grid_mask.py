import numpy as np
import tensorflow as tf

from detection_core.augment.grid_mask import GridMask, centre_of, turned
from detection_core.ops.objects import new_truth
from detection_core.structures import Sample
from tests.support.cases import cases
from tests.support.golden_cases import load_cases

CASES = load_cases(__file__, "automl")
SEED = tf.constant([3, 4], tf.int64)


def _sample(height=40, width=56):
    truth = new_truth(tf.constant([[0.1, 0.1, 0.5, 0.5]]), tf.zeros([1], tf.int32))
    return Sample(tf.fill([height, width, 3], 200.0), truth, tf.constant(""))


@cases(*[name for name in CASES if name.startswith("gridmask_grid")])
def test_golden_grid(*, name):
    case = CASES[name]
    mask = GridMask(ratio=case.params.get("ratio", 0.6))
    period, *others = case.params["draws"]
    draws = [period, *others] if len(others) == 3 else [period, 0.0, *others]
    size = tf.constant([case.params["h"], case.params["w"]])
    found = mask.mask(size, tf.constant(draws))
    np.testing.assert_array_equal(found, case.outputs["mask"])
    np.testing.assert_array_equal(centre_of(found, size), case.outputs["centre_crop"])


def test_some_images_lose_squares_as_the_defaults_say_and_keep_their_objects():
    theirs = CASES["gridmask_defaults"].facts["fact"]["pipeline_function"]
    ours = GridMask()
    assert (ours.threshold, ours.ratio, ours.rotate) == (theirs["prob"], theirs["ratio"], theirs["rotate"])
    assert ours.gridmask_size_ratio == theirs["gridmask_size_ratio"]
    mask = GridMask().mask(tf.constant([40, 56]), tf.constant([0.0, 0.0, 0.2, 0.7]))
    np.testing.assert_array_equal(turned(mask, tf.constant(0.0)), mask)
    assert not np.array_equal(turned(mask, tf.constant(15.0)), mask)
    step = tf.function(GridMask())
    images = [step(_sample(), tf.constant([i, 0], tf.int64)).image.numpy() for i in range(60)]
    black = np.array([(image == 0).any() for image in images])
    assert all(set(np.unique(image)) <= {0.0, 200.0} for image in images)
    assert 0.5 < black.mean() < 0.86  # a standard normal draw is below 0.5 in 69 % of cases
    np.testing.assert_array_equal(step(_sample(), SEED).truth.boxes, _sample().truth.boxes)
    for side in (1, 2, 3, 5):
        assert GridMask(threshold=9.0)(_sample(side, side), SEED).image.shape == (side, side, 3)
