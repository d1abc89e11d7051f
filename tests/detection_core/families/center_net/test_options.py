"""Every option of decoding, alone and with others: whole post-processing against the reference's.

`data/postprocess.npz` has what the reference made of the noise of `_predictions`, case by case.
"""

import dataclasses
import functools
import pathlib

import numpy as np
import tensorflow as tf
import tf_keras

from detection_core.detectors.base import named_detections
from detection_core.families.center_net.decoding import KeypointTask, Refinement
from detection_core.families.center_net.losses import KeypointLosses, keypoint_losses
from detection_core.families.center_net.model import (
    CenterNetModel,
    CenterNetParts,
    FoundObjects,
    InputScaling,
    suppressed,
)
from detection_core.families.center_net.network import depth_head, keypoint_heads
from detection_core.families.center_net.targets import keypoint_center_heatmaps, keypoint_truth
from detection_core.ops.nms import NmsOptions
from detection_core.ops.objects import new_truth
from detection_core.parts.losses import L1Loss, SigmoidLoss
from tests.support.cases import cases

ARRAYS = dict(np.load(pathlib.Path(__file__).parent / "data" / "postprocess.npz"))
SIDE, STRIDE = 16, 4
DEVIATIONS = (0.5, 1.0, 1.5)
_nms = functools.partial(NmsOptions, score_threshold=0.3, max_total_detections=5)
HARD = _nms(iou_threshold=0.4, max_detections_per_class=3)
SOFT = _nms(iou_threshold=0.5, max_detections_per_class=4, soft_nms_sigma=0.5)
AGNOSTIC = dataclasses.replace(HARD, class_agnostic=True)


def _task(
    name="pose", class_index=0, indices=(0, 1, 2), deviations=DEVIATIONS, wider=1.0, depths=0, **refinement
):
    spread = tuple(wider * deviation for deviation in deviations)
    refinement |= {"score_threshold": 0.3, "candidates": 8, "distance_offset": 1e-6, "deviations": spread}
    return KeypointTask(
        name=name, class_index=class_index, indices=indices, deviations=deviations,
        depths=depths, refinement=Refinement(**refinement),
    )  # fmt: skip


TAIL = _task("tail", 1, (3, 4), (1.0, 1.0))
# Name -> classes, whether there are boxes, keypoint tasks, suppression; the order is that of the seeds.
CASES = {
    "suppressed": (2, True, [], HARD), "suppressed_softly": (2, True, [], SOFT),
    "suppressed_across_classes": (2, True, [], AGNOSTIC),
    "suppressed_with_keypoints": (2, True, [_task()], HARD), "keypoints_only": (1, False, [_task()], None),
    "keypoints_only_ratio": (1, False, [_task(ranking="score_distance_ratio")], None),
    "keypoints_only_suppressed": (1, False, [_task()], HARD),
    "rescored": (1, True, [_task(rescored=True, rescoring_threshold=0.4)], None),
    "rescored_clipped": (2, True, [_task(rescored=True, rescoring_threshold=0.2, clipped=True)], None),
    "scaled_ratio": (1, True, [_task(ranking="score_scaled_distance_ratio", distance_multiplier=0.2)], None),
    "gaussian": (1, True, [_task(ranking="gaussian_weighted", wider=2.0)], None),
    "gaussian_rescored": (2, True, [_task(ranking="gaussian_weighted", rescored=True)], None),
    "depth": (1, True, [_task(depths=1)], None), "depth_per_keypoint": (1, True, [_task(depths=3)], None),
    "depth_per_keypoint_gaussian": (1, True, [_task(depths=3, ranking="gaussian_weighted")], None),
    "two_tasks_one_clips": (2, True, [_task(clipped=True), TAIL], None),
}  # fmt: skip


def _predictions(classes, boxes, tasks, seed):
    random = np.random.RandomState(seed)
    shape = (2, SIDE, SIDE)
    found = {"object_center": 2 * random.standard_normal((*shape, classes)) - 2}
    sizes, offsets = np.abs(random.standard_normal((*shape, 2))) * 8, random.random_sample((*shape, 2))
    if boxes:
        found |= {"box/scale": sizes, "box/offset": offsets}
    for task in tasks:
        start, count = f"{task.name}/keypoint", len(task.indices)
        found[f"{start}/heatmap"] = 2 * random.standard_normal((*shape, count)) - 1
        found[f"{start}/offset"] = random.random_sample((*shape, 2 * count))
        found[f"{start}/regression"] = 4 * random.standard_normal((*shape, 2 * count))
        if task.depths:
            found[f"{start}/depth"] = random.standard_normal((*shape, task.depths))
    return {name: [tf.constant(values, tf.float32)] for name, values in found.items()}


def _model(classes, boxes, tasks, nms=None, most=6):
    inputs = tf_keras.Input((1, 1, 3))
    parts = CenterNetParts(
        num_classes=classes, input_size=(SIDE * STRIDE,) * 2, scaling=InputScaling(), heads=(), nms=nms,
        max_detections=most, finds_boxes=boxes, keypoints=tuple(tasks), criterion=None, paths={},
    )  # fmt: skip
    return CenterNetModel(tf_keras.Model(inputs, inputs), parts)


@cases(*CASES)
def test_detections_are_the_reference_s(*, name):
    classes, boxes, tasks, nms = CASES[name]
    model, sizes = _model(classes, boxes, tasks, nms), tf.constant([[SIDE * STRIDE] * 2] * 2)
    found = model.find(_predictions(classes, boxes, tasks, list(CASES).index(name)), sizes)
    detections, found = model.finished(found, sizes)
    # The reference leaves rescored objects in the order of their peaks.
    order = np.argsort(-ARRAYS[f"{name}/detection_scores"], axis=1, kind="stable")
    served = named_detections(detections) | {"detection_keypoint_scores": found.keypoint_scores}
    served |= {"detection_multiclass_scores": found.class_scores}
    served |= {"detection_keypoint_depths": found.keypoint_depths}
    checked = 0
    for key, wanted in ARRAYS.items():
        case, _, field = key.partition("/")
        if case == name and field in served:
            values = served[field].numpy() - (1 if field == "detection_classes" else 0)
            expected = wanted
            if wanted.ndim > 1:
                expected = np.stack([rows[places] for rows, places in zip(wanted, order, strict=True)])
            # The reference leaves boxes around keypoints beyond the image's edge.
            expected = expected.clip(0.0, 1.0) if field == "detection_boxes" else expected
            np.testing.assert_allclose(values, expected, rtol=1e-4, atol=1e-5, err_msg=field)
            checked += 1
    assert checked >= 5 + 2 * bool(tasks) + any(task.depths for task in tasks)


def test_objects_of_several_tasks_have_boxes_and_scores_of_their_own_keypoints():
    tasks = [_task(rescored=True, rescoring_threshold=0.4), _task("tail", 1, (3, 4), (1.0, 1.0))]
    model, sizes = _model(3, False, tasks, most=12), tf.constant([[SIDE * STRIDE] * 2] * 2)
    objects = model.find(_predictions(3, False, tasks, 100), sizes)
    found, _ = model.finished(objects, sizes)
    counts = np.zeros(3, int)
    for image in range(2):
        rows = []
        for n, (score, label) in enumerate(zip(objects.scores[image], objects.classes[image], strict=True)):
            task = next((task for task in tasks if task.class_index == label), None)
            own = [] if task is None else list(task.indices)
            points = objects.keypoints[image, n].numpy() / SIDE
            assert not points[[k for k in range(5) if k not in own]].any()
            box = [*points[own].min(axis=0), *points[own].max(axis=0)] if own else [0.0] * 4
            seen = [s for s in objects.keypoint_scores[image, n].numpy()[own] if s > 0.4]
            factor = sum(seen) / max(len(seen), 1) if task is tasks[0] else 1.0
            counts[label] += 1
            rows.append((float(score) * factor, int(label), np.clip(box, 0.0, 1.0)))
        rows.sort(key=lambda row: -row[0])
        np.testing.assert_allclose(found.scores[image], [row[0] for row in rows], rtol=1e-5)
        assert found.classes[image].numpy().tolist() == [row[1] for row in rows]
        np.testing.assert_allclose(found.boxes[image], [row[2] for row in rows], atol=1e-6)
    assert counts.min() > 2 and found.count.numpy().tolist() == [12, 12]


def _arrays(case):
    return {key.partition("/")[2]: value for key, value in ARRAYS.items() if key.startswith(f"{case}/")}


def _truth(given, **more):
    classes, weights = tf.constant(given["classes"], tf.int32), tf.constant(given["weights"])
    fields = {"keypoints": tf.constant(given["keypoints"]), **more}
    return new_truth(boxes=tf.zeros([2, 3, 4]), classes=classes, weights=weights, **fields)


@cases(("shared", 1), ("own", 3))
def test_targets_and_loss_of_depths_are_the_reference_s(*, kind, depths):
    given = _arrays("depths")
    truth = _truth(
        given,
        keypoint_weights=tf.zeros([2, 3, 4]),
        keypoint_depths=tf.constant(given["depths"]),
        keypoint_depth_weights=tf.constant(given["depth_weights"]),
    )
    task = dataclasses.replace(_task("pose", 1, (0, 2, 3), depths=depths), offset_radius=1)
    losses = KeypointLosses(
        task=task, classification=SigmoidLoss(), localization=L1Loss(), weights=(1.0,) * 3, depth_weight=2.0
    )
    shape = (16, 24)
    outputs = np.random.RandomState(1).standard_normal((2, *shape, depths)).astype(np.float32)
    places, values, weights = (given[f"{kind}_{part}"] for part in ("indices", "values", "weights"))
    own = outputs[tuple(places.T)] if depths > 1 else outputs[(*places.T, np.zeros(len(places), int))]
    wanted = 2.0 * (weights * np.abs(own - values[:, 0])).sum() / max(weights.sum(), 1.0)
    heads = {name: [tf.zeros([2, *shape, 6])] for name in keypoint_heads("pose")}
    heads[keypoint_heads("pose")[0]] = [tf.zeros([2, *shape, 3])]
    found = keypoint_losses(
        losses, {**heads, depth_head("pose"): [tf.constant(outputs)]}, truth, tf.ones([2, *shape, 1]), shape
    )
    np.testing.assert_allclose(found[depth_head("pose")], wanted, rtol=1e-5)


def test_centres_of_keypoints_are_the_reference_s():
    truth = _truth(_arrays("centers"), keypoint_weights=tf.ones([2, 3, 4]))
    known = keypoint_truth(truth, (16, 24), 1, (0, 2, 3))
    drawn = keypoint_center_heatmaps(truth, known, (1.0, 0.0, 2.0), 0.7, (16, 24, 3))
    np.testing.assert_allclose(drawn, ARRAYS["centers/heatmap"], rtol=1e-4, atol=1e-6)
    assert drawn.numpy()[..., 1].max() == 1.0 and not drawn.numpy()[..., 0].any()


def test_places_without_an_object_stay_empty_whatever_the_classes_score_there():
    boxes = tf.constant([[[0.0, 0.0, 8.0, 8.0], [8.0, 8.0, 16.0, 16.0]]])
    none = tf.zeros([1, 2, 0])
    found = FoundObjects(
        boxes=boxes,
        scores=tf.constant([[0.9, 0.0]]),
        classes=tf.constant([[1, 0]]),
        class_scores=tf.constant([[[0.1, 0.9], [0.8, 0.1]]]),
        keypoints=none[..., tf.newaxis],
        keypoint_scores=none,
        keypoint_depths=none,
    )
    kept = suppressed(found, tf.constant([[64, 64]]), HARD)
    np.testing.assert_allclose(kept.scores, [[0.9, 0, 0, 0, 0]])
    assert kept.classes[0, 0] == 1
