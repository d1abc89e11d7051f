"""Training on images of several sizes, with one set of weights."""

import numpy as np
import tensorflow as tf

from detection_core.training.scales import Scales, resized
from tests.detection_core.training.runs import assert_equal, train
from tests.support.tiny_model import TinyModel, make_dataset


def test_a_size_stays_for_its_steps_and_depends_on_the_seed_and_the_step_alone():
    def drawn(seed):
        scales = Scales(TinyModel(), [0, 1, 2], seed=seed, steps_per_scale=4)
        return [scales.losses(step) for step in range(80)]

    turns = np.reshape(drawn(1), (20, 4))
    assert np.all(turns == turns[:, :1])
    assert set(turns[:, 0]) == {0, 1, 2}
    assert drawn(1) == drawn(1) != drawn(2)
    scales = Scales(TinyModel(), [0], seed=0, steps_per_scale=4)
    assert [scales.steps_until_next(step) for step in range(6)] == [4, 3, 2, 1, 4, 3]


def test_what_is_normalised_stays_and_pixels_and_masks_follow():
    (batch,) = make_dataset(0, batch_size=2).take(1)
    masks = np.zeros((2, 1, 8, 8), np.uint8)
    masks[0, :, :, 4:] = 1
    truth = batch.truth._replace(masks=tf.constant(masks))
    images = batch.images._replace(true_sizes=tf.constant([[8, 8], [4, 6]]))
    found = resized(batch._replace(truth=truth, images=images), (16, 4))
    assert found.images.pixels.shape == (2, 16, 4, 3)
    assert found.images.true_sizes.numpy().tolist() == [[16, 4], [8, 3]]
    expected = np.zeros((2, 1, 16, 4), np.uint8)
    expected[0, :, :, 2:] = 1
    np.testing.assert_array_equal(found.truth.masks, expected)
    assert found.truth.masks.dtype == tf.uint8
    np.testing.assert_array_equal(found.truth.boxes, batch.truth.boxes)
    whole = resized(batch, (16, 16))
    assert whole.truth.masks.shape == (2, 1, 0, 0)
    assert abs(float(tf.reduce_mean(whole.images.pixels) - tf.reduce_mean(batch.images.pixels))) < 1


def test_training_goes_through_the_sizes_and_on_as_if_never_stopped(tmp_path):
    """Another size is another network; here the same one at two of its own makes."""

    def trained(folder, steps):
        model, used = TinyModel(), []

        def at(size):
            def losses(batch, training):
                used.append(size)
                return model.losses(resized(resized(batch, (size, size)), (8, 8)), training)

            return losses

        scales = Scales(model, [at(8), at(4)], seed=3, steps_per_scale=2)
        train(scales, tmp_path / folder, num_steps=steps, checkpoint_every=3, log_every=10)
        return model.variables, used

    whole, used = trained("whole", 12)
    assert set(used) == {4, 8} and len(used) < 5  # traced, not called
    trained("again", 5)
    again, _ = trained("again", 12)
    assert_equal(whole, again, 0, 0)
