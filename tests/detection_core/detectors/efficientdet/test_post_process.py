import numpy as np
import tensorflow as tf

from detection_core.detectors.efficientdet.build import suppression_options
from detection_core.detectors.efficientdet.post_process import candidates, detections_px, in_true_image
from detection_core.detectors.parts.anchor_criterion import AnchorPredictions
from detection_core.protos.efficientdet_pb2 import EfficientDet
from detection_core.structures import box_detections
from tests.support import efficientdet_goldens as goldens
from tests.support.cases import cases

CASES = goldens.cases("postprocess")
MODES = [
    name for name, case in CASES.items() if "post_mode" in case.get("params", {}) and "error" not in case
]


def _predictions(raw):
    params = CASES[raw]["params"]
    settings, size = goldens.anchor_settings(params)
    maps = goldens.given("postprocess", raw)
    return goldens.predictions(maps, "{kind}_{level}", settings, size, params["num_classes"]), size


@cases(*MODES)
def test_detections_equal_the_reference(*, case):
    params, wanted = CASES[case]["params"], goldens.wanted("postprocess", case)
    fields = dict(params["nms_configs"], mode=params["post_mode"])
    if not fields.get("method", "gaussian"):
        fields["method"] = "hard"  # Their empty name.
    predictions, size = _predictions(params["raw"])
    found = detections_px(predictions, suppression_options(EfficientDet.NonMaxSuppression(**fields)), size)
    scales = params["image_scales"] or [1.0, 1.0]
    np.testing.assert_array_equal(found.count, wanted["valid_len"])
    for image, count in enumerate(wanted["valid_len"]):
        expected = (wanted["boxes"][image], wanted["scores"][image], wanted["classes"][image])
        own = found.boxes[image] * scales[image], found.scores[image], found.classes[image] + 1
        np.testing.assert_allclose(own[1][:count], expected[1][:count], 1e-4, 1e-4)
        # Rows whose scores are as good as equal may be in any order.
        ours, theirs = (np.column_stack([np.asarray(a)[:count] for a in rows]) for rows in (own, expected))
        for row in theirs:
            near = ours[np.abs(ours[:, 4] - row[4]) < 2e-4]
            assert np.isclose(near, row, rtol=1e-4, atol=1e-3).all(axis=1).any(), row


@cases(("pre_nms_topk0", 0), ("pre_nms_topk40", 40))
def test_candidates_equal_the_reference(*, case, inputs):
    wanted = goldens.wanted("postprocess", case)
    boxes, scores, classes = candidates(_predictions("raw_square")[0], inputs)
    np.testing.assert_allclose(scores, wanted["scores"], 1e-4, 1e-5)
    np.testing.assert_allclose(boxes, wanted["boxes"], 1e-4, 1e-3)
    np.testing.assert_array_equal(classes, wanted["classes_zero_based"])


def test_boxes_are_given_in_the_true_image_and_those_outside_are_dropped():
    boxes = tf.constant([[[0.0, 0.0, 20.0, 20.0], [50.0, 0.0, 60.0, 10.0], [10.0, 30.0, 50.0, 50.0]]])
    found = box_detections(boxes, tf.constant([[0.9, 0.8, 0.7]]), tf.constant([[1, 2, 3]]), tf.constant([3]))
    shown = in_true_image(found, tf.constant([[40, 60]]))
    assert shown.count.numpy().tolist() == [2]
    assert shown.classes.numpy().tolist() == [[1, 3, 0]]
    np.testing.assert_allclose(shown.boxes[0, 1], [0.25, 0.5, 1.0, 50 / 60])
    predictions, size = _predictions("raw_square")
    none = predictions._replace(class_logits=tf.fill(predictions.class_logits.shape, -50.0))
    for mode in ("global", "per_class", "combined"):
        options = suppression_options(EfficientDet.NonMaxSuppression(mode=mode, score_thresh=0.1))
        found = detections_px(none, options, size)
        assert found.count.numpy().tolist() == [0, 0] and not found.boxes.numpy().any()


NUMPY = goldens.cases("nms_numpy")


def _as_numpy(boxes, scores, classes, params, limit):
    """What `numpy_per_class` finds in boxes as they are: anchors without codes."""
    count = int(classes.max()) + 1
    scores = np.asarray(scores, np.float64)
    logits = np.where(np.arange(count) == classes[:, None], np.log(scores / (1 - scores))[:, None], -60.0)
    predictions = AnchorPredictions(
        box_codes=tf.zeros([1, len(boxes), 4]),
        class_logits=tf.constant(logits[None], tf.float32),
        anchors=tf.constant(boxes),
    )
    given = {name: params[name] for name in ("iou_thresh", "sigma", "score_thresh") if params.get(name)}
    message = EfficientDet.NonMaxSuppression(
        mode="numpy_per_class", method=params["method"] or "hard", max_output_size=limit, **given
    )
    options = suppression_options(message)
    found = tf.function(lambda: detections_px(predictions, options, (64, 64)))()
    return [np.asarray(each)[0, : int(found.count[0])] for each in (found.boxes, found.scores, found.classes)]


# "linear" and "diou" are methods that there are not here.
@cases("hard", "hard_0p3", "method_null", "gaussian", "gaussian_s0p3_t0p1")
def test_suppression_of_a_class_equals_the_reference_in_numpy(*, case):
    dets = goldens.given("nms_numpy", "hard")["dets"]
    classes = np.zeros(len(dets), np.int32)
    boxes, scores, _ = _as_numpy(dets[:, [1, 0, 3, 2]], dets[:, 4], classes, NUMPY[case]["params"], 40)
    found, kept = np.column_stack([boxes[:, [1, 0, 3, 2]], scores]), goldens.wanted("nms_numpy", case)["kept"]
    np.testing.assert_allclose(found, kept, 1e-4, 1e-4)


@cases(*[name for name in NUMPY if name.startswith(("per_class_hard", "per_class_gaussian"))])
def test_suppression_by_class_equals_the_reference_in_numpy(*, case):
    params, given = NUMPY[case]["params"], goldens.given("nms_numpy", case)
    inputs = (given[name] for name in ("boxes_yxyx", "scores", "classes_zero_based"))
    boxes, scores, classes = _as_numpy(*inputs, params, params["max_boxes"])
    wanted = goldens.wanted("nms_numpy", case)["detections"]
    wanted = wanted[wanted[:, 5] > -1.0]  # rows without a detection fill up theirs
    found = np.column_stack([boxes[:, [1, 0, 3, 2]] * params["image_scale"], scores, classes + 1])
    np.testing.assert_allclose(found, wanted[:, 1:7], 1e-4, 1e-4)


def test_as_in_numpy_the_best_box_of_each_class_is_kept_whatever_its_score():
    """Their loop takes the best box before it compares the others' scores, in nms_np.soft_nms."""
    boxes = np.array([[0, 0, 9, 9], [20, 20, 40, 40], [50, 50, 60, 60]], np.float32)
    params = {"method": "gaussian", "score_thresh": 0.5}
    found = _as_numpy(boxes, np.array([0.2, 0.1, 0.9]), np.array([0, 0, 2]), params, 5)
    np.testing.assert_allclose(found[1], [0.9, 0.2], 1e-4)
    assert found[2].tolist() == [2, 0]
