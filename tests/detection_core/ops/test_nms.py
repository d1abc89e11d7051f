"""Suppression against the reference, slow loops, and itself in another form."""

import dataclasses
import itertools

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest
import tensorflow as tf

from detection_core.ops import nms
from detection_core.ops.nms import NmsOptions, multiclass_nms
from tests.support.batches import random_boxes, slow_iou
from tests.support.cases import cases
from tests.support.golden_cases import GoldenCase, load_cases

CASES = load_cases(__file__, "nms")
GOLDENS = [case for case in CASES.values() if "scores" in case.outputs and "boxes" in case.inputs]
TIES = list(load_cases(__file__, "nms_ties").values())


def _with_batch(case: GoldenCase):
    """Boxes, scores and window with a batch dimension, whatever function the case called."""
    boxes, scores = case.inputs["boxes"], case.inputs["scores"]
    window = case.inputs.get("clip_window", case.params.get("clip_window"))
    if case.params.get("use_combined_nms") and window is None:
        window = [0.0, 0.0, 1.0, 1.0]  # The reference's combined kernel clips to the unit square by itself.
    if boxes.ndim == 3:
        boxes, scores = boxes[np.newaxis], scores[np.newaxis]
    if "num_valid_boxes" in case.inputs:
        absent = np.arange(boxes.shape[1]) >= case.inputs["num_valid_boxes"][:, np.newaxis]
        scores = np.where(absent[..., np.newaxis], -1, scores).astype(np.float32)
    if window is not None:
        window = np.broadcast_to(np.asarray(window, np.float32), (len(boxes), 4))
    return boxes, scores, window


@cases(*GOLDENS, *TIES)
def test_golden(*, case: GoldenCase):
    params = case.params
    agnostic = params["function"].startswith("class_agnostic")
    options = NmsOptions(
        score_threshold=params["score_thresh"], iou_threshold=params["iou_thresh"],
        max_detections_per_class=params.get("max_size_per_class", 100),
        max_total_detections=params["max_total_size"], soft_nms_sigma=params.get("soft_nms_sigma", 0.0),
        class_agnostic=params.get("use_class_agnostic_nms", False) or agnostic,
        change_coordinate_frame=params.get("change_coordinate_frame", False),
    )  # fmt: skip
    boxes, scores, window = _with_batch(case)
    found = multiclass_nms(boxes, scores, options, window)
    single = case.inputs["boxes"].ndim == 3
    expected = {k: v[np.newaxis] if single else v for k, v in case.outputs.items()}
    counts = expected.get("num_detections", expected.get("num_valid"))
    np.testing.assert_array_equal(found.count, counts)
    for image, count in enumerate(counts):
        kept = slice(0, int(count))
        for name in ("scores", "classes", "boxes"):
            field, tolerance = getattr(found, name)[image, kept], 0 if name == "classes" else 1e-5
            np.testing.assert_allclose(field, expected[name][image, kept], 10 * tolerance, tolerance)
        _check_fields(case, expected, image, found, kept)


def _check_fields(case, expected, image, found, kept):
    """Every additional field of the reference is what the anchor indices pick."""
    anchors, classes = found.anchor_indices[image, kept].numpy(), found.classes[image, kept].numpy()

    def source(name):
        return case.inputs[name][image] if "batch" in case.name else case.inputs[name]

    for name in ("anchor", "keypoints"):
        if f"field_{name}" in expected:
            wanted = expected[f"field_{name}"][image, kept]
            np.testing.assert_allclose(source(f"additional_{name}")[anchors], wanted, atol=1e-6)
    masks = expected.get("masks", expected.get("field_masks"))
    if masks is not None:
        per_class = classes if source("masks").shape[1] > 1 else np.zeros_like(classes)
        np.testing.assert_allclose(source("masks")[anchors, per_class], masks[image, kept], atol=1e-6)


def _random(seed, batch=2, anchors=60, classes=3):
    rng = np.random.default_rng(seed)
    boxes = random_boxes(rng, batch, anchors, low=-0.1, high=0.8, sides=(0.05, 0.5))
    return boxes, rng.uniform(0, 1, (batch, anchors, classes)).astype(np.float32)


LIMITS = {"max_detections_per_class": 8, "max_total_detections": 12}
OPTIONS = NmsOptions(score_threshold=0.3, iou_threshold=0.4, **LIMITS)


def _slow(boxes, scores, options, window):
    """One image, one class and one candidate after the other; rows of (score, class, anchor, box)."""
    rows = []
    for label in range(scores.shape[1]):
        kept = []
        for anchor in np.argsort(-scores[:, label], kind="stable"):
            full = len(kept) == options.max_detections_per_class
            if scores[anchor, label] <= options.score_threshold or full:
                break
            if all(slow_iou(boxes[anchor], boxes[other]) <= options.iou_threshold for other in kept):
                kept.append(anchor)
        rows += [(scores[anchor, label], label, anchor) for anchor in kept]
    result, low, high = [], window[[0, 1, 0, 1]], window[[2, 3, 2, 3]]
    for score, label, anchor in sorted(rows, key=lambda row: -row[0]):
        box = np.clip(boxes[anchor], low, high)
        if (box[2] - box[0]) * (box[3] - box[1]) > 0:
            result.append((score, label, anchor, (box - low) / (high - low)))
    return result[: options.max_total_detections]


def _assert_equals_loop(boxes, scores, options, windows):
    options = dataclasses.replace(options, change_coordinate_frame=True)
    found = multiclass_nms(boxes, scores, options, windows)
    for image, window in enumerate(windows):
        expected = _slow(boxes[image], scores[image], options, window)
        count = len(expected)
        assert found.count[image] == count
        fields = (found.scores, found.classes, found.anchor_indices, found.boxes)
        for place, field in enumerate(field[image].numpy() for field in fields):
            values = np.reshape([row[place] for row in expected], field[:count].shape)
            np.testing.assert_allclose(field[:count], values, atol=1e-5 if place == 3 else 0)
            assert not field[count:].any()


@cases(*range(5))
def test_equals_a_loop(*, seed):
    # A narrow window, so that some of the best boxes lie outside it.
    _assert_equals_loop(*_random(seed), OPTIONS, np.float32([[0.5, 0.0, 1.0, 0.6], [0.0, 0.0, 0.4, 0.4]]))


@cases(*itertools.product([False, True], range(3)))
def test_both_paths_agree(*, per_class_boxes, seed):
    boxes, scores = _random(seed)
    boxes = boxes[:, :, np.newaxis]
    if per_class_boxes:
        boxes = np.concatenate([boxes, boxes + 0.05, boxes * 0.9], axis=2)
    one, other = (path(boxes, scores, OPTIONS) for path in (nms.all_at_once, nms.one_by_one))
    np.testing.assert_array_equal(one.scores, other.scores)
    found = other.scores.numpy() > nms.NO_CANDIDATE
    assert found.any(axis=1).all()
    for first, second in zip(one, other, strict=True):
        np.testing.assert_array_equal(first.numpy()[found], second.numpy()[found])


@st.composite
def _tied(draw) -> tuple[np.ndarray, np.ndarray]:
    """Boxes on a coarse grid, many of them the same, with few different scores."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    anchors, classes = draw(st.integers(1, 120)), draw(st.integers(1, 4))
    cells = rng.integers(0, draw(st.integers(1, 8)), (2, anchors, 2)) / 8
    boxes = np.concatenate([cells, cells + rng.choice([0.2, 0.25, 0.35], (2, anchors, 2))], -1)
    scores = rng.integers(0, draw(st.integers(1, 12)) + 1, (2, anchors, classes)) / 16 + 0.2
    return boxes.astype(np.float32), scores.astype(np.float32)


@pytest.mark.parametrize("sorted_candidates", [1, 1024])
@hypothesis.settings(max_examples=30, deadline=None)
@hypothesis.given(inputs=_tied(), per_class=st.integers(1, 12), total=st.integers(1, 20))
def test_among_equal_scores_the_lower_class_and_anchor_come_first(
    sorted_candidates, inputs, per_class, total
):
    """Also where the sorted candidates do not decide and further ones have to be looked at."""
    options = dataclasses.replace(
        OPTIONS, max_detections_per_class=per_class, max_total_detections=total, score_threshold=0.25
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nms, "SORTED_CANDIDATES", sorted_candidates)
        _assert_equals_loop(*inputs, options, np.float32([[0.1, 0.0, 0.9, 0.8]] * 2))


@cases(0, 1500)
def test_candidates_behind_the_sorted_ones_are_found(*, crowd):
    """A crowd on one spot fills the sorted candidates and is one object; the others come after it."""
    others = np.linspace(0.0, 0.7, 5, dtype=np.float32)
    others = np.stack([others, others, others + 0.1, others + 0.1], 1)
    boxes = np.concatenate([np.tile([0.8, 0.8, 0.9, 0.9], (crowd, 1)), others]).astype(np.float32)
    scores = np.float32([0.9] * crowd + [0.5] * 5)
    found = multiclass_nms(boxes[np.newaxis], scores[np.newaxis, :, np.newaxis], OPTIONS)
    assert found.count[0] == 5 + bool(crowd)
    assert found.anchor_indices[0, found.count[0] - 1] == crowd + 4


def _assert_same_detections(found, expected):
    for name, values in expected._asdict().items():
        np.testing.assert_array_equal(getattr(found, name), values, err_msg=name)


@pytest.mark.parametrize(("anchors", "candidates"), [(1, 1), (3, 1), (8, 2), (40, 10)])
@hypothesis.settings(max_examples=20, deadline=None)
@hypothesis.given(
    inputs=_tied() | st.integers(0, 99).map(lambda seed: _random(seed, anchors=90)),
    box_per_class=st.booleans(),
    windowed=st.booleans(),
    options=st.builds(
        NmsOptions,
        score_threshold=st.sampled_from([0.0, 0.25, 0.7]),
        iou_threshold=st.sampled_from([0.0, 0.4, 1.0]),
        max_detections_per_class=st.integers(1, 12),
        max_total_detections=st.integers(1, 20),
        class_agnostic=st.booleans(),
        soft_nms_sigma=st.sampled_from([0.0, 0.0, 0.5]),
    ),
)
def test_the_best_of_an_image_give_what_all_candidates_give(
    anchors, candidates, inputs, box_per_class, windowed, options
):
    """Where they decide, and where they do not and all are looked at."""
    boxes, scores = inputs
    window = np.float32([[0.1, 0.0, 0.9, 0.8], [0.5, 0.5, 1.0, 1.0]]) if windowed else None
    options = dataclasses.replace(options, change_coordinate_frame=windowed)
    if box_per_class:
        shifts = np.linspace(0, 0.1, scores.shape[2], dtype=np.float32)
        boxes = boxes[:, :, np.newaxis] + shifts[:, np.newaxis]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nms, "best_first", nms.all_at_once)
        expected = multiclass_nms(boxes, scores, options, window)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nms, "LEADING_ANCHORS", anchors)
        patch.setattr(nms, "LEADING_CANDIDATES_AN_ANCHOR", candidates)
        patch.setattr(nms, "LEADING_ANCHORS_A_DETECTION", 0)
        _assert_same_detections(multiclass_nms(boxes, scores, options, window), expected)


def _of_all(boxes, scores, options):
    """Detections without a look at the best of an image first."""
    return nms._finish(nms.all_at_once(boxes[:, :, np.newaxis], scores, options), options, None)


def test_the_best_of_an_image_decide_when_scores_differ(monkeypatch):
    """As a trained detector's do: nothing else is sorted or suppressed."""
    boxes, scores = _random(0, anchors=3000, classes=20)
    options = dataclasses.replace(OPTIONS, score_threshold=0.0, max_total_detections=100)
    expected = _of_all(boxes, scores, options)
    monkeypatch.setattr(nms, "all_at_once", lambda *_: pytest.fail("all candidates were looked at"))
    _assert_same_detections(multiclass_nms(boxes, scores, options), expected)


def test_a_score_that_is_not_a_number_hides_no_other():
    boxes, scores = _random(0, anchors=1000)
    scores[0, :700, 1] = np.nan
    found, other = multiclass_nms(boxes, scores, OPTIONS), _of_all(boxes, scores, OPTIONS)
    np.testing.assert_array_equal(found.anchor_indices, other.anchor_indices)
    np.testing.assert_array_equal(found.classes, other.classes)


def test_few_anchors_no_candidate_and_no_window():
    options = dataclasses.replace(OPTIONS, score_threshold=0.0)
    found = multiclass_nms(*_random(0, anchors=2, classes=1), options)
    assert found.boxes.shape == (2, 12, 4) and np.all(found.count.numpy() <= 2)
    boxes, scores = _random(0)
    for sigma in (0.0, 0.5):
        options = dataclasses.replace(OPTIONS, soft_nms_sigma=sigma)
        found = multiclass_nms(boxes, np.zeros_like(scores), options, np.float32([[0, 0, 1, 1]] * 2))
        assert not any(np.any(field) for field in found)
    assert CASES["change_frame_without_window_error"].error == "ValueError"
    with pytest.raises(ValueError, match="window"):
        multiclass_nms(boxes, scores, dataclasses.replace(OPTIONS, change_coordinate_frame=True))


def test_detections_of_tied_scores_are_the_same_when_saved_and_loaded(tmp_path):
    def serve(boxes, scores, options):
        windows = tf.tile([[0.0, 0.0, 1.0, 1.0]], [tf.shape(boxes)[0], 1])
        return multiclass_nms(boxes, scores, options, windows)._asdict()

    @tf.function(input_signature=[tf.TensorSpec([None, None, 4]), tf.TensorSpec([None, None, 3])])
    def serve_all(boxes, scores):
        return [serve(boxes, scores, options) for options in kinds]

    kinds = [
        dataclasses.replace(OPTIONS, soft_nms_sigma=sigma, class_agnostic=agnostic)
        for agnostic, sigma in itertools.product([False, True], [0.0, 0.5])
    ]
    module = tf.Module()
    module.serve = serve_all
    tf.saved_model.save(module, str(tmp_path))
    boxes, scores = _random(2, anchors=1500)
    scores = np.round(scores, 1)
    loaded = tf.saved_model.load(str(tmp_path)).serve(tf.constant(boxes), tf.constant(scores))
    for found, options in zip(loaded, kinds, strict=True):
        for name, eager in serve(boxes, scores, options).items():
            # Soft suppression multiplies scores, and a graph rounds the products in another order.
            tolerance = 1e-6 if options.soft_nms_sigma else 0
            np.testing.assert_allclose(found[name], eager, atol=tolerance, err_msg=f"{name}, {options}")
