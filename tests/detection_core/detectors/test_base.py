import pytest
import tensorflow as tf

from detection_core.detectors.base import TOTAL_LOSS, Detector, InputShape, named_detections, with_total
from detection_core.structures import box_detections


def test_a_detector_must_have_every_verb_and_an_input_shape_is_one_size_or_bounds():
    assert Detector.__abstractmethods__ == {"networks", "input_shape", "losses", "detect"}
    with pytest.raises(TypeError, match="abstract"):
        Detector()
    assert InputShape.fixed((300, 200)).size == (300, 200)
    assert InputShape(smallest=(300, 200), largest=(600, 200)).size is None


def test_the_total_is_the_sum_in_order_without_an_older_total():
    parts = {"Loss/a": tf.constant(1e8), "Loss/b": tf.constant(3.0), "Loss/c": tf.constant(-1e8)}
    found = with_total({**parts, TOTAL_LOSS: tf.constant(77.0)})
    assert float(found[TOTAL_LOSS]) == float(parts["Loss/a"] + parts["Loss/b"] + parts["Loss/c"])
    assert list(found) == [*parts, TOTAL_LOSS]


def test_masks_and_keypoints_are_named_where_there_are_any_and_end_with_the_detections():
    classes, count = tf.zeros([1, 2], tf.int32), tf.constant([1])
    boxes = box_detections(boxes=tf.ones([1, 2, 4]), scores=tf.ones([1, 2]), classes=classes, count=count)
    found = named_detections(boxes)
    names = {"detection_boxes", "detection_scores", "detection_classes", "num_detections"}
    assert set(found) == names and {value.dtype for value in found.values()} == {tf.float32}
    assert found["detection_classes"].numpy().tolist() == [[1.0, 1.0]]
    assert boxes.masks.shape == (1, 2, 0, 0) and boxes.keypoints.shape == (1, 2, 0, 2)
    named = named_detections(boxes._replace(masks=tf.ones([1, 2, 7, 7]), keypoints=tf.ones([1, 2, 3, 2])))
    for name in ("detection_masks", "detection_keypoints"):
        assert named[name].numpy()[0].max(axis=(1, 2)).tolist() == [1.0, 0.0]
