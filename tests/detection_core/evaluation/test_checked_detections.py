import numpy as np

from detection_core.errors import ModelError
from detection_core.evaluation.checked_detections import checked_detections
from tests.support.cases import cases, refused

BOXES = np.array([[0.0, 0.0, 0.5, 0.5], [0.1, 0.1, 0.9, 0.9], [np.nan] * 4])
SCORES = np.array([0.3, 0.8, np.nan])
CLASSES = np.array([1.0, 0.0, -7.0])


def _checked(boxes=BOXES, scores=SCORES, classes=CLASSES, count=2):
    return checked_detections(boxes, scores, classes, count, source_id="a.jpg", where="m.tflite")


def test_rows_past_the_count_are_cut_and_the_rest_is_sorted():
    found = _checked()
    np.testing.assert_allclose(found.scores, [0.8, 0.3])
    assert found.classes.tolist() == [0, 1] and found.boxes.dtype == np.float32


@cases(
    ({"count": 3}, "expected finite boxes for image 'a.jpg', found nan"),
    ({"classes": np.array([-1.0, 0.0, 0.0])}, "found numbers from -1.0 to 0.0"),
    ({"scores": SCORES[:2]}, r"expected boxes \[D, 4\]"),
    ({"count": -1}, r"expected boxes \[D, 4\]"),
)
def test_what_is_no_detection_is_refused(*, outputs, message):
    error = refused(ModelError, message, _checked, **outputs)
    assert error.where == "m.tflite"
