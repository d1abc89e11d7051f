import numpy as np
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from detection_core.augment.framing import in_larger_frame, joined_objects, place
from tests.detection_core.augment.mixing_samples import BOXES_PX, SIZES, bounds, shining

OFFSETS = st.tuples(st.integers(-70, 70), st.integers(-70, 70))


@settings(max_examples=60, deadline=None)
@given(SIZES, BOXES_PX, st.sampled_from([0.5, 1.0, 1.6]), OFFSETS, SIZES)
def test_boxes_masks_and_keypoints_are_where_the_pixels_are(size, box, factor, offset, frame):
    scaled = tf.constant([int(side * factor) for side in size])
    sample = shining(size, box, masks=True)
    found = place(sample, scaled=scaled, offset=tf.constant(offset), frame=tf.constant(frame))
    assert found.image.shape == (*frame, 3) and found.truth.masks.shape[1:] == frame
    bright = found.image.numpy()[..., 0] > 127
    assert len(found.truth.boxes) <= 1
    if not len(found.truth.boxes):
        assert bright.sum() == 0 or min(np.subtract(*np.split(np.array(bounds(bright)), 2)[::-1])) <= 1
        return
    corners = found.truth.boxes.numpy()[0]
    assert (corners >= 0).all() and (corners <= 1).all()
    corners *= np.tile(frame, 2)
    if bright.any() and found.truth.masks.numpy().any():
        np.testing.assert_allclose(bounds(bright), corners, atol=1.5)
        np.testing.assert_allclose(bounds(found.truth.masks.numpy()[0]), corners, atol=1.5)
    middle = (np.array(box[:2]) + np.array(box[2:]) / 2) * scaled.numpy() / size + offset
    keypoint = found.truth.keypoints.numpy()[0, 0] * frame
    inside = (middle >= 0).all() and (middle <= frame).all()
    assert np.isfinite(keypoint).all() == inside
    if inside:
        np.testing.assert_allclose(keypoint, middle, atol=1e-3)


def test_what_is_empty_and_what_is_hardly_seen():
    def placed(sample, scaled, offset, frame, **options):
        sides = {"scaled": scaled, "offset": offset, "frame": frame}
        return place(sample, **{name: tf.constant(side) for name, side in sides.items()}, **options)

    sample = shining((40, 40), (0, 0, 4, 4))
    padding = placed(sample, [10, 20], [5, -4], [30, 30], pad_value=(7.0, 8.0, 9.0)).image.numpy()
    assert (padding[:5] == [7, 8, 9]).all() and (padding[15:] == [7, 8, 9]).all()
    assert (padding[:, 16:] == [7, 8, 9]).all() and (padding[5:15, :16] != [7, 8, 9]).all()
    sample = shining((40, 40), (0, 0, 10, 10))
    for row, kept in ((-8, 1), (-9, 0)):
        found = placed(sample, [40, 40], [row, 0], [40, 40], min_visible=0.15)
        assert len(found.truth.boxes) == kept


@settings(max_examples=30, deadline=None)
@given(BOXES_PX, st.tuples(st.integers(0, 30), st.integers(0, 30)))
def test_a_part_of_a_frame_in_the_whole(box, corner):
    sample = shining((40, 40), box, masks=True)
    larger = (80, 90)
    found = in_larger_frame(
        sample.truth, corner=tf.constant(corner), frame=tf.constant([40, 40]), larger=tf.constant(larger)
    )
    expected = np.array([*box[:2], box[0] + box[2], box[1] + box[3]]) + np.tile(corner, 2)
    np.testing.assert_allclose(found.boxes.numpy()[0] * np.tile(larger, 2), expected, atol=1e-3)
    assert bounds(found.masks.numpy()[0]) == expected.tolist()
    middle = found.keypoints.numpy()[0, 0] * larger
    np.testing.assert_allclose(middle, (expected[:2] + expected[2:]) / 2, atol=1e-3)


def test_objects_are_joined_in_order():
    truths = [shining((40, 40), (0, 0, 4, 4 + i), channel=i, masks=True).truth for i in range(3)]
    joined = joined_objects(truths)
    assert joined.classes.numpy().tolist() == [0, 1, 2]
    assert joined.masks.numpy().sum((1, 2)).tolist() == [16, 20, 24]
