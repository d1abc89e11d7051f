"""Labels, losses, suppression and names of variables against those of google/automl."""

import numpy as np
import tensorflow as tf

from detection_core.families.efficientdet import losses
from detection_core.families.efficientdet.anchors import anchors_px
from detection_core.families.efficientdet.build import suppression_options
from detection_core.families.efficientdet.checkpoint_names import running_names
from detection_core.families.efficientdet.post_process import candidates, detections_px, in_true_image
from detection_core.parts.anchor_criterion import AnchorPredictions
from detection_core.parts.losses import SigmoidFocalLoss
from detection_core.protos.efficientdet_pb2 import EfficientDet
from detection_core.structures import box_detections
from tests.support import efficientdet_goldens as goldens
from tests.support.cases import cases
from tests.support.replicas import assert_prints_equal

# Labels that a data set cannot have are not among ours: they are refused where records are read.
LABELLED = sorted(goldens.cases("anchor_targets").keys() - {"out_of_range_label", "padded_rows"})
LOSSES = goldens.cases("losses")


@cases(*LABELLED)
def test_labels_equal_the_reference(*, case):
    params = goldens.cases("anchor_targets")[case]["params"]
    settings, size = goldens.anchor_settings(params)
    given, wanted = goldens.given("anchor_targets", case), goldens.wanted("anchor_targets", case)
    assigner = losses.target_assigner(params["num_classes"], params["match_threshold"])
    truth = goldens.padded_truth([(given["boxes"], given["labels"])])
    targets = assigner.assign(tf.constant(anchors_px(settings, size)), truth)
    classes = np.concatenate([wanted[f"cls_targets_{level}"].reshape(-1) for level in settings.levels])
    boxes = np.concatenate([wanted[f"box_targets_{level}"].reshape(-1, 4) for level in settings.levels])
    one_hot = targets.class_targets[0].numpy()
    found = np.where(one_hot.any(axis=-1), one_hot.argmax(axis=-1), -1)
    np.testing.assert_array_equal(found, classes)
    np.testing.assert_allclose(targets.box_targets[0], boxes, 1e-4, 1e-5)
    assert np.count_nonzero(targets.matched >= 0) == wanted["num_positives"]
    # There a padded row of -1 claims an anchor, but its records are labelled before they are padded.
    empty = goldens.padded_truth([(np.zeros((0, 4)), [])])
    assert np.all(assigner.assign(tf.constant(anchors_px(settings, size)), empty).matched == -1)


@cases(*[name for name in LOSSES if name.startswith(("focal_a", "box_delta"))])
def test_focal_and_box_loss_equal_the_reference(*, case):
    params, given = LOSSES[case]["params"], goldens.given("losses", case)
    if case.startswith("focal"):
        smoothing = params.get("label_smoothing", 0.0)
        loss = SigmoidFocalLoss(gamma=params["gamma"], alpha=params["alpha"], label_smoothing=smoothing)
        found = loss(given["logits"], given["one_hot"], tf.constant(1.0)) / params["normalizer"]
    else:
        found = losses.huber_loss(given["outputs"], given["targets"], params["delta"])
        found /= 4 * params["num_positives"]
    np.testing.assert_allclose(found, goldens.wanted("losses", case)["loss"], 1e-4, 1e-6)


@cases(*[name for name, case in LOSSES.items() if name.startswith("iou_loss") and "error" not in case])
def test_overlap_losses_equal_the_reference(*, case):
    given, wanted = goldens.given("losses", case), goldens.wanted("losses", case)
    prediction, rows = tf.constant(given["pred"]), len(given["pred"])
    with tf.GradientTape() as tape:
        tape.watch(prediction)
        boxes = tf.reshape(prediction, [rows, -1, 4]), given["target"].reshape(rows, -1, 4)
        loss = tf.reduce_sum(losses.box_overlap_loss(*boxes, LOSSES[case]["params"]["type"]), axis=-1)
    np.testing.assert_allclose(loss, wanted["loss"], 1e-4, 1e-6)
    if "gradient_of_sum" in wanted:
        np.testing.assert_allclose(tape.gradient(loss, prediction), wanted["gradient_of_sum"], 1e-4, 1e-6)


def test_box_loss_has_the_reference_s_gradient():
    given, wanted = goldens.given("losses", "box_gradient"), goldens.wanted("losses", "box_gradient")
    outputs = tf.constant(given["outputs"])
    with tf.GradientTape() as tape:
        tape.watch(outputs)
        loss = losses.huber_loss(outputs, given["targets"], 0.1) / 8.0
    np.testing.assert_allclose(tape.gradient(loss, outputs), wanted["gradient"], 1e-4, 1e-6)


@cases("iou", "giou", "diou", "ciou")
def test_overlap_of_decoded_boxes_equals_the_reference(*, kind):
    given = goldens.given("losses", f"box_iou_loss_{kind}")
    levels = {"min_level": 3, "max_level": 5, "num_scales": 1}
    settings = goldens.settings(size=64, iou_loss_type=kind, num_classes=4, **levels)
    anchors = anchors_px(settings, (64, 64))
    anchors = np.tile(anchors, (len(given["targets"]) // len(anchors), 1))
    found = losses.DetectionLosses(settings)._overlap_loss(given["outputs"], given["targets"], anchors)
    np.testing.assert_allclose(
        found / (4 * 20.0), goldens.wanted("losses", f"box_iou_loss_{kind}")["loss"], 1e-4, 1e-6
    )


def _of_each_image(predictions):
    """The same predictions, their anchors once for every image."""
    images = len(predictions.box_codes)
    return predictions._replace(anchors=tf.tile(predictions.anchors[tf.newaxis], [images, 1, 1]))


@cases(*[name for name in LOSSES if name.startswith("detection_")])
def test_losses_of_a_batch_equal_the_reference(*, case):
    """Labelling, masks, normaliser and weights together."""
    fields = {k: value for k, value in LOSSES[case]["params"].items() if k not in ("image_size", "seed")}
    given, wanted = goldens.given("losses", "detection_default"), goldens.wanted("losses", case)
    levels = [int(name[-1]) for name in given if "cls_out" in name]
    settings = goldens.settings(size=64, min_level=min(levels), max_level=max(levels), **fields)
    truth = goldens.padded_truth((given[f"boxes_{index}"], given[f"classes_{index}"]) for index in range(2))
    positives = tf.Variable(0.0) if "positives_momentum" in fields else None
    predictions = goldens.predictions(given, "{kind}_outputs_{level}", settings, (64, 64), 4)
    found = losses.DetectionLosses(settings)(predictions, truth, positives)
    np.testing.assert_allclose(found[losses.CLASSIFICATION_LOSS], wanted["cls_loss"], 1e-4)
    box_loss = found.get(losses.LOCALIZATION_LOSS, 0.0)
    np.testing.assert_allclose(box_loss, settings.box_loss_weight * wanted["box_loss"], 1e-4, 1e-6)
    if settings.iou_loss_type:
        weighted = settings.iou_loss_weight * wanted["box_iou_loss"]
        np.testing.assert_allclose(found[losses.IOU_LOSS], weighted, 1e-4)
    np.testing.assert_allclose(sum(found.values()), wanted["det_loss"], 1e-4)
    if positives is None:
        assert losses.DetectionLosses(settings)(_of_each_image(predictions), truth) == found


def test_replicas_divide_by_their_mean_or_by_an_average_of_their_own():
    assert_prints_equal("""
        from detection_core.families.efficientdet.losses import moving_normalizer, steadied
        strategy = tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"])
        with strategy.scope():
            positives = moving_normalizer()
        counts = strategy.experimental_distribute_values_from_function(
            lambda context: tf.constant(4.0 * context.replica_id_in_sync_group + 2.0)
        )
        for momentum, kept, expected in ((-1.0, None, [4, 4]), (0.5, positives, [1, 3]), (0.0, None, [2, 6])):
            step = tf.function(lambda count: steadied(count, momentum, kept))
            found = strategy.experimental_local_results(strategy.run(step, args=(counts,)))
            np.testing.assert_allclose(found, expected)
        assert float(positives.numpy()) == 2.0
        print("equal")
    """)


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
    predictions = _predictions("raw_square")[0]
    boxes, scores, classes = candidates(predictions, inputs)
    np.testing.assert_array_equal(candidates(_of_each_image(predictions), inputs)[0], boxes)
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


# Running numbers, as the goldens' checkpoint_restore tells of a second model in one process.
BLOCK = "efficientnet-b0/blocks_0/conv2d/kernel"
AVERAGE = "/ExponentialMovingAverage"


def _stem(scope: str, conv: str, norm: str = "tpu_batch_normalization") -> list[str]:
    return [f"efficientnet-b0/{scope}/{conv}/kernel", f"efficientnet-b0/{scope}/{norm}/gamma"]


def _transposed(scope: str, numbers: range) -> list[str]:
    names = [f"{scope}/conv2d_transpose{f'_{number}' if number else ''}/kernel" for number in numbers]
    return [*names, f"{scope}/bn_0/gamma"]


def test_the_stem_of_a_second_network_is_the_stem_unless_it_could_be_either_of_two():
    plain, numbered = _stem("stem", "conv2d"), _stem("stem_1", "conv2d_5", "tpu_batch_normalization_49")
    found = running_names([BLOCK, *numbered, *(name + AVERAGE for name in numbered)])
    for name, stored in zip(plain, numbered, strict=True):
        assert found[name] == [stored] and found[name + AVERAGE] == [stored + AVERAGE]
    assert BLOCK not in found
    # What has its own name keeps it beside another.
    found = running_names([*plain, *_stem("stem_1", "conv2d_5")])
    assert all(found[name] == [name] for name in plain)
    two = [*_stem("stem_1", "conv2d_5"), *_stem("stem_2", "conv2d_10")]
    assert sorted(running_names(two)[plain[0]]) == sorted(name for name in two if name.endswith("kernel"))


def test_the_convolutions_of_a_second_segmentation_head_follow_each_other():
    numbered = _transposed("segmentation_head_1", range(5, 10))
    found = running_names(numbered)
    for name, stored in zip(_transposed("segmentation_head", range(5)), numbered, strict=True):
        assert found[name] == [stored]
    # A number that another layer has taken is not taken twice.
    stored = _transposed("segmentation_head", range(3, 8))
    found = running_names(stored)
    assert [found[name] for name in _transposed("segmentation_head", range(5))] == [[name] for name in stored]
    assert found["segmentation_head/conv2d_transpose_7/kernel"] == []
    # Numbers with gaps stay as they are.
    names = [f"segmentation_head/conv2d_transpose_{number}/kernel" for number in (1, 3)]
    found = {name: stored for name, stored in running_names(names).items() if stored}
    assert found == {name: [name] for name in names}
