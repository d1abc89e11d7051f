import pytest

from detection_core.data.encode import bytes_feature, float_feature, int64_feature, serialise_features
from detection_core.data.example_merge import merge_example
from detection_core.data.example_wire import find_features
from tests.support.cases import cases
from tests.support.dataset_files import picture

SIZE = (40, 30)
OWN = {
    "image/encoded": bytes_feature([b"jpeg"]), "image/height": int64_feature([30]),
    "image/object/bbox/xmin": float_feature([0.25]), "image/object/class/label": int64_feature([7]),
    "mine/notes": bytes_feature([b"a", b"b"]), "mine/score": float_feature([0.5]),
}  # fmt: skip


def _found(data):
    return {key: data[at.begin : at.end] for key, at in find_features(data).items()}


def _merge(own, made, *, turned=False):
    return merge_example(serialise_features(own), made, SIZE, turned=turned)


def test_a_record_of_which_everything_holds_is_kept_byte_for_byte(monkeypatch):
    from tensorflow.core.example.example_pb2 import Example

    example = Example()
    example.features.feature["image/height"].int64_list.value.append(30)
    example.features.feature["mine/notes"].bytes_list.value.append(b"x")
    data = example.SerializeToString() + b"\x98\x06\x01"  # and a field that nobody knows
    assert merge_example(data, {"image/height": int64_feature([30])}, SIZE, turned=False) == data
    monkeypatch.setattr("detection_core.data.example_merge.find_features", lambda _: pytest.fail("parsed"))
    data = serialise_features(OWN)
    assert merge_example(data, OWN, SIZE, turned=False) is data


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
    with pytest.raises(ValueError, match="masks as numbers"):
        _merge(own, {}, turned=True)


@cases(
    (picture("PNG"), False, True), (picture("PNG"), True, False), (picture("PNG", width=20), False, False),
    (picture(), False, False), (b"", False, False),
)  # fmt: skip
def test_masks_that_a_decoder_takes_stay(*, mask, turned, kept):
    own = {**OWN, "image/object/mask": bytes_feature([mask])}
    made = {"image/object/mask": bytes_feature([b"made"]), "image/object/mask/weight": float_feature([0.0])}
    assert _found(_merge(own, made, turned=turned)) == (own if kept else {**own, **made})
