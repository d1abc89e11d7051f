import dataclasses

import tensorflow as tf
from hypothesis import example, given, settings
from hypothesis import strategies as st

from detection_core.data import encode
from detection_core.data.encode import EncodedImage, KeypointColumns, ObjectColumns, encode_example
from tests.support.cases import refused

SIZE = {"format": "jpeg", "height": 480, "width": 640}
IMAGE = EncodedImage(data=b"\xff\xd8 x", sha256="ab" * 32, filename="dir/ä.jpg", source_id="17", **SIZE)
BOXES = {"ymin": [0.0, 0.25], "xmin": [0.125, 0.5], "ymax": [0.5, 0.75], "xmax": [0.375, 1.0]}
TWO = ObjectColumns(**BOXES, labels=[1, 300], texts=["cat", "дом"], is_crowd=[0, 1], area=[10.0, 20.5])
NONE = ObjectColumns(ymin=[], xmin=[], ymax=[], xmax=[], labels=[], texts=[], is_crowd=[], area=[])


_NUMBERS = st.lists(st.floats(width=32, allow_nan=False)) | st.lists(st.integers(-(2**63), 2**63 - 1))
FEATURES = st.lists(st.binary()) | _NUMBERS


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
    for objects in (NONE, TWO, dataclasses.replace(TWO, difficult=[0, 1], truncated=[1, 0], views=["", ""])):
        data = encode_example(IMAGE, objects)
        assert tf.train.Example.FromString(data).SerializeToString(deterministic=True) == data


def test_columns_that_the_source_lacks_are_left_out_and_those_that_do_not_fit_refused():
    full = dataclasses.replace(TWO, difficult=[0, 1], truncated=[1, 0], views=["Left", ""])
    more = _parsed(encode_example(IMAGE, full)).keys() - _parsed(encode_example(IMAGE, TWO)).keys()
    assert more == {"image/object/difficult", "image/object/truncated", "image/object/view"}
    data = encode_example(IMAGE, NONE)
    assert _parsed(data)["image/object/bbox/xmin"] == []
    types = {"bbox/xmin": tf.float32, "class/label": tf.int64, "class/text": tf.string}
    spec = {f"image/object/{name}": tf.io.VarLenFeature(kind) for name, kind in types.items()}
    assert all(v.shape[0] == 0 for v in tf.io.parse_single_example(data, spec).values())
    for message, changed in (("differ in length", {"texts": ["cat"]}), ("float32", {"area": [1e300, 0.0]})):
        refused(ValueError, message, encode_example, IMAGE, dataclasses.replace(TWO, **changed))
    fits = KeypointColumns(y=[0, 0], x=[0, 0], visibility=[0, 0], texts=["a", "a"], numbers=[0, 0])
    for changed in ({"y": [0]}, {"numbers": [0]}, {"texts": ["a"]}):
        points = dataclasses.replace(fits, **changed)
        refused(ValueError, "keypoint columns", encode_example, IMAGE, TWO, points)


@settings(max_examples=30, deadline=None)
@given(st.dictionaries(st.text(), FEATURES))
@example({"k": [bytes(127)], "l": [bytes(128)], "m": [bytes(16_383)], "n": [bytes(16_384)]})
@example({"k": [bytes(2**21 - 1)], "l": [bytes(2**21)]})
def test_any_features_come_back_as_they_were(features):
    encoders = {bytes: encode.bytes_feature, float: encode.float_feature, int: encode.int64_feature}
    encoded = {k: encoders[type(v[0]) if v else float](v) for k, v in features.items()}
    assert _parsed(encode.serialise_features(encoded)) == features


def test_what_newer_sources_say_has_the_object_detection_api_s_keys():
    flags = {"group_of": [0, 1], "occluded": [1, 0], "depiction": [0, 0], "weights": [2.0, 1.0]}
    full = dataclasses.replace(TWO, masks=[b"one", b"two"], mask_weights=[1.0, 0.0], confidences=[0.5, 1.0])
    full = dataclasses.replace(full, **flags)
    points = {"y": [0.5, 0.0], "x": [0.25, 0.0], "visibility": [2, 0]}
    keypoints = KeypointColumns(**points, texts=["nose", "nose"], numbers=[1, 0])
    labels = encode.ImageLabels(labels=[1, 3], texts=["cat", "dog"], confidences=[1.0, 0.0])
    # protobuf's Python puts `mask/weight` before `mask`, its C++ behind it.
    data = encode_example(IMAGE, dataclasses.replace(full, mask_weights=None), keypoints, labels)
    assert tf.train.Example.FromString(data).SerializeToString(deterministic=True) == data
    before, after = (_parsed(encode_example(IMAGE, *rest)) for rest in ((TWO,), (full, keypoints, labels)))
    assert after == before | {
        "image/class/confidence": [1.0, 0.0], "image/class/label": [1, 3],
        "image/class/text": [b"cat", b"dog"], "image/object/class/confidence": [0.5, 1.0],
        "image/object/mask": [b"one", b"two"], "image/object/mask/weight": [1.0, 0.0],
        "image/object/keypoint/num": [1, 0], "image/object/keypoint/text": [b"nose", b"nose"],
        **{f"image/object/keypoint/{key}": values for key, values in points.items()},
        **{f"image/object/{key.removesuffix('s')}": values for key, values in flags.items()},
    }  # fmt: skip
