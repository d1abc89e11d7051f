"""Annotated images as serialised `tf.train.Example` messages."""

import dataclasses

import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from detection_core.data.encode import (
    EncodedImage,
    ImageLabels,
    KeypointColumns,
    ObjectColumns,
    bytes_feature,
    encode_example,
    float_feature,
    int64_feature,
    serialise_features,
)
from tests.support.cases import cases

SIZE = {"format": "jpeg", "height": 480, "width": 640}
IMAGE = EncodedImage(data=b"\xff\xd8 x", sha256="ab" * 32, filename="dir/ä.jpg", source_id="17", **SIZE)
TWO = ObjectColumns(
    ymin=[0.0, 0.25],
    xmin=[0.1, 0.5],
    ymax=[0.5, 0.75],
    xmax=[0.4, 1.0],
    labels=[1, 300],
    texts=["cat", "дом"],
    is_crowd=[0, 1],
    area=[10.0, 20.5],
)
NONE = ObjectColumns(ymin=[], xmin=[], ymax=[], xmax=[], labels=[], texts=[], is_crowd=[], area=[])


def _parsed(data):
    features = tf.train.Example.FromString(data).features.feature
    return {key: list(getattr(f, f.WhichOneof("kind")).value) for key, f in features.items()}


def test_tensorflow_reads_every_field_back():
    found = _parsed(encode_example(IMAGE, TWO))
    assert found.pop("image/object/bbox/xmin") == pytest.approx([0.1, 0.5])
    assert found.pop("image/object/bbox/xmax") == pytest.approx([0.4, 1.0])
    assert found == {
        "image/encoded": [IMAGE.data],
        "image/filename": ["dir/ä.jpg".encode()],
        "image/format": [b"jpeg"],
        "image/height": [480],
        "image/key/sha256": [b"ab" * 32],
        "image/object/area": [10.0, 20.5],
        "image/object/bbox/ymax": [0.5, 0.75],
        "image/object/bbox/ymin": [0.0, 0.25],
        "image/object/class/label": [1, 300],
        "image/object/class/text": [b"cat", "дом".encode()],
        "image/object/is_crowd": [0, 1],
        "image/source_id": [b"17"],
        "image/width": [640],
    }
    for objects in (NONE, TWO, dataclasses.replace(TWO, difficult=[0, 1], truncated=[1, 0], views=["", ""])):
        data = encode_example(IMAGE, objects)
        assert tf.train.Example.FromString(data).SerializeToString(deterministic=True) == data


def test_columns_that_the_source_lacks_are_left_out_or_empty():
    full = dataclasses.replace(TWO, difficult=[0, 1], truncated=[1, 0], views=["Left", ""])
    more = _parsed(encode_example(IMAGE, full)).keys() - _parsed(encode_example(IMAGE, TWO)).keys()
    assert more == {"image/object/difficult", "image/object/truncated", "image/object/view"}
    data = encode_example(IMAGE, NONE)
    assert _parsed(data)["image/object/bbox/xmin"] == []
    spec = {
        "image/object/bbox/xmin": tf.io.VarLenFeature(tf.float32),
        "image/object/class/label": tf.io.VarLenFeature(tf.int64),
        "image/object/class/text": tf.io.VarLenFeature(tf.string),
    }
    assert all(v.shape[0] == 0 for v in tf.io.parse_single_example(data, spec).values())


def test_columns_that_do_not_fit_the_objects_are_refused():
    with pytest.raises(ValueError, match="differ in length"):
        encode_example(IMAGE, dataclasses.replace(TWO, texts=["cat"]))
    with pytest.raises(ValueError, match="float32"):
        encode_example(IMAGE, dataclasses.replace(TWO, area=[1e300, 0.0]))
    fits = KeypointColumns(y=[0, 0], x=[0, 0], visibility=[0, 0], texts=["a", "a"], numbers=[0, 0])
    for changed in ({"y": [0]}, {"numbers": [0]}, {"texts": ["a"]}):
        with pytest.raises(ValueError, match="keypoint columns"):
            encode_example(IMAGE, TWO, dataclasses.replace(fits, **changed))


@settings(max_examples=30, deadline=None)
@given(
    st.dictionaries(
        st.text(),
        st.one_of(
            st.lists(st.binary()),
            st.lists(st.floats(width=32, allow_nan=False)),
            st.lists(st.integers(-(2**63), 2**63 - 1)),
        ),
    )
)
def test_any_features_come_back_as_they_were(features):
    encoders = {bytes: bytes_feature, float: float_feature, int: int64_feature}
    encoded = {k: encoders[type(v[0]) if v else float](v) for k, v in features.items()}
    assert _parsed(serialise_features(encoded)) == features


@cases(127, 128, 16_383, 16_384, 2**21 - 1, 2**21)
def test_lengths_at_the_edges_of_their_encoding(*, size):
    assert _parsed(serialise_features({"k": bytes_feature([b"x" * size])})) == {"k": [b"x" * size]}


def test_what_newer_sources_say_has_the_object_detection_api_s_keys():
    full = dataclasses.replace(
        TWO,
        masks=[b"one", b"two"],
        mask_weights=[1.0, 0.0],
        group_of=[0, 1],
        occluded=[1, 0],
        depiction=[0, 0],
        confidences=[0.5, 1.0],
        weights=[2.0, 1.0],
    )
    keypoints = KeypointColumns(
        y=[0.5, 0.0], x=[0.25, 0.0], visibility=[2, 0], texts=["nose", "nose"], numbers=[1, 0]
    )
    labels = ImageLabels(labels=[1, 3], texts=["cat", "dog"], confidences=[1.0, 0.0])
    # protobuf's Python puts `mask/weight` before `mask`, its C++ behind it.
    data = encode_example(IMAGE, dataclasses.replace(full, mask_weights=None), keypoints, labels)
    assert tf.train.Example.FromString(data).SerializeToString(deterministic=True) == data
    before, after = (_parsed(encode_example(IMAGE, *rest)) for rest in ((TWO,), (full, keypoints, labels)))
    assert {key: value for key, value in after.items() if key not in before} == {
        "image/class/confidence": [1.0, 0.0],
        "image/class/label": [1, 3],
        "image/class/text": [b"cat", b"dog"],
        "image/object/class/confidence": [0.5, 1.0],
        "image/object/depiction": [0, 0],
        "image/object/group_of": [0, 1],
        "image/object/keypoint/num": [1, 0],
        "image/object/keypoint/text": [b"nose", b"nose"],
        "image/object/keypoint/visibility": [2, 0],
        "image/object/keypoint/x": [0.25, 0.0],
        "image/object/keypoint/y": [0.5, 0.0],
        "image/object/mask": [b"one", b"two"],
        "image/object/mask/weight": [1.0, 0.0],
        "image/object/occluded": [1, 0],
        "image/object/weight": [2.0, 1.0],
    }
    assert {key: after[key] for key in before} == before
