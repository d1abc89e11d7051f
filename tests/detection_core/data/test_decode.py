"""Examples: written, merged, decoded."""

import contextlib
import itertools

import hypothesis
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from detection_core.data import decode as module
from detection_core.data import encode
from detection_core.data.decode import DecodeOptions, class_text_table, decode_example, decode_pixels
from detection_core.data.encode import merge_example, parse_example, values_of
from detection_core.data.label_map import LabelMap, LabelMapItem
from detection_core.data.records import column_fault, encoded_image, image_name
from detection_core.data.resize import FixedShapeResizer, IdentityResizer, KeepAspectRatioResizer
from detection_core.ops.objects import reorder_keypoints
from tests.support.cases import cases, refused
from tests.support.dataset_files import encoded, picture
from tests.support.features import bytes_feature, example_of, float_feature, int64_feature, serialise_features
from tests.support.golden_cases import load_cases
from tests.support.record_files import encode_example, example, image_bytes, numbered_example, object_columns

CASES = load_cases(__file__, "tf_example_decoder")
AUTOML = load_cases(__file__, "automl_examples")
NAMES = {1: "cat", 2: "dog", 5: "bird"}
ITEMS = [LabelMapItem(id=n, name=name, display_name=name.title()) for n, name in NAMES.items()]
LABELS = LabelMap(items=tuple(ITEMS))
FLAGS = {"groundtruth_area": "area", "groundtruth_is_crowd": "is_crowd", "groundtruth_weights": "weights"}


def _decoded(name):
    options = CASES[name].params["options"]
    table = class_text_table(LABELS) if options.get("label_map") else None
    masks, keypoints = options.get("instance_mask_type", ""), options.get("num_keypoints", 0)
    columns = 2 if options.get("load_multiclass_scores") else 0
    further = options.get("num_additional_channels", 0)
    decoding = DecodeOptions(
        masks=masks, keypoints=keypoints, score_columns=columns, additional_channels=further
    )
    return decode_example(_record(CASES[name].inputs["example"]), table=table, options=decoding)


def _record(stored):
    return tf.constant(stored.tobytes())


@cases(*CASES)
def test_golden(*, name):
    expected, decoded = CASES[name].outputs, _decoded(name)
    sample, count = decoded.sample, len(expected["groundtruth_boxes"])
    truth = sample.truth
    further = expected.get("image_additional_channels", expected["image"][..., :0])
    np.testing.assert_array_equal(sample.image, np.concatenate([expected["image"], further], axis=-1))
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


def test_additional_channels_have_the_number_and_the_size_of_the_image():
    def plane(number, height, width):
        pixels = np.random.default_rng(number).integers(0, 256, (height, width, 1), np.uint8)
        return tf.io.encode_png(pixels).numpy()

    def record(*files):
        fields = {"image/encoded": [image_bytes(4, 5)], module.ADDITIONAL_CHANNELS: list(files)}
        return tf.constant(example(fields))

    def decode(record, count):
        options = DecodeOptions(additional_channels=count)
        return decode_example(record, options=options).sample.image

    first, second, turned = plane(0, 4, 5), plane(1, 4, 5), plane(0, 5, 4)
    one = decode(record(first), 1)
    assert one.shape == (4, 5, 4) and one.dtype == tf.uint8
    np.testing.assert_array_equal(one[..., 3:], tf.io.decode_image(first))
    np.testing.assert_array_equal(module.decode_record_pixels(record(first, second), 2)[..., :4], one)
    assert decode(record(first), 0).shape == (4, 5, 3)
    for files, count in (([first], 2), ([], 1), ([first, second], 1), ([turned], 1)):
        with pytest.raises(tf.errors.InvalidArgumentError):
            decode(record(*files), count)


@cases((False, [0, 1]), (True, [1, 2]))
def test_objects_without_scores_and_keypoints_are_sure_of_their_class(*, background, columns):
    options = DecodeOptions(keypoints=4, score_columns=3, background_column=background)
    truth = decode_example(_record(CASES["basic"].inputs["example"]), options=options).sample.truth
    np.testing.assert_array_equal(truth.class_scores, np.eye(3)[columns])
    assert truth.keypoints.shape == (2, 4, 2) and np.isnan(truth.keypoints).all()
    assert not np.any(truth.keypoint_weights)
    np.testing.assert_array_equal(truth.confidences, [1.0, 1.0])


def test_depths_of_keypoints_are_read_and_missing_ones_have_no_weight():
    fields = _sides([0.1] * 2, [0.2] * 2, [0.5] * 2, [0.6] * 2) | {
        "image/encoded": [image_bytes(4, 5, kind="JPEG")],
        "image/object/class/label": [1, 2],
        **{f"image/object/keypoint/{axis}": [0.3] * 4 for axis in "yx"},
    }
    options = DecodeOptions(keypoints=2, keypoint_depths=True)
    without = decode_example(tf.constant(example(fields)), options=options).sample.truth
    assert without.keypoint_depths.shape == (2, 2) and not np.any(without.keypoint_depth_weights)
    fields |= {
        "image/object/keypoint/z": [0.5, float("nan"), -1.0, 2.0],
        "image/object/keypoint/z/weights": [1.0, 1.0, 0.5, 0.0],
    }
    truth = decode_example(tf.constant(example(fields)), options=options).sample.truth
    np.testing.assert_array_equal(truth.keypoint_depths, [[0.5, 0.0], [-1.0, 2.0]])
    np.testing.assert_array_equal(truth.keypoint_depth_weights, [[1.0, 0.0], [0.5, 0.0]])
    plain = decode_example(tf.constant(example(fields)), options=DecodeOptions(keypoints=2))
    assert plain.sample.truth.keypoint_depths.shape == (2, 0)
    swapped = reorder_keypoints(truth, (1, 0))
    np.testing.assert_array_equal(swapped.keypoint_depths, [[0.0, 0.5], [2.0, -1.0]])


def test_unknown_classes_and_boxes_that_are_no_numbers_are_dropped():
    fields = _sides([0.1] * 4, [0.2] * 4, [0.5, float("nan"), 0.5, 0.5], [0.6] * 4) | {
        "image/encoded": [image_bytes(4, 5, kind="JPEG")],
        "image/object/class/text": [b"cat", b"dog", b"unicorn", b"bird"],
        "image/object/difficult": [0, 1, 0, 1], "image/object/group_of": [1, 0, 1, 0],
        "image/class/text": [b"dog", b"unicorn", b"bird"],
        "image/neg_category_ids": [3, 4], "image/not_exhaustive_category_ids": [2],
    }  # fmt: skip
    record = tf.constant(example(fields))
    decoded = module.drop_unusable_objects(decode_example(record, table=class_text_table(LABELS)))
    truth = decoded.sample.truth
    assert decoded.sample.image.shape == (4, 5, 3) and truth.masks.shape == (2, 0, 0)
    found = (truth.classes, decoded.difficult, decoded.group_of, decoded.labelled, decoded.not_exhaustive)
    expected = [[0, 4], [False, True], [True, False], [1, 4, 2, 3], [1]]
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
    return encoded(picture, kind)


def _sides(ymin, xmin, ymax, xmax):
    return {f"image/object/bbox/{name}": side for name, side in locals().items()}


def test_confidences_and_empty_masks_are_read():
    sides = _sides(*[[0.1, 0.2]] * 4)
    fields = {"image/encoded": [image_bytes(4, 5)], "image/object/class/label": [1, 1], **sides}
    record = example({**fields, "image/object/class/confidence": [1.0, -1.0]})
    np.testing.assert_array_equal(decode_example(tf.constant(record)).sample.truth.confidences, [1.0, -1.0])
    masks = np.asarray(_decoded("masks_png_none").sample.truth.masks)
    assert masks.shape == (2, 6, 9) and not masks.any()
    scores = _decoded("multiclass_scores").sample.truth.class_scores
    np.testing.assert_allclose(np.ravel(scores), CASES["multiclass_scores"].outputs["multiclass_scores"])
    one, other = LabelMapItem(id=3, name="a", display_name="b"), LabelMapItem(id=7, name="b")
    table = class_text_table(LabelMap(items=(one, other)))
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
    assert pixels.shape == (*size, 3) and np.abs(averages - np.float32(pixels)).mean() < 1.5


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


SIZE = {"format": "jpeg", "height": 480, "width": 640}
IMAGE = encode.EncodedImage(data=b"\xff\xd8x", sha256="ab" * 32, filename="dir/ä.jpg", source_id="17", **SIZE)
BOXES = {"ymin": [0.0, 0.25], "xmin": [0.125, 0.5], "ymax": [0.5, 0.75], "xmax": [0.375, 1.0]}
TWO = object_columns(BOXES, label=[1, 300], text=["cat", "дом"], is_crowd=[0, 1], area=[10.0, 20.5])
NONE = {key: [] for key in TWO}
VOC = {"image/object/difficult": [0, 1], "image/object/truncated": [1, 0], "image/object/view": ["Left", ""]}
KNOWN = {
    **dict.fromkeys(encode.FLOAT_KEYS, st.lists(st.floats(width=32, allow_nan=False))),
    **dict.fromkeys(encode.INTEGER_KEYS, st.lists(st.integers(-(2**63), 2**63 - 1))),
    **dict.fromkeys(encode.TEXT_KEYS, st.lists(st.text())),
    "image/object/mask": st.lists(st.binary()),
}


def _parsed(data):
    features = tf.train.Example.FromString(data).features.feature
    return {key: list(getattr(f, f.WhichOneof("kind")).value) for key, f in features.items()}


def test_tensorflow_reads_every_field_back():
    assert _parsed(encode_example(IMAGE, TWO)) == {
        "image/encoded": [IMAGE.data], "image/filename": ["dir/ä.jpg".encode()], "image/format": [b"jpeg"],
        "image/height": [480], "image/width": [640], "image/key/sha256": [b"ab" * 32],
        "image/source_id": [b"17"], "image/object/area": [10.0, 20.5], "image/object/is_crowd": [0, 1],
        "image/object/class/label": [1, 300], "image/object/class/text": [b"cat", "дом".encode()],
        **{f"image/object/bbox/{side}": values for side, values in BOXES.items()},
    }  # fmt: skip
    for objects in (NONE, TWO, TWO | VOC, TWO | {"image/object/view": ["", ""]}):
        data = encode_example(IMAGE, objects)
        assert tf.train.Example.FromString(data).SerializeToString(deterministic=True) == data


def test_columns_that_the_source_lacks_are_left_out_and_those_that_do_not_fit_refused():
    more = _parsed(encode_example(IMAGE, TWO | VOC)).keys() - _parsed(encode_example(IMAGE, TWO)).keys()
    assert more == VOC.keys()
    data = encode_example(IMAGE, NONE)
    assert _parsed(data)["image/object/bbox/xmin"] == []
    types = {"bbox/xmin": tf.float32, "class/label": tf.int64, "class/text": tf.string}
    spec = {f"image/object/{name}": tf.io.VarLenFeature(kind) for name, kind in types.items()}
    assert all(v.shape[0] == 0 for v in tf.io.parse_single_example(data, spec).values())


@settings(max_examples=30, deadline=None)
@given(st.fixed_dictionaries({}, optional=KNOWN))
@hypothesis.example({"image/object/mask": [bytes(127), bytes(128), bytes(16_383), bytes(16_384)]})
@hypothesis.example({"image/object/mask": [bytes(2**21 - 1), bytes(2**21)]})
def test_any_values_of_known_features_come_back_as_they_were(columns):
    own = _parsed(encode_example(IMAGE, {}))
    texts = {key: [text.encode() for text in columns[key]] for key in encode.TEXT_KEYS if key in columns}
    assert _parsed(encode_example(IMAGE, columns)) == own | columns | texts


def test_what_newer_sources_say_has_the_object_detection_api_s_keys():
    more = {
        "group_of": [0, 1], "occluded": [1, 0], "depiction": [0, 0], "weight": [2.0, 1.0],
        "mask": [b"one", b"two"], "class/confidence": [0.5, 1.0], "keypoint/num": [1, 0],
        "keypoint/y": [0.5, 0.0], "keypoint/x": [0.25, 0.0], "keypoint/visibility": [2, 0],
    }  # fmt: skip
    more = {f"image/object/{key}": values for key, values in more.items()}
    more |= {"image/class/confidence": [1.0, 0.0], "image/class/label": [1, 3]}
    more |= {"image/neg_category_ids": [4], "image/not_exhaustive_category_ids": [2, 5]}
    texts = {"image/class/text": ["cat", "dog"], "image/object/keypoint/text": ["nose", "nose"]}
    data = encode_example(IMAGE, TWO | more | texts)
    assert tf.train.Example.FromString(data).SerializeToString(deterministic=True) == data
    # protobuf's Python puts `mask/weight` before `mask`, its C++ behind it.
    more["image/object/mask/weight"] = [1.0, 0.0]
    before, after = (_parsed(encode_example(IMAGE, columns)) for columns in (TWO, TWO | more | texts))
    in_bytes = {key: [text.encode() for text in values] for key, values in texts.items()}
    assert after == before | more | in_bytes


def test_faults_and_names_of_records():
    assert column_fault(numbered_example(3)) == "" and column_fault(example({"image/encoded": [b"x"]})) == ""
    assert encoded_image(example({"image/encoded": [b"x"]})) == b"x"
    for use, found in ((column_fault, "it is no tf.Example"), (image_name, "without a name")):
        assert use(b"\xff" * 20) == found
    assert encoded_image(b"\xff" * 20) == b""
    fields = {f"image/object/bbox/{side}": [0.5] for side in ("ymin", "xmin", "ymax")}
    fault = column_fault(example({**fields, "image/object/class/label": [1]}))
    assert fault == "expected an entry for each of 1 boxes, found 0 in image/object/bbox/xmax"
    for filename, name in ((b"7", "7"), (b"a\xff.png", "7, a\\xff.png")):
        assert image_name(example({"image/source_id": [b"7"], "image/filename": [filename]})) == name


SIZE_TAKEN = (40, 30)
OWN = {
    "image/encoded": bytes_feature([b"jpeg"]), "image/height": int64_feature([30]),
    "image/object/bbox/xmin": float_feature([0.25]), "image/object/class/label": int64_feature([7]),
    "mine/notes": bytes_feature([b"a", b"b"]), "mine/score": float_feature([0.5]),
}  # fmt: skip


def _found(data):
    return dict(parse_example(data).features.feature)


def _read(data):
    return {key: list(values_of(feature)) for key, feature in _found(data).items()}


def _merge(own, made, *, turned=False):
    return merge_example(serialise_features(own), example_of(made), SIZE_TAKEN, turned=turned)


def test_a_record_of_which_everything_holds_is_kept_byte_for_byte(monkeypatch):
    example = tf.train.Example()
    example.features.feature["image/height"].int64_list.value.append(30)
    example.features.feature["mine/notes"].bytes_list.value.append(b"x")
    data = example.SerializeToString() + b"\x98\x06\x01"  # and a field that nobody knows
    assert (
        merge_example(data, example_of({"image/height": int64_feature([30])}), SIZE_TAKEN, turned=False)
        == data
    )
    monkeypatch.setattr("detection_core.data.encode.parse_example", lambda _: pytest.fail("parsed"))
    data = serialise_features(OWN)
    assert merge_example(data, example_of(OWN), SIZE_TAKEN, turned=False) is data


def test_what_differs_is_replaced_keypoints_as_one_table_and_everything_else_kept():
    made = {"image/height": int64_feature([40]), "image/object/bbox/xmin": float_feature([0.25])}
    assert _found(_merge(OWN, made)) == {**OWN, "image/height": int64_feature([40])}
    own = {**OWN, "image/object/class/label": float_feature([7.0])}
    made = {"image/object/class/label": int64_feature([7])}
    assert _found(_merge(own, made))["image/object/class/label"] == int64_feature([7])
    made = {
        "image/object/class/text": bytes_feature([b"cat"]), "image/object/area": float_feature([5.0]),
        "image/key/sha256": bytes_feature([b"0"]), "image/object/difficult": int64_feature([]),
    }  # fmt: skip
    assert _found(_merge(OWN, made)).keys() - OWN.keys() == {"image/object/class/text"}
    own = {**OWN, "image/class/text": bytes_feature([b"cat", b"unknown"])}
    assert _found(_merge(own, {"image/class/text": bytes_feature([b"cat"])})) == own
    same = {f"image/object/keypoint/{axis}": float_feature([0.5]) for axis in "xy"}
    own = OWN | same
    names = {"image/object/keypoint/text": bytes_feature([b"nose"])}
    assert _found(_merge(own, same | names)) == own
    moved = {**same, **names, "image/object/keypoint/x": float_feature([0.75])}
    assert _found(_merge(own, moved)) == {**own, **moved}
    own = {**OWN, "image/object/mask": float_feature([0.0, 1.0])}
    assert _found(_merge(own, {})) == own
    refused(ValueError, "masks as numbers", _merge, own, {}, turned=True)


@cases(
    (picture("PNG"), False, True), (picture("PNG"), True, False), (picture("PNG", width=20), False, False),
    (picture(), False, False), (b"", False, False),
)  # fmt: skip
def test_masks_that_a_decoder_takes_stay(*, mask, turned, kept):
    own = {**OWN, "image/object/mask": bytes_feature([mask])}
    made = {"image/object/mask": bytes_feature([b"made"]), "image/object/mask/weight": float_feature([0.0])}
    assert _found(_merge(own, made, turned=turned)) == (own if kept else {**own, **made})


_KINDS = st.binary(max_size=300), st.floats(width=32, allow_nan=False), st.integers(-(1 << 63), (1 << 63) - 1)
_VALUES = st.one_of(*(st.lists(kind, max_size=4) for kind in _KINDS))


@settings(deadline=None)
@given(st.dictionaries(st.text(max_size=5), _VALUES, max_size=4))
def test_what_tensorflow_writes_is_read(features):
    example = tf.train.Example()
    for name, values in features.items():
        feature = example.features.feature[name]
        if values and isinstance(values[0], bytes):
            feature.bytes_list.value.extend(values)
        elif values and isinstance(values[0], float):
            feature.float_list.value.extend(values)
        else:
            feature.int64_list.value.extend(values)
    assert _read(example.SerializeToString()) == features


@settings(deadline=None)
@given(st.binary(max_size=60))
def test_any_bytes_are_an_example_or_none(data):
    with contextlib.suppress(ValueError):
        assert all(isinstance(name, str) for name in _read(data))


def test_lists_may_be_packed_or_not_and_a_cut_message_is_refused():
    packed = b"\x1a\x04\x0a\x02\x05\x07", b"\x1a\x03\x0a\x01\x05\x1a\x02\x08\x07"
    for numbers in (b"\x1a\x04\x08\x05\x08\x07", *packed):
        entry = b"\x0a\x01a\x12" + bytes([len(numbers)]) + numbers
        data = b"\x0a" + bytes([len(entry) + 2]) + b"\x0a" + bytes([len(entry)]) + entry
        assert _read(data)["a"] in ([5, 7], [7])
    for data in (b"\x0a\x7f", b"\x0a", b"\xff" * 11, b"\x0b\x00"):
        refused(ValueError, "a ", parse_example, data)


@cases(
    b"\x0a\x01a\x12\x05\x1a\x03\x0a\x01\x07",
    b"\x12\x05\x1a\x03\x0a\x01\x07\x0a\x01a",  # the value before the key
    b"\x0a\x01b\x0a\x01a\x12\x05\x1a\x03\x0a\x01\x07",  # two keys, of which the last counts
    b"\x0a\x01a\x12\x00\x12\x05\x1a\x03\x0a\x01\x07",  # likewise two values
    b"\x0a\x81\x00a\x12\x05\x1a\x03\x0a\x01\x07",  # a length of more bytes than it needs
)
def test_an_entry_means_the_same_in_every_form_that_protobuf_allows(*, entry):
    features = b"\x0a" + bytes([len(entry)]) + entry
    data = b"\x0a" + bytes([len(features)]) + features
    assert tf.train.Example.FromString(data).features.feature["a"].int64_list.value == [7]
    assert _read(data) == {"a": [7]}
