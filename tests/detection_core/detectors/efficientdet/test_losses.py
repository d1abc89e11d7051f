"""Labels of anchors and losses against those of google/automl."""

import numpy as np
import tensorflow as tf

from detection_core.detectors.efficientdet.anchors import anchors_px
from detection_core.detectors.efficientdet.losses import (
    CLASSIFICATION_LOSS,
    IOU_LOSS,
    LOCALIZATION_LOSS,
    DetectionLosses,
    box_overlap_loss,
    huber_loss,
    target_assigner,
)
from detection_core.detectors.parts.losses.focal import SigmoidFocalLoss
from tests.support import efficientdet_goldens as goldens
from tests.support.cases import cases
from tests.support.replicas import assert_prints_equal

# Labels that a data set cannot have are not among ours: they are refused where records are read.
LABELLED = [
    name for name in goldens.cases("anchor_targets") if name not in ("out_of_range_label", "padded_rows")
]


LOSSES = goldens.cases("losses")


@cases(*LABELLED)
def test_labels_equal_the_reference(*, case):
    params = goldens.cases("anchor_targets")[case]["params"]
    settings, size = goldens.anchor_settings(params)
    given, wanted = goldens.given("anchor_targets", case), goldens.wanted("anchor_targets", case)
    assigner = target_assigner(params["num_classes"], params["match_threshold"])
    truth = goldens.padded_truth([(given["boxes"], given["labels"])])
    targets = assigner.assign(tf.constant(anchors_px(settings, size)), truth)
    levels = settings.levels
    classes = np.concatenate([wanted[f"cls_targets_{level}"].reshape(-1) for level in levels])
    boxes = np.concatenate([wanted[f"box_targets_{level}"].reshape(-1, 4) for level in levels])
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
        found = huber_loss(given["outputs"], given["targets"], params["delta"]) / (
            4 * params["num_positives"]
        )
    np.testing.assert_allclose(found, goldens.wanted("losses", case)["loss"], 1e-4, 1e-6)


@cases(*[name for name, case in LOSSES.items() if name.startswith("iou_loss") and "error" not in case])
def test_overlap_losses_equal_the_reference(*, case):
    given, wanted = goldens.given("losses", case), goldens.wanted("losses", case)
    prediction, rows = tf.constant(given["pred"]), len(given["pred"])
    with tf.GradientTape() as tape:
        tape.watch(prediction)
        boxes = tf.reshape(prediction, [rows, -1, 4]), given["target"].reshape(rows, -1, 4)
        loss = tf.reduce_sum(box_overlap_loss(*boxes, LOSSES[case]["params"]["type"]), axis=-1)
    np.testing.assert_allclose(loss, wanted["loss"], 1e-4, 1e-6)
    if "gradient_of_sum" in wanted:
        np.testing.assert_allclose(tape.gradient(loss, prediction), wanted["gradient_of_sum"], 1e-4, 1e-6)


def test_box_loss_has_the_reference_s_gradient():
    given, wanted = goldens.given("losses", "box_gradient"), goldens.wanted("losses", "box_gradient")
    outputs = tf.constant(given["outputs"])
    with tf.GradientTape() as tape:
        tape.watch(outputs)
        loss = huber_loss(outputs, given["targets"], 0.1) / 8.0
    np.testing.assert_allclose(tape.gradient(loss, outputs), wanted["gradient"], 1e-4, 1e-6)


@cases("iou", "giou", "diou", "ciou")
def test_overlap_of_decoded_boxes_equals_the_reference(*, kind):
    given = goldens.given("losses", f"box_iou_loss_{kind}")
    levels = {"min_level": 3, "max_level": 5, "num_scales": 1}
    settings = goldens.settings(size=64, iou_loss_type=kind, num_classes=4, **levels)
    anchors = anchors_px(settings, (64, 64))
    anchors = np.tile(anchors, (len(given["targets"]) // len(anchors), 1))
    found = DetectionLosses(settings)._overlap_loss(given["outputs"], given["targets"], anchors) / (4 * 20.0)
    np.testing.assert_allclose(found, goldens.wanted("losses", f"box_iou_loss_{kind}")["loss"], 1e-4, 1e-6)


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
    found = DetectionLosses(settings)(predictions, truth, positives)
    np.testing.assert_allclose(found[CLASSIFICATION_LOSS], wanted["cls_loss"], 1e-4)
    box_loss = found.get(LOCALIZATION_LOSS, 0.0)
    np.testing.assert_allclose(box_loss, settings.box_loss_weight * wanted["box_loss"], 1e-4, 1e-6)
    if settings.iou_loss_type:
        weighted = settings.iou_loss_weight * wanted["box_iou_loss"]
        np.testing.assert_allclose(found[IOU_LOSS], weighted, 1e-4)
    np.testing.assert_allclose(sum(found.values()), wanted["det_loss"], 1e-4)


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
