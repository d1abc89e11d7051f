from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from detection_core.data.decode import (
    DecodeOptions,
    class_text_table,
    decode_example,
    drop_unusable_objects,
)
from detection_core.data.label_map import LabelMapItem
from tests.detection_core.data.record_files import example, image_bytes
from tests.detection_core.golden_cases import load_cases

CASES = load_cases(__file__, "tf_example_decoder")
AUTOML = load_cases(__file__, "automl_examples")
ITEMS = [
    LabelMapItem(id=1, name="cat", display_name="Cat"),
    LabelMapItem(id=2, name="dog", display_name="Dog"),
    LabelMapItem(id=5, name="bird", display_name="Bird"),
]
FLAGS = {"groundtruth_area": "area", "groundtruth_is_crowd": "is_crowd", "groundtruth_weights": "weights"}


def _decoded(name: str):
    case = CASES[name]
    options = case.params["options"]
    table = class_text_table(ITEMS) if options.get("label_map") else None
    masks = options.get("instance_mask_type", "")
    record = case.inputs["example"].tobytes()
    decoding = DecodeOptions(
        masks=masks,
        keypoints=options.get("num_keypoints", 0),
        score_columns=2 if options.get("load_multiclass_scores") else 0,
    )
    return decode_example(tf.constant(record), table=table, options=decoding)


@pytest.mark.parametrize("name", list(CASES))
def test_golden(name: str) -> None:
    expected, decoded = CASES[name].outputs, _decoded(name)
    sample, count = decoded.sample, len(expected["groundtruth_boxes"])
    truth = sample.truth
    np.testing.assert_array_equal(sample.image, expected["image"])
    assert sample.source_id == CASES[name].params["decoded_strings"]["source_id"]
    np.testing.assert_allclose(truth.boxes, expected["groundtruth_boxes"], atol=1e-6)
    np.testing.assert_array_equal(truth.classes + 1, expected["groundtruth_classes"])
    # The reference leaves a missing flag out; here it is False or 0 for every object.
    for key, field in FLAGS.items():
        stored = expected[key] if len(expected[key]) else np.zeros(count)
        np.testing.assert_allclose(np.float32(getattr(truth, field)), np.float32(stored), err_msg=field)
    stored = expected["groundtruth_difficult"]
    np.testing.assert_array_equal(decoded.difficult, stored > 0 if len(stored) else np.zeros(count, bool))
    assert {len(field) for field in truth} == {count}


@pytest.mark.parametrize("name", ["masks_numerical", "masks_png", "masks_png_255"])
def test_golden_masks(name: str) -> None:
    masks = _decoded(name).sample.truth.masks
    assert masks.dtype == tf.uint8
    np.testing.assert_array_equal(masks, CASES[name].outputs["groundtruth_instance_masks"])


@pytest.mark.parametrize("name", ["keypoints", "keypoints_without_visibility"])
def test_golden_keypoints(name: str) -> None:
    truth, expected = _decoded(name).sample.truth, CASES[name].outputs
    np.testing.assert_allclose(truth.keypoints, expected["groundtruth_keypoints"], atol=1e-6)
    np.testing.assert_array_equal(truth.keypoint_weights, expected["groundtruth_keypoint_visibilities"])


def test_golden_class_scores() -> None:
    scores = _decoded("multiclass_scores").sample.truth.class_scores
    np.testing.assert_allclose(np.ravel(scores), CASES["multiclass_scores"].outputs["multiclass_scores"])


@pytest.mark.parametrize(("background", "columns"), [(False, [0, 1]), (True, [1, 2])])
def test_objects_without_scores_and_keypoints_are_sure_of_their_class(background, columns) -> None:
    options = DecodeOptions(keypoints=4, score_columns=3, background_column=background)
    record = CASES["basic"].inputs["example"].tobytes()
    truth = decode_example(tf.constant(record), options=options).sample.truth
    np.testing.assert_array_equal(truth.class_scores, np.eye(3)[columns])
    assert truth.keypoints.shape == (2, 4, 2) and np.isnan(truth.keypoints).all()
    assert not np.any(truth.keypoint_weights)
    np.testing.assert_array_equal(truth.confidences, [1.0, 1.0])


def test_confidences_are_read() -> None:
    sides = {f"image/object/bbox/{side}": [0.1, 0.2] for side in ("ymin", "xmin", "ymax", "xmax")}
    fields = {
        "image/encoded": [image_bytes(4, 5)],
        "image/object/class/label": [1, 1],
        "image/object/class/confidence": [1.0, -1.0],
        **sides,
    }
    truth = decode_example(tf.constant(example(fields))).sample.truth
    np.testing.assert_array_equal(truth.confidences, [1.0, -1.0])


def test_objects_without_a_mask_have_an_empty_one() -> None:
    masks = np.asarray(_decoded("masks_png_none").sample.truth.masks)
    assert masks.shape == (2, 6, 9) and not masks.any()


def test_a_text_that_two_classes_claim_is_the_larger_id() -> None:
    table = class_text_table([LabelMapItem(id=3, name="a", display_name="b"), LabelMapItem(id=7, name="b")])
    assert table.lookup(tf.constant(["a", "b", "c"])).numpy().tolist() == [3, 7, -1]


def test_unknown_classes_and_boxes_that_are_no_numbers_are_dropped() -> None:
    sides = {
        f"image/object/bbox/{side}": [value, float("nan") if side == "ymax" else value, value, value]
        for side, value in {"ymin": 0.1, "xmin": 0.2, "ymax": 0.5, "xmax": 0.6}.items()
    }
    record = example(
        {
            "image/encoded": [image_bytes(4, 5, kind="JPEG")],
            "image/object/class/text": [b"cat", b"dog", b"unicorn", b"bird"],
            "image/object/difficult": [0, 1, 0, 1],
            "image/object/group_of": [1, 0, 1, 0],
            "image/class/text": [b"dog", b"unicorn", b"bird"],
            **sides,
        }
    )
    decoded = drop_unusable_objects(decode_example(tf.constant(record), table=class_text_table(ITEMS)))
    sample = decoded.sample
    assert sample.image.shape == (4, 5, 3)
    assert sample.truth.classes.numpy().tolist() == [0, 4]
    assert decoded.difficult.numpy().tolist() == [False, True]
    assert decoded.group_of.numpy().tolist() == [True, False]
    assert decoded.labelled.numpy().tolist() == [1, 4]
    assert sample.truth.masks.shape == (2, 0, 0)


def test_masks_that_are_not_asked_for_have_no_size_in_a_graph() -> None:
    decode = tf.function(decode_example, input_signature=[tf.TensorSpec([], tf.string)])
    assert decode.get_concrete_function().structured_outputs.sample.truth.masks.shape[1:] == [0, 0]


@pytest.mark.parametrize("name", [name for name in AUTOML if "regenerate" not in name])
def test_golden_records_of_automl_are_read_as_they_are(name: str) -> None:
    case = AUTOML[name]
    masked = case.params.get("include_mask", False)
    options = DecodeOptions(masks="PNG_MASKS" if masked else "")
    found = decode_example(
        tf.constant(case.inputs["serialized"].tobytes()), table=None, options=options
    ).sample
    boxes = case.outputs.get("groundtruth_boxes", case.outputs.get("boxes"))
    np.testing.assert_allclose(found.truth.boxes, boxes, rtol=1e-4, atol=1e-3)
    if masked:
        np.testing.assert_array_equal(found.truth.masks, case.outputs["masks"])
        return
    np.testing.assert_array_equal(found.image, case.outputs["image"])
    np.testing.assert_array_equal(found.truth.classes + 1, case.outputs["groundtruth_classes"])
    np.testing.assert_array_equal(found.truth.is_crowd, case.outputs["groundtruth_is_crowd"])
