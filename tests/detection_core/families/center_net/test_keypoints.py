import math

import numpy as np
import pytest
import tensorflow as tf

from detection_core.errors import ConfigError
from detection_core.families.center_net import decoding
from detection_core.families.center_net.build import keypoint_labels
from tests.support.cases import refused
from tests.support.center_net_goldens import LABELS, small_config
from tests.support.golden_cases import load_cases

CASES = load_cases(__file__, "reference")
NAMES = ("keypoint_candidates", "keypoint_scores", "num_keypoint_candidates")


@pytest.mark.parametrize("name", ["shared_offset", "per_keypoint_offset"])
def test_candidates_are_the_reference_s(name):
    case = CASES[f"keypoint_candidates_{name}"]
    options = decoding.Refinement(
        score_threshold=case.params["keypoint_score_threshold"],
        window=case.params["max_pool_kernel_size"],
        candidates=case.params["max_candidates"],
    )
    found = decoding.find_candidates(
        tf.constant(case.inputs["heatmap"]), tf.constant(case.inputs["offsets"]), options
    )
    for values, output in zip(found[:3], ("candidates", "scores", "num_candidates"), strict=True):
        np.testing.assert_allclose(values, case.outputs[output], rtol=1e-5, err_msg=output)


def _case(name):
    given = CASES[name].inputs
    found = decoding.Candidates(*(tf.constant(given[each]) for each in NAMES))
    boxes = tf.constant(given["bboxes"]) if "bboxes" in given else None
    return tf.constant(given["regressed_keypoints"]), found, boxes


@pytest.mark.parametrize("boxes", ["boxes", "noboxes"])
@pytest.mark.parametrize("ranking", ["min_distance", "score_distance_ratio"])
def test_refined_keypoints_are_the_reference_s(ranking, boxes):
    name = f"refine_keypoints_{ranking}_{boxes}"
    found = decoding.refine(*_case(name), decoding.Refinement(ranking=ranking, distance_offset=1e-6))[:2]
    for values, output in zip(found, ("keypoints", "scores"), strict=True):
        np.testing.assert_allclose(values, CASES[name].outputs[output], rtol=1e-5, err_msg=output)


def _deviation(box):
    height, width = box[2] - box[0], box[3] - box[1]
    overlap = 0.7
    b, c = 2 * overlap * (height + width), (overlap - 1) * height * width
    return (2 * math.floor((-b + math.sqrt(b * b - 16 * overlap * c)) / 2) + 1) / 6


def _quality(ranking, score, distance, box, deviation):
    """As published: each ranking in one line."""
    side = max(box[2] - box[0], box[3] - box[1])
    return {
        "min_distance": -distance,
        "score_distance_ratio": score / (distance + 1.0),
        "score_scaled_distance_ratio": score / (distance + 0.1 * side),
        "gaussian_weighted": score * math.exp(-(distance**2) / (2 * (deviation * _deviation(box)) ** 2)),
    }[ranking]


@pytest.mark.parametrize("ranking", decoding.RANKINGS)
def test_refined_keypoints_are_those_of_a_loop(ranking):
    regressed, found, boxes = _case("refine_keypoints_min_distance_boxes")
    deviations = (0.5, 1.0, 1.5)
    options = decoding.Refinement(ranking=ranking, deviations=deviations, score_threshold=0.05)
    points, scores, _ = decoding.refine(regressed, found, boxes, options)
    moved = 0
    for n, box in enumerate(boxes.numpy()[0]):
        middle, half = (box[:2] + box[2:]) / 2, (box[2:] - box[:2]) / 2 * 1.2
        for k in range(3):
            start = regressed.numpy()[0, n, k]
            rows = [
                (place, score, float(np.linalg.norm(place - start)))
                for place, score in zip(
                    found.places.numpy()[0, :, k], found.scores.numpy()[0, :, k], strict=True
                )
            ][: int(found.counts[0, k])]
            best = max(rows, key=lambda row: _quality(ranking, row[1], row[2], box, deviations[k]))
            score = best[1]
            if ranking == "gaussian_weighted":
                score = _quality(ranking, best[1], best[2], box, deviations[k])
            near = min(row[2] for row in rows) <= 0.3 * 2 * half.max()
            inside = (np.abs(best[0] - middle) <= half).all()
            wanted = (best[0], score) if near and inside and score >= 0.05 else (start, 0.1)
            moved += wanted[0] is best[0]
            np.testing.assert_allclose(points[0, n, k], wanted[0], rtol=1e-4)
            np.testing.assert_allclose(scores[0, n, k], wanted[1], rtol=1e-4)
    assert 0 < moved < 6


@pytest.mark.parametrize("clipped", [True, False])
def test_keypoints_in_true_images_are_the_reference_s(clipped):
    case = CASES[f"normalized_keypoints_clip_{clipped}"]
    sizes = tf.constant(case.inputs["true_image_shapes"][:, :2])
    points = decoding.in_true_images(tf.constant(case.inputs["keypoints"]), sizes, 4)
    scores = tf.constant(case.inputs["scores"])
    points, scores = decoding.clip_to_image(points, scores) if clipped else (points, scores)
    np.testing.assert_allclose(points, case.outputs["keypoints"], rtol=1e-5)
    np.testing.assert_allclose(scores, case.outputs["scores"], rtol=1e-5)


def test_an_object_s_score_is_multiplied_by_the_mean_of_its_visible_keypoints():
    keypoints = tf.constant([[[0.9, 0.5, 0.1], [0.1, 0.1, 0.1], [0.9, 0.9, 0.9]]])
    of_task = tf.constant([[True, True, False]])
    found = decoding.rescore(
        tf.constant([[0.8, 0.6, 0.5]]), of_task, keypoints, decoding.Refinement(rescoring_threshold=0.2)
    )
    np.testing.assert_allclose(found, [[0.8 * 0.7, 0.0, 0.5]], rtol=1e-6)


def test_classes_and_keypoints_are_those_of_the_label_map(tmp_path):
    path = tmp_path / "labels.pbtxt"
    path.write_text(LABELS)
    message = small_config(labels=str(path)).model.center_net
    (found,) = keypoint_labels(message, "m", inspected=False)
    assert (found.class_index, found.indices, found.names) == (1, (0, 1), ("start", "end"))
    message.keypoint_estimation_task[0].keypoint_class_name = "dark"
    refused(
        ConfigError, "with keypoints, bright, found 'dark'", keypoint_labels, message, "m", inspected=False
    )
    message.keypoint_label_map_path = "PATH_TO_BE_CONFIGURED"
    where = refused(
        ConfigError, "a label map with the keypoints", keypoint_labels, message, "m", inspected=False
    )
    assert where.where == "m.keypoint_label_map_path"
    (found,) = keypoint_labels(message, "m", inspected=True)
    assert found.names == ("end",)
