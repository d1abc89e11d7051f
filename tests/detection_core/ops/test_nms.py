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


def _options(params) -> NmsOptions:
    return NmsOptions(
        score_threshold=params["score_thresh"],
        iou_threshold=params["iou_thresh"],
        max_detections_per_class=params.get("max_size_per_class", 100),
        max_total_detections=params["max_total_size"],
        class_agnostic=params.get("use_class_agnostic_nms", False)
        or params["function"].startswith("class_agnostic"),
        soft_nms_sigma=params.get("soft_nms_sigma", 0.0),
        change_coordinate_frame=params.get("change_coordinate_frame", False),
    )


def _batched(case: GoldenCase):
    """Boxes, scores and window with a batch dimension, whatever function the case called."""
    boxes, scores = case.inputs["boxes"], case.inputs["scores"]
    window = case.inputs.get("clip_window", case.params.get("clip_window"))
    if case.params.get("use_combined_nms") and window is None:
        window = [0.0, 0.0, 1.0, 1.0]  # The reference's combined kernel clips to the unit square by itself.
    single = boxes.ndim == 3
    if single:
        boxes, scores = boxes[np.newaxis], scores[np.newaxis]
    if "num_valid_boxes" in case.inputs:
        absent = np.arange(boxes.shape[1]) >= case.inputs["num_valid_boxes"][:, np.newaxis]
        scores = np.where(absent[..., np.newaxis], -1, scores).astype(np.float32)
    if window is not None:
        window = np.broadcast_to(np.asarray(window, np.float32), (len(boxes), 4))
    return boxes, scores, window, single


@cases(*GOLDENS, *TIES)
def test_golden(*, case: GoldenCase):
    boxes, scores, window, single = _batched(case)
    found = multiclass_nms(boxes, scores, _options(case.params), window)
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
    for name in ("anchor", "keypoints"):
        if f"field_{name}" in expected:
            source = case.inputs[f"additional_{name}"]
            source = source if "batch" in case.name else source[np.newaxis]
            np.testing.assert_allclose(
                source[image][anchors], expected[f"field_{name}"][image, kept], atol=1e-6
            )
    masks = expected.get("masks", expected.get("field_masks"))
    if masks is not None:
        source = case.inputs["masks"] if "batch" in case.name else case.inputs["masks"][np.newaxis]
        per_class = classes if source.shape[2] > 1 else np.zeros_like(classes)
        np.testing.assert_allclose(source[image][anchors, per_class], masks[image, kept], atol=1e-6)


def _random(seed, batch=2, anchors=60, classes=3):
    rng = np.random.default_rng(seed)
    boxes = random_boxes(rng, batch, anchors, low=-0.1, high=0.8, sides=(0.05, 0.5))
    return boxes, rng.uniform(0, 1, (batch, anchors, classes)).astype(np.float32)


OPTIONS = NmsOptions(
    score_threshold=0.3, iou_threshold=0.4, max_detections_per_class=8, max_total_detections=12
)


def _slow(boxes, scores, options, window):
    """One image, one class and one candidate after the other; rows of (score, class, anchor, box)."""
    rows = []
    for label in range(scores.shape[1]):
        kept = []
        for anchor in np.argsort(-scores[:, label], kind="stable"):
            if (
                scores[anchor, label] <= options.score_threshold
                or len(kept) == options.max_detections_per_class
            ):
                break
            if all(slow_iou(boxes[anchor], boxes[other]) <= options.iou_threshold for other in kept):
                kept.append(anchor)
        rows += [(scores[anchor, label], label, anchor) for anchor in kept]
    result = []
    for score, label, anchor in sorted(rows, key=lambda row: -row[0]):
        low = np.clip(boxes[anchor], window[[0, 1, 0, 1]], window[[2, 3, 2, 3]])
        if (low[2] - low[0]) * (low[3] - low[1]) > 0:
            size = window[[2, 3, 2, 3]] - window[[0, 1, 0, 1]]
            result.append((score, label, anchor, (low - window[[0, 1, 0, 1]]) / size))
    return result[: options.max_total_detections]


@cases(*range(5))
def test_equals_a_loop(*, seed):
    boxes, scores = _random(seed)
    # A narrow window, so that some of the best boxes lie outside it.
    window = np.array([[0.5, 0.0, 1.0, 0.6], [0.0, 0.0, 0.4, 0.4]], np.float32)
    options = dataclasses.replace(OPTIONS, change_coordinate_frame=True)
    found = multiclass_nms(boxes, scores, options, window)
    for image in range(2):
        expected = _slow(boxes[image], scores[image], options, window[image])
        count = len(expected)
        assert found.count[image] == count
        for field, place in (
            (found.scores, 0),
            (found.classes, 1),
            (found.anchor_indices, 2),
            (found.boxes, 3),
        ):
            values = [row[place] for row in expected]
            np.testing.assert_allclose(
                field[image, :count], np.reshape(values, field[image, :count].shape), atol=1e-5
            )
            assert not field[image, count:].numpy().any()


@cases(*itertools.product([False, True], range(3)))
def test_both_paths_agree(*, per_class_boxes, seed):
    boxes, scores = _random(seed)
    boxes = boxes[:, :, np.newaxis]
    if per_class_boxes:
        boxes = np.concatenate([boxes, boxes + 0.05, boxes * 0.9], axis=2)
    one = nms.all_at_once(boxes, scores, OPTIONS)
    other = nms.one_by_one(boxes, scores, OPTIONS)
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


def _assert_equals_loop(found, boxes, scores, options, window):
    for image in range(len(boxes)):
        expected = _slow(boxes[image], scores[image], options, window)
        count = len(expected)
        assert found.count[image] == count
        rows = [(row[1], row[2]) for row in expected]
        pairs = zip(
            found.classes[image, :count].numpy(), found.anchor_indices[image, :count].numpy(), strict=True
        )
        assert list(pairs) == rows
        np.testing.assert_array_equal(found.scores[image, :count], [row[0] for row in expected])


@pytest.mark.parametrize("sorted_candidates", [1, 1024])
@hypothesis.settings(max_examples=30, deadline=None)
@hypothesis.given(inputs=_tied(), per_class=st.integers(1, 12), total=st.integers(1, 20))
def test_among_equal_scores_the_lower_class_and_anchor_come_first(
    sorted_candidates, inputs, per_class, total
):
    """Also where the sorted candidates do not decide and further ones have to be looked at."""
    boxes, scores = inputs
    window = np.float32([0.1, 0.0, 0.9, 0.8])
    options = dataclasses.replace(
        OPTIONS, max_detections_per_class=per_class, max_total_detections=total, score_threshold=0.25
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nms, "SORTED_CANDIDATES", sorted_candidates)
        found = multiclass_nms(boxes, scores, options, np.stack([window, window]))
    _assert_equals_loop(found, boxes, scores, options, window)


@cases(0, 1500)
def test_candidates_behind_the_sorted_ones_are_found(*, crowd):
    """A crowd on one spot fills the sorted candidates and is one object; the others come after it."""
    others = np.linspace(0.0, 0.7, 5, dtype=np.float32)
    boxes = np.concatenate(
        [np.tile([0.8, 0.8, 0.9, 0.9], (crowd, 1)), np.stack([others] * 2 + [others + 0.1] * 2, 1)]
    )
    scores = np.concatenate([np.full(crowd, 0.9), np.full(5, 0.5)])
    found = multiclass_nms(
        tf.constant(boxes[np.newaxis], tf.float32),
        tf.constant(scores[np.newaxis, :, np.newaxis], tf.float32),
        OPTIONS,
    )
    assert found.count[0] == 5 + bool(crowd)
    assert found.anchor_indices[0, found.count[0] - 1] == crowd + 4


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
        boxes = (
            boxes[:, :, np.newaxis] + np.linspace(0, 0.1, scores.shape[2], dtype=np.float32)[:, np.newaxis]
        )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nms, "best_first", nms.all_at_once)
        expected = multiclass_nms(boxes, scores, options, window)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nms, "LEADING_ANCHORS", anchors)
        patch.setattr(nms, "LEADING_CANDIDATES_AN_ANCHOR", candidates)
        patch.setattr(nms, "LEADING_ANCHORS_A_DETECTION", 0)
        found = multiclass_nms(boxes, scores, options, window)
    for name, values in expected._asdict().items():
        np.testing.assert_array_equal(getattr(found, name), values, err_msg=name)


def test_the_best_of_an_image_decide_when_scores_differ(monkeypatch):
    """As a trained detector's do: nothing else is sorted or suppressed."""
    boxes, scores = _random(0, anchors=3000, classes=20)
    options = dataclasses.replace(OPTIONS, score_threshold=0.0, max_total_detections=100)
    expected = nms._finish(nms.all_at_once(boxes[:, :, np.newaxis], scores, options), options, None)
    monkeypatch.setattr(nms, "all_at_once", lambda *_: pytest.fail("all candidates were looked at"))
    for name, values in multiclass_nms(boxes, scores, options)._asdict().items():
        np.testing.assert_array_equal(values, getattr(expected, name), err_msg=name)


def test_a_score_that_is_not_a_number_hides_no_other():
    boxes, scores = _random(0, anchors=1000)
    scores[0, :700, 1] = np.nan
    found = multiclass_nms(boxes, scores, OPTIONS)
    other = nms._finish(nms.all_at_once(boxes[:, :, np.newaxis], scores, OPTIONS), OPTIONS, None)
    np.testing.assert_array_equal(found.anchor_indices, other.anchor_indices)
    np.testing.assert_array_equal(found.classes, other.classes)


def test_fewer_anchors_than_rows_of_the_result():
    boxes, scores = _random(0, anchors=2, classes=1)
    found = multiclass_nms(boxes, scores, dataclasses.replace(OPTIONS, score_threshold=0.0))
    assert found.boxes.shape == (2, 12, 4)
    assert np.all(found.count.numpy() <= 2)


def test_no_candidate_at_all():
    boxes, _ = _random(0)
    for sigma in (0.0, 0.5):
        options = dataclasses.replace(OPTIONS, soft_nms_sigma=sigma)
        found = multiclass_nms(
            boxes, np.zeros((2, 60, 3), np.float32), options, np.float32([[0, 0, 1, 1]] * 2)
        )
        assert not any(np.any(field) for field in found)


@cases(*itertools.product([False, True], [0.0, 0.5]))
def test_detections_of_tied_scores_are_the_same_when_saved_and_loaded(tmp_path, *, agnostic, sigma):
    options = dataclasses.replace(OPTIONS, soft_nms_sigma=sigma, class_agnostic=agnostic)
    unit = [[0.0, 0.0, 1.0, 1.0]]

    def serve(boxes, scores):
        return multiclass_nms(boxes, scores, options, tf.tile(unit, [tf.shape(boxes)[0], 1]))._asdict()

    module = tf.Module()
    spec = tf.TensorSpec([None, None, 4]), tf.TensorSpec([None, None, 3])
    module.serve = tf.function(serve, input_signature=spec)
    tf.saved_model.save(module, str(tmp_path))
    boxes, scores = _random(2, anchors=1500)
    scores = np.round(scores, 1)
    loaded = tf.saved_model.load(str(tmp_path)).serve(tf.constant(boxes), tf.constant(scores))
    for name, eager in multiclass_nms(boxes, scores, options, np.float32(unit * 2))._asdict().items():
        # Soft suppression multiplies scores, and a graph rounds the products in another order.
        np.testing.assert_allclose(loaded[name], eager, atol=1e-6 if sigma else 0, err_msg=name)


def test_window_is_needed_to_change_the_frame():
    assert CASES["change_frame_without_window_error"].error == "ValueError"
    boxes, scores = _random(0)
    with pytest.raises(ValueError, match="window"):
        multiclass_nms(boxes, scores, dataclasses.replace(OPTIONS, change_coordinate_frame=True))
