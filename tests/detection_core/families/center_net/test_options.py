"""Every option of decoding, alone and with others: whole post-processing against the reference's.

`data/postprocess.npz` has what the reference made of the noise of `_predictions`, case by case.
"""

import pathlib

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from detection_core.detectors.base import named_detections
from detection_core.families.center_net.decoding import KeypointTask, Refinement
from detection_core.families.center_net.model import CenterNetModel, CenterNetParts, InputScaling
from detection_core.families.center_net.targets import keypoint_center_heatmaps, keypoint_truth
from detection_core.ops.nms import NmsOptions
from detection_core.ops.objects import new_truth

ARRAYS = dict(np.load(pathlib.Path(__file__).parent / "data" / "postprocess.npz"))
SIDE, STRIDE = 16, 4
DEVIATIONS = (0.5, 1.0, 1.5)
HARD = NmsOptions(score_threshold=0.3, iou_threshold=0.4, max_detections_per_class=3, max_total_detections=5)
SOFT = NmsOptions(
    score_threshold=0.3,
    iou_threshold=0.5,
    max_detections_per_class=4,
    max_total_detections=5,
    soft_nms_sigma=0.5,
)
AGNOSTIC = NmsOptions(
    score_threshold=0.3,
    iou_threshold=0.4,
    max_detections_per_class=3,
    max_total_detections=5,
    class_agnostic=True,
)


def _task(name="pose", class_index=0, indices=(0, 1, 2), deviations=DEVIATIONS, wider=1.0, **refinement):
    spread = tuple(wider * deviation for deviation in deviations)
    return KeypointTask(
        name=name,
        class_index=class_index,
        indices=indices,
        deviations=deviations,
        offsets_of_keypoints=True,
        refinement=Refinement(
            score_threshold=0.3, candidates=8, distance_offset=1e-6, deviations=spread, **refinement
        ),
    )


TAIL = _task("tail", 1, (3, 4), (1.0, 1.0))
# Name -> classes, whether there are boxes, keypoint tasks, suppression; the order is that of the seeds.
CASES = {
    "suppressed": (2, True, [], HARD),
    "suppressed_softly": (2, True, [], SOFT),
    "suppressed_across_classes": (2, True, [], AGNOSTIC),
    "suppressed_with_keypoints": (2, True, [_task()], HARD),
    "keypoints_only": (1, False, [_task()], None),
    "keypoints_only_ratio": (1, False, [_task(ranking="score_distance_ratio")], None),
    "keypoints_only_suppressed": (1, False, [_task()], HARD),
    "rescored": (1, True, [_task(rescored=True, rescoring_threshold=0.4)], None),
    "rescored_clipped": (2, True, [_task(rescored=True, rescoring_threshold=0.2, clipped=True)], None),
    "scaled_ratio": (
        1,
        True,
        [_task(ranking="score_scaled_distance_ratio", distance_multiplier=0.2)],
        None,
    ),
    "gaussian": (1, True, [_task(ranking="gaussian_weighted", wider=2.0)], None),
    "gaussian_rescored": (2, True, [_task(ranking="gaussian_weighted", rescored=True)], None),
    "two_tasks_one_clips": (2, True, [_task(clipped=True), TAIL], None),
}
SEEDS = {**dict(zip(CASES, range(len(CASES)), strict=True)), "two_tasks_one_clips": 15}


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
    return {name: [tf.constant(values, tf.float32)] for name, values in found.items()}


def _model(classes, boxes, tasks, nms):
    inputs = tf_keras.Input((1, 1, 3))
    parts = CenterNetParts(
        num_classes=classes,
        input_size=(SIDE * STRIDE, SIDE * STRIDE),
        scaling=InputScaling(),
        heads=(),
        max_detections=6,
        finds_boxes=boxes,
        nms=nms,
        keypoints=tuple(tasks),
        criterion=None,
        paths={},
    )
    return CenterNetModel(tf_keras.Model(inputs, inputs), parts)


@pytest.mark.parametrize("name", CASES)
def test_detections_are_the_reference_s(name):
    classes, boxes, tasks, nms = CASES[name]
    model, sizes = _model(classes, boxes, tasks, nms), tf.constant([[SIDE * STRIDE] * 2] * 2)
    found = model.find(_predictions(classes, boxes, tasks, SEEDS[name]), sizes)
    detections, keypoint_scores = model.finished(found, sizes)
    served = named_detections(detections) | {"detection_keypoint_scores": keypoint_scores}
    served |= {"detection_multiclass_scores": found.class_scores}
    checked = 0
    for key, wanted in ARRAYS.items():
        case, _, field = key.partition("/")
        if case == name and field in served:
            values = served[field].numpy() - (1 if field == "detection_classes" else 0)
            # The reference leaves boxes around keypoints beyond the image's edge.
            expected = wanted.clip(0.0, 1.0) if field == "detection_boxes" else wanted
            np.testing.assert_allclose(values, expected, rtol=1e-4, atol=1e-5, err_msg=field)
            checked += 1
    assert checked >= 5 + 2 * bool(tasks)


def test_centres_of_keypoints_are_the_reference_s():
    keypoints, classes, weights = (ARRAYS[f"centers/{name}"] for name in ("keypoints", "classes", "weights"))
    truth = new_truth(
        boxes=tf.zeros([2, 3, 4]),
        classes=tf.constant(classes, tf.int32),
        weights=tf.constant(weights),
        keypoints=tf.constant(keypoints),
        keypoint_weights=tf.ones([2, 3, 4]),
    )
    known = keypoint_truth(truth, (16, 24), 1, (0, 2, 3))
    drawn = keypoint_center_heatmaps(truth, known, (1.0, 0.0, 2.0), 0.7, (16, 24, 3))
    np.testing.assert_allclose(drawn, ARRAYS["centers/heatmap"], rtol=1e-4, atol=1e-6)
    assert drawn.numpy()[..., 1].max() == 1.0 and not drawn.numpy()[..., 0].any()
