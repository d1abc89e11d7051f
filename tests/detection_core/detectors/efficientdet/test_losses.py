"""Labels of anchors and losses against those of google/automl."""

import numpy as np
import tensorflow as tf

from detection_core.detectors.efficientdet.anchors import anchors_px
from detection_core.detectors.efficientdet.box_coder import EfficientDetBoxCoder
from detection_core.detectors.efficientdet.losses import (
    CLASSIFICATION_LOSS,
    IOU_LOSS,
    LOCALIZATION_LOSS,
    DetectionLosses,
    box_overlap_loss,
    huber_loss,
    target_assigner,
)
from detection_core.detectors.parts.anchor_criterion import AnchorPredictions
from detection_core.detectors.parts.losses.focal import SigmoidFocalLoss
from detection_core.ops.objects import new_truth
from tests.support import efficientdet_goldens as goldens
from tests.support.cases import cases
from tests.support.replicas import assert_prints_equal

# Labels that a data set cannot have are not among ours: they are refused where records are read.
LABELLED = [
    name for name in goldens.cases("anchor_targets") if name not in ("out_of_range_label", "padded_rows")
]
LOSSES = goldens.cases("losses")
FOCAL = [name for name in LOSSES if name.startswith("focal_a")]
OVERLAPS = [name for name, case in LOSSES.items() if name.startswith("iou_loss") and "error" not in case]
DETECTION = [name for name in LOSSES if name.startswith("detection_")]


def _truth(images):
    most = max([len(boxes) for boxes, _ in images] + [1])
    boxes = np.zeros((len(images), most, 4), np.float32)
    classes = np.zeros((len(images), most), np.int32)
    valid = np.zeros((len(images), most), bool)
    for index, (own, labels) in enumerate(images):
        boxes[index, : len(own)], valid[index, : len(own)] = own, True
        classes[index, : len(own)] = np.asarray(labels).reshape(-1) - 1
    fields = {"boxes": boxes, "classes": classes, "weights": valid.astype(np.float32), "valid": valid}
    return new_truth(**{name: tf.constant(value) for name, value in fields.items()})


@cases(*LABELLED)
def test_labels_equal_the_reference(*, case):
    params = goldens.cases("anchor_targets")[case]["params"]
    settings, size = goldens.anchor_settings(params)
    given, wanted = goldens.given("anchor_targets", case), goldens.wanted("anchor_targets", case)
    assigner = target_assigner(params["num_classes"], params["match_threshold"])
    truth = _truth([(given["boxes"], given["labels"])])
    targets = assigner.assign(tf.constant(anchors_px(settings, size)), truth)
    levels = settings.levels
    classes = np.concatenate([wanted[f"cls_targets_{level}"].reshape(-1) for level in levels])
    boxes = np.concatenate([wanted[f"box_targets_{level}"].reshape(-1, 4) for level in levels])
    one_hot = targets.class_targets[0].numpy()
    found = np.where(one_hot.any(axis=-1), one_hot.argmax(axis=-1), -1)
    np.testing.assert_array_equal(found, classes)
    np.testing.assert_allclose(targets.box_targets[0], boxes, 1e-4, 1e-5)
    assert np.count_nonzero(targets.matched >= 0) == wanted["num_positives"]


def test_a_padded_row_claims_no_anchor():
    """There a row of -1 claims one, but its records are labelled before they are padded."""
    settings, size = goldens.anchor_settings(goldens.cases("anchor_targets")["padded_rows"]["params"])
    empty = _truth([(np.zeros((0, 4)), [])])
    matched = target_assigner(5).assign(tf.constant(anchors_px(settings, size)), empty).matched
    assert np.all(matched == -1)


@cases(*FOCAL)
def test_focal_loss_equals_the_reference(*, case):
    params, given = LOSSES[case]["params"], goldens.given("losses", case)
    loss = SigmoidFocalLoss(
        gamma=params["gamma"], alpha=params["alpha"], label_smoothing=params.get("label_smoothing", 0.0)
    )
    found = loss(given["logits"], given["one_hot"], tf.constant(1.0)) / params["normalizer"]
    np.testing.assert_allclose(found, goldens.wanted("losses", case)["loss"], 1e-4, 1e-6)


@cases(*[name for name in LOSSES if name.startswith("box_delta")])
def test_box_loss_equals_the_reference(*, case):
    params, given = LOSSES[case]["params"], goldens.given("losses", case)
    found = huber_loss(given["outputs"], given["targets"], params["delta"]) / (4 * params["num_positives"])
    np.testing.assert_allclose(found, goldens.wanted("losses", case)["loss"], 1e-4, 1e-6)


def test_box_loss_has_the_reference_s_gradient():
    given, wanted = goldens.given("losses", "box_gradient"), goldens.wanted("losses", "box_gradient")
    outputs = tf.constant(given["outputs"])
    with tf.GradientTape() as tape:
        tape.watch(outputs)
        loss = huber_loss(outputs, given["targets"], 0.1) / 8.0
    np.testing.assert_allclose(tape.gradient(loss, outputs), wanted["gradient"], 1e-4, 1e-6)


@cases(*OVERLAPS)
def test_overlap_losses_equal_the_reference(*, case):
    given, wanted = goldens.given("losses", case), goldens.wanted("losses", case)
    prediction = tf.constant(given["pred"])
    rows = len(given["pred"])
    with tf.GradientTape() as tape:
        tape.watch(prediction)
        boxes = tf.reshape(prediction, [rows, -1, 4]), given["target"].reshape(rows, -1, 4)
        loss = tf.reduce_sum(box_overlap_loss(*boxes, LOSSES[case]["params"]["type"]), axis=-1)
    np.testing.assert_allclose(loss, wanted["loss"], 1e-4, 1e-6)
    if "gradient_of_sum" in wanted:
        np.testing.assert_allclose(tape.gradient(loss, prediction), wanted["gradient_of_sum"], 1e-4, 1e-6)


@cases("iou", "giou", "diou", "ciou")
def test_overlap_of_decoded_boxes_equals_the_reference(*, kind):
    given = goldens.given("losses", f"box_iou_loss_{kind}")
    settings = goldens.settings(
        size=64, min_level=3, max_level=5, num_scales=1, iou_loss_type=kind, num_classes=4
    )
    anchors = anchors_px(settings, (64, 64))
    anchors = np.tile(anchors, (len(given["targets"]) // len(anchors), 1))
    found = DetectionLosses(settings)._overlap_loss(given["outputs"], given["targets"], anchors) / (4 * 20.0)
    np.testing.assert_allclose(found, goldens.wanted("losses", f"box_iou_loss_{kind}")["loss"], 1e-4, 1e-6)


def _predictions(settings):
    given = goldens.given("losses", "detection_default")

    def joined(kind, size):
        maps = [given[f"{kind}_outputs_{level}"] for level in settings.levels]
        return tf.constant(np.concatenate([each.reshape(2, -1, size) for each in maps], axis=1))

    return AnchorPredictions(
        box_codes=joined("box", 4),
        class_logits=joined("cls", 4),
        anchors=tf.constant(anchors_px(settings, (64, 64))),
    )


@cases(*DETECTION)
def test_losses_of_a_batch_equal_the_reference(*, case):
    """Labelling, masks, normaliser and weights together."""
    params = dict(LOSSES[case]["params"])
    fields = {name: value for name, value in params.items() if name not in ("image_size", "seed")}
    levels = [int(name[-1]) for name in goldens.given("losses", "detection_default") if "cls_out" in name]
    settings = goldens.settings(size=64, min_level=min(levels), max_level=max(levels), **fields)
    given, wanted = goldens.given("losses", "detection_default"), goldens.wanted("losses", case)
    truth = _truth([(given[f"boxes_{index}"], given[f"classes_{index}"]) for index in range(2)])
    positives = tf.Variable(0.0) if "positives_momentum" in fields else None
    found = DetectionLosses(settings)(_predictions(settings), truth, positives)
    np.testing.assert_allclose(found[CLASSIFICATION_LOSS], wanted["cls_loss"], 1e-4)
    box_loss = found.get(LOCALIZATION_LOSS, 0.0)
    np.testing.assert_allclose(box_loss, settings.box_loss_weight * wanted["box_loss"], 1e-4, 1e-6)
    if settings.iou_loss_type:
        weighted = settings.iou_loss_weight * wanted["box_iou_loss"]
        np.testing.assert_allclose(found[IOU_LOSS], weighted, 1e-4)
    np.testing.assert_allclose(sum(found.values()), wanted["det_loss"], 1e-4)


def test_codes_of_the_reference_decode_to_its_boxes():
    given = goldens.given("box_coding", "decode")
    coder = EfficientDetBoxCoder()
    again = coder.encode(coder.decode(given["codes"], given["anchors"]), given["anchors"])
    np.testing.assert_allclose(again, given["codes"], 1e-3, 1e-3)


def test_replicas_divide_by_their_mean_or_by_an_average_of_their_own():
    assert_prints_equal("""
        from detection_core.detectors.efficientdet.losses import moving_normalizer, steadied
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
