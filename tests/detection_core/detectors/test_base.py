import pytest
import tensorflow as tf

from detection_core.detectors.base import TOTAL_LOSS, Detector, InputShape, named_detections, with_total
from detection_core.structures import Detections, box_detections


def test_a_detector_must_have_every_verb():
    assert Detector.__abstractmethods__ == {"networks", "input_shape", "losses", "detect"}
    with pytest.raises(TypeError, match="abstract"):
        Detector()


def test_an_input_shape_is_one_size_or_bounds():
    assert InputShape.fixed((300, 200)).size == (300, 200)
    assert InputShape(smallest=(300, 200), largest=(600, 200)).size is None


def test_the_total_is_the_sum_in_order_without_an_older_total():
    parts = {"Loss/a": tf.constant(1e8), "Loss/b": tf.constant(3.0), "Loss/c": tf.constant(-1e8)}
    found = with_total({**parts, TOTAL_LOSS: tf.constant(77.0)})
    assert float(found[TOTAL_LOSS]) == float(parts["Loss/a"] + parts["Loss/b"] + parts["Loss/c"])
    assert list(found) == [*parts, TOTAL_LOSS]


BOXES = box_detections(
    boxes=tf.ones([1, 2, 4]),
    scores=tf.ones([1, 2]),
    classes=tf.zeros([1, 2], tf.int32),
    count=tf.constant([1]),
)


def test_detections_of_boxes_alone_have_no_masks_and_keypoints():
    found = named_detections(BOXES)
    names = {"detection_boxes", "detection_scores", "detection_classes", "num_detections"}
    assert set(found) == names and {value.dtype for value in found.values()} == {tf.float32}
    assert found["detection_classes"].numpy().tolist() == [[1.0, 1.0]]
    assert BOXES.masks.shape == (1, 2, 0, 0) and BOXES.keypoints.shape == (1, 2, 0, 2)


def test_masks_and_keypoints_are_named_and_end_with_the_detections():
    found: Detections = BOXES._replace(masks=tf.ones([1, 2, 7, 7]), keypoints=tf.ones([1, 2, 3, 2]))
    named = named_detections(found)
    assert named["detection_masks"].numpy()[0].max(axis=(1, 2)).tolist() == [1.0, 0.0]
    assert named["detection_keypoints"].numpy()[0].max(axis=(1, 2)).tolist() == [1.0, 0.0]
