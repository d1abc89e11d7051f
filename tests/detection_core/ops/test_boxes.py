import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from detection_core.ops import boxes as box_ops


@settings(deadline=None, max_examples=60)
@given(box=st.tuples(*[st.floats(-2, 2, width=32)] * 4))
def test_centers_and_back_and_clipped_boxes_lie_in_the_window(box):
    boxes = np.float32([box])
    np.testing.assert_allclose(box_ops.from_centers(box_ops.to_centers(boxes)), boxes, atol=1e-6)
    clipped = box_ops.clip(boxes, WINDOW).numpy()[0]
    assert np.all(clipped[:2] >= WINDOW[:2]) and np.all(clipped[2:] <= WINDOW[2:])
    np.testing.assert_array_equal(box_ops.clip(clipped, WINDOW), clipped)


WINDOW = np.float32([0.25, 0.5, 0.75, 1.0])


def test_by_hand():
    boxes = np.float32([[0.1, 0.2, 0.3, 0.7], [0.5, 0.5, 0.4, 0.6]])
    np.testing.assert_allclose(box_ops.area(boxes), [0.1, -0.01], rtol=1e-5)
    np.testing.assert_allclose(box_ops.scale(boxes, 10.0, 100.0)[0], [1, 20, 3, 70], rtol=1e-5)
    np.testing.assert_allclose(box_ops.change_frame(WINDOW, WINDOW), [0, 0, 1, 1])
    inside = np.float32([[0.5, 0.75, 0.75, 1.0]])
    np.testing.assert_allclose(box_ops.change_frame(inside, WINDOW), [[0.5, 0.5, 1, 1]])
    images = np.tile(np.float32([0.0, 0.0, 1.0, 1.0]), (2, 3, 1))
    windows = np.float32([[0, 0, 0.5, 0.5], [0.5, 0.5, 1, 1]])
    np.testing.assert_allclose(box_ops.clip(images, windows[:, np.newaxis])[:, 1], windows)
