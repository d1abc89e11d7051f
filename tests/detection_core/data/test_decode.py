import io
import itertools

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from detection_core.data import decode as module
from detection_core.data.decode import DecodeOptions, class_text_table, decode_example, decode_pixels
from detection_core.data.label_map import LabelMapItem
from detection_core.data.resize import FixedShapeResizer, IdentityResizer, KeepAspectRatioResizer
from tests.support.cases import cases
from tests.support.golden_cases import load_cases
from tests.support.record_files import example, image_bytes

CASES = load_cases(__file__, "tf_example_decoder")
AUTOML = load_cases(__file__, "automl_examples")
NAMES = {1: "cat", 2: "dog", 5: "bird"}
ITEMS = [LabelMapItem(id=n, name=name, display_name=name.title()) for n, name in NAMES.items()]
FLAGS = {"groundtruth_area": "area", "groundtruth_is_crowd": "is_crowd", "groundtruth_weights": "weights"}


def _decoded(name):
    options = CASES[name].params["options"]
    table = class_text_table(ITEMS) if options.get("label_map") else None
    masks, keypoints = options.get("instance_mask_type", ""), options.get("num_keypoints", 0)
    columns = 2 if options.get("load_multiclass_scores") else 0
    decoding = DecodeOptions(masks=masks, keypoints=keypoints, score_columns=columns)
    return decode_example(_record(CASES[name].inputs["example"]), table=table, options=decoding)


def _record(stored):
    return tf.constant(stored.tobytes())


@cases(*CASES)
def test_golden(*, name):
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
    if name in ("masks_numerical", "masks_png", "masks_png_255"):
        assert truth.masks.dtype == tf.uint8
        np.testing.assert_array_equal(truth.masks, expected["groundtruth_instance_masks"])
    if name in ("keypoints", "keypoints_without_visibility"):
        np.testing.assert_allclose(truth.keypoints, expected["groundtruth_keypoints"], atol=1e-6)
        np.testing.assert_array_equal(truth.keypoint_weights, expected["groundtruth_keypoint_visibilities"])


@cases((False, [0, 1]), (True, [1, 2]))
def test_objects_without_scores_and_keypoints_are_sure_of_their_class(*, background, columns):
    options = DecodeOptions(keypoints=4, score_columns=3, background_column=background)
    truth = decode_example(_record(CASES["basic"].inputs["example"]), options=options).sample.truth
    np.testing.assert_array_equal(truth.class_scores, np.eye(3)[columns])
    assert truth.keypoints.shape == (2, 4, 2) and np.isnan(truth.keypoints).all()
    assert not np.any(truth.keypoint_weights)
    np.testing.assert_array_equal(truth.confidences, [1.0, 1.0])


def test_unknown_classes_and_boxes_that_are_no_numbers_are_dropped():
    fields = _sides([0.1] * 4, [0.2] * 4, [0.5, float("nan"), 0.5, 0.5], [0.6] * 4) | {
        "image/encoded": [image_bytes(4, 5, kind="JPEG")],
        "image/object/class/text": [b"cat", b"dog", b"unicorn", b"bird"],
        "image/object/difficult": [0, 1, 0, 1], "image/object/group_of": [1, 0, 1, 0],
        "image/class/text": [b"dog", b"unicorn", b"bird"],
    }  # fmt: skip
    record = tf.constant(example(fields))
    decoded = module.drop_unusable_objects(decode_example(record, table=class_text_table(ITEMS)))
    truth = decoded.sample.truth
    assert decoded.sample.image.shape == (4, 5, 3) and truth.masks.shape == (2, 0, 0)
    found = (truth.classes, decoded.difficult, decoded.group_of, decoded.labelled)
    expected = [[0, 4], [False, True], [True, False], [1, 4]]
    assert [values.numpy().tolist() for values in found] == expected
    # In a graph, masks that are not asked for have no size.
    decode = tf.function(decode_example, input_signature=[tf.TensorSpec([], tf.string)])
    assert decode.get_concrete_function().structured_outputs.sample.truth.masks.shape[1:] == [0, 0]


@cases(*[name for name in AUTOML if "regenerate" not in name])
def test_golden_records_of_automl_are_read_as_they_are(*, name):
    case = AUTOML[name]
    masked = case.params.get("include_mask", False)
    options = DecodeOptions(masks="PNG_MASKS" if masked else "")
    found = decode_example(_record(case.inputs["serialized"]), table=None, options=options).sample
    boxes = case.outputs.get("groundtruth_boxes", case.outputs.get("boxes"))
    np.testing.assert_allclose(found.truth.boxes, boxes, rtol=1e-4, atol=1e-3)
    if masked:
        np.testing.assert_array_equal(found.truth.masks, case.outputs["masks"])
        return
    np.testing.assert_array_equal(found.image, case.outputs["image"])
    np.testing.assert_array_equal(found.truth.classes + 1, case.outputs["groundtruth_classes"])
    np.testing.assert_array_equal(found.truth.is_crowd, case.outputs["groundtruth_is_crowd"])


def _file(rows, columns, kind="JPEG", mode="RGB"):
    """A picture of smooth blobs, as a file."""
    noise = np.random.default_rng(rows).integers(0, 256, (7, 9, 3), np.uint8)
    picture = Image.fromarray(noise).resize((columns, rows), Image.Resampling.BICUBIC).convert(mode)
    buffer = io.BytesIO()
    picture.save(buffer, kind)
    return buffer.getvalue()


def _sides(ymin, xmin, ymax, xmax):
    return {f"image/object/bbox/{name}": side for name, side in locals().items()}


def test_confidences_and_empty_masks_are_read():
    sides = _sides(*[[0.1, 0.2]] * 4)
    fields = {"image/encoded": [image_bytes(4, 5)], "image/object/class/label": [1, 1], **sides}
    record = example({**fields, "image/object/class/confidence": [1.0, -1.0]})
    truth = decode_example(tf.constant(record)).sample.truth
    np.testing.assert_array_equal(truth.confidences, [1.0, -1.0])
    masks = np.asarray(_decoded("masks_png_none").sample.truth.masks)
    assert masks.shape == (2, 6, 9) and not masks.any()
    scores = _decoded("multiclass_scores").sample.truth.class_scores
    np.testing.assert_allclose(np.ravel(scores), CASES["multiclass_scores"].outputs["multiclass_scores"])
    table = class_text_table([LabelMapItem(id=3, name="a", display_name="b"), LabelMapItem(id=7, name="b")])
    assert table.lookup(tf.constant(["a", "b", "c"])).numpy().tolist() == [3, 7, -1], "of two the larger"


FIXED = FixedShapeResizer(height=32, width=40)


# Of the first, half of the rows would be 31; libjpeg rounds up; an eighth is the least.
@cases(
    (62, 200, FIXED, (62, 200)), (63, 79, FIXED, (32, 40)), (64, 80, FIXED, (32, 40)),
    (127, 159, FIXED, (32, 40)), (125, 1000, FIXED, (32, 250)), (257, 400, FIXED, (33, 50)),
    (2000, 2000, FIXED, (250, 250)), (20, 30, FIXED, (20, 30)), (400, 1000, IdentityResizer(), (400, 1000)),
    (400, 1000, KeepAspectRatioResizer(min_dimension=100, max_dimension=120), (50, 125)),
)  # fmt: skip
def test_a_jpeg_image_is_decoded_no_smaller_than_it_will_be(*, rows, columns, resizer, found):
    encoded = _file(rows, columns)
    pixels = decode_pixels(tf.constant(encoded), channels=3, target_size=resizer.resized_size)
    assert pixels.shape == (*found, 3)
    whole = decode_pixels(tf.constant(encoded), channels=3)
    assert whole.shape == (rows, columns, 3)
    if found == (rows, columns):
        np.testing.assert_array_equal(pixels, whole)
    masks = tf.zeros([0, 0, 0], tf.uint8)
    assert resizer(pixels, masks).image.shape == resizer(whole, masks).image.shape


@cases(*itertools.product(("RGB", "L", "CMYK"), (2, 4, 8)))
def test_what_is_decoded_at_reduced_size_are_averages_of_the_whole_image(*, mode, ratio):
    encoded, size = tf.constant(_file(320, 400, "JPEG", mode)), (320 // ratio, 400 // ratio)
    target = FixedShapeResizer(height=size[0], width=size[1])
    pixels = decode_pixels(encoded, channels=3, target_size=target.resized_size)
    averages = tf.image.resize(decode_pixels(encoded, channels=3), size, "area")
    assert pixels.shape == (*size, 3)
    assert np.abs(averages - np.float32(pixels)).mean() < 1.5


def test_at_reduced_size_jpegs_keep_boxes_and_faults_and_other_formats_their_pixels():
    for kind in ("PNG", "BMP", "GIF"):
        encoded = tf.constant(_file(320, 400, kind))
        pixels = decode_pixels(encoded, channels=3, target_size=FIXED.resized_size)
        np.testing.assert_array_equal(pixels, decode_pixels(encoded, channels=3), err_msg=kind)
        assert pixels.shape == (320, 400, 3)
    encoded = _file(320, 400)
    for target in (None, FIXED.resized_size):
        with pytest.raises(tf.errors.InvalidArgumentError):
            decode_pixels(tf.constant(encoded[:900]), channels=3, target_size=target)
    fields = _sides([0.25], [0.5], [0.75], [1.0])
    fields |= {"image/encoded": [encoded], "image/object/class/label": [1]}
    options = DecodeOptions(target_size=FIXED.resized_size)
    sample = decode_example(tf.constant(example(fields)), options=options).sample
    assert sample.image.shape == (40, 50, 3)
    np.testing.assert_array_equal(sample.truth.boxes, [[0.25, 0.5, 0.75, 1.0]])
