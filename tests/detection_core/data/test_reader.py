"""What a training set is read as: the reader, sequences, mixtures, repeats, and what is left out."""

from collections import Counter
from unittest.mock import Mock

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from detection_core.artifacts.model_run import LEFT_OUT
from detection_core.data import left_out
from detection_core.data.decode import DecodeOptions, class_text_table, decode_example
from detection_core.data.label_map import label_map_from_names
from detection_core.data.left_out import find_undecodable
from detection_core.data.reader import Reader
from detection_core.data.records import done_ahead
from detection_core.data.sequence import (
    SequenceOptions,
    find_repeat_factors,
    mixture,
    ordered_records,
    shuffled_epochs,
    shuffled_files,
    taken_before,
)
from detection_core.errors import DataError
from detection_core.ops.mask_runs import decode_mask
from tests.support.cases import cases, refused
from tests.support.dataset_files import png_that_claims
from tests.support.record_files import example, image_bytes, numbered_example, write_records


def test_truth_carries_every_flag_and_leaves_unknown_classes_out(tmp_path, caplog):
    sides = {"ymin": 0.1, "xmin": 0.2, "ymax": 0.5, "xmax": 0.9}
    fields = {f"image/object/bbox/{side}": [value] * 3 for side, value in sides.items()} | {
        "image/encoded": [image_bytes(4, 5, kind="JPEG")], "image/source_id": ["café".encode()],
        "image/object/class/text": [b"dog", b"unicorn", b"dog"], "image/object/is_crowd": [0, 0, 1],
        "image/object/difficult": [1, 0, 0], "image/object/area": [3.0, 4.0, 5.0],
    }  # fmt: skip
    path, table = written(tmp_path, example(fields)), class_text_table(label_map_from_names(["cat", "dog"]))
    ((image, truth),) = Reader(paths=(path,), table=table).truth()
    assert image.shape == (4, 5, 3) and image.dtype == np.uint8
    assert (truth.source_id, truth.height, truth.width) == ("café", 4, 5)
    found = [values.tolist() for values in (truth.classes, truth.is_crowd, truth.difficult, truth.area)]
    assert found == [[1, 1], [False, True], [True, False], [3.0, 5.0]]
    np.testing.assert_allclose(truth.boxes, [[0.1, 0.2, 0.5, 0.9]] * 2)
    (line,) = caplog.messages
    assert line.startswith("1 objects are left out: the label map lacks their class")


def test_truth_carries_masks_and_keypoints_and_refuses_masks_of_another_size(tmp_path):
    masks = (np.random.default_rng(0).random((2, 4, 5)) < 0.5).astype(np.uint8)
    fields = {f"image/object/bbox/{side}": [0.0 + (side[1:] == "max")] * 2 for side in SIDES} | {
        "image/encoded": [image_bytes(4, 5)], "image/object/class/label": [1, 2],
        "image/object/mask": [tf.io.encode_png(mask[..., None]).numpy() for mask in masks],
        "image/object/keypoint/y": [0.1, 0.2, 0.3, 0.4], "image/object/keypoint/x": [0.5, 0.6, 0.7, 0.8],
        "image/object/keypoint/visibility": [2, 1, 0, 2],
    }  # fmt: skip
    decoding = DecodeOptions(masks="PNG_MASKS", keypoints=2)
    ((_, truth),) = Reader(paths=(written(tmp_path, example(fields)),), decoding=decoding).truth()
    found = [decode_mask(counts, truth.height, truth.width) for counts in truth.masks]
    np.testing.assert_array_equal(found, masks)
    expected = [[[0.1, 0.5], [0.2, 0.6]], [[np.nan] * 2, [0.4, 0.8]]]
    np.testing.assert_allclose(truth.keypoints, expected, atol=1e-6)
    ((_, truth),) = Reader(paths=(written(tmp_path, example(fields)),)).truth()
    assert list(truth.masks) == [b"", b""] and truth.keypoints.shape == (2, 0, 2)
    fields |= {"image/encoded": [image_bytes(4, 6)], "image/source_id": [b"a"]}
    reader = Reader(paths=(written(tmp_path, example(fields)),), decoding=decoding)
    with pytest.raises(DataError, match=r"a: expected masks of 4 rows and 6 columns, .* found 4 and 5"):
        list(reader.truth())


SIDES = ("ymin", "xmin", "ymax", "xmax")


def written(folder, *records, name="a.tfrecord"):
    return write_records(folder / name, records)


def test_truth_comes_file_by_file_and_examples_and_their_bytes_are_counted(tmp_path, caplog):
    paths = [written(tmp_path, *map(numbered_example, range(i, i + 3)), name=str(i)) for i in (10, 20)]
    found = [truth.source_id for _, truth in Reader(paths=tuple(paths)).truth()]
    assert found == ["10", "11", "12", "20", "21", "22"] and not caplog.messages
    paths = tuple(written(tmp_path, *map(numbered_example, range(5)), name=name) for name in ("a", "b.gz"))
    assert Reader(paths=paths).examples() == 10
    assert Reader(paths=paths, sequence=SequenceOptions(sample_1_of_n_examples=3)).examples() == 4
    path = written(tmp_path, *[numbered_example(i, height=10, width=20) for i in range(40)])
    reader = Reader(paths=(path,))
    assert reader.decoded_bytes(limit=1 << 20) == 40 * 10 * 20 * 3 and reader.decoded_bytes(limit=100) > 100


@cases(
    ({"image/encoded": [b"?"], "image/source_id": [b"1"]}, "record 1"),
    # It is refused before it is decoded.
    ({"image/encoded": [png_that_claims(60_000, 60_000)]}, "at most 134,217,728 pixels, found 60000x60000"),
)
def test_truth_names_what_cannot_be_decoded(tmp_path, *, fields, message):
    truth = Reader(paths=(written(tmp_path, numbered_example(0), example(fields)),)).truth()
    assert next(truth)[1].source_id == "0"
    refused(DataError, message, next, truth)


def test_large_images_are_not_decoded_all_at_once(tmp_path, monkeypatch):
    asked = []

    def watched(items, work, cost, *, budget):
        costs = []
        asked.append((budget, costs))
        return done_ahead(items, work, lambda item: costs.append(cost(item)) or costs[-1], budget=budget)

    monkeypatch.setattr("detection_core.data.reader.done_ahead", watched)
    path = written(tmp_path, *(numbered_example(n, height=60, width=90) for n in range(4)))
    assert len(list(Reader(paths=(path,)).truth())) == 4
    ((budget, costs),) = asked
    assert costs == [60 * 90 * 3] * 4 and budget <= 1 << 28


ONE = 1 << 12
IMAGES = st.lists(st.lists(st.integers(-1, 5), max_size=4), min_size=1, max_size=40)


def _arrays(images):
    return [np.array(classes, np.int64) for classes in images]


def _of_images(factors, images):
    """The factor of each image; the same classes are computed once."""
    kinds = {tuple(classes) for classes in images}
    found = {kind: int(factors.of_image(tf.constant(kind, tf.int64))) for kind in kinds}
    return [found[tuple(classes)] for classes in images]


def _epoch(factors, images, seed):
    columns = (range(len(images)), _of_images(factors, images))
    elements = tf.data.Dataset.from_tensor_slices(tuple(tf.constant(column, tf.int64) for column in columns))
    found = factors.repeated(elements, tf.constant([seed, -1], tf.int64))
    return [int(i) for i in found.as_numpy_iterator()]


def test_factors_are_those_of_the_paper():
    # Class 0 is in 8 of 8 images, class 1 in 2, class 2 in 1, class 3 in none.
    factors = find_repeat_factors(_arrays([[0], [0], [0, 0], [0], [0], [0, 1], [0, 1, 1], [0, 2, 4]]), 0.5)
    expected = [1.0, np.sqrt(0.5 / 0.25), np.sqrt(0.5 / 0.125), 1.0, np.sqrt(0.5 / 0.125)]
    np.testing.assert_allclose(np.array(factors.of_class) / ONE, expected, rtol=1e-3)
    assert factors.examples == 10  # 5 + 2 sqrt(2) + 2, rounded up
    of_images = ([0], [0, 1], [2, 1], [-1])
    found = np.array(_of_images(factors, of_images)) / ONE
    np.testing.assert_allclose(found, [1.0, np.sqrt(2), 2.0, 1.0], rtol=1e-3)
    empty = [[], [], []]
    assert _epoch(find_repeat_factors(_arrays(empty), 0.5), empty, 1) == [0, 1, 2]


@settings(max_examples=15, deadline=None)
@given(IMAGES, st.floats(0.01, 1.0), st.integers(0, 2**31))
def test_an_epoch_is_always_as_long_and_each_image_is_rounded(images, threshold, seed):
    factors = find_repeat_factors(_arrays(images), threshold)
    found = _epoch(factors, images, seed)
    assert len(found) == factors.examples >= len(images)
    counts = Counter(found)
    for i, of_image in enumerate(_of_images(factors, images)):
        # Rounding the epoch up to a whole image makes each factor a little larger.
        factor = of_image * factors.examples / factors.total
        assert np.floor(factor) <= counts[i] <= np.ceil(factor)


def test_each_image_comes_as_often_as_its_factor():
    images = [[0], [1], [0], [2], [0], [0], [0], [2], [0], [0]] * 50
    factors = find_repeat_factors(_arrays(images), 0.6)
    counts = sum((Counter(_epoch(factors, images, seed)) for seed in range(4)), Counter())
    for kind in range(3):
        found = [counts[i] / 4 for i, classes in enumerate(images) if classes == [kind]]
        assert np.mean(found) == pytest.approx(factors.of_class[kind] / ONE, abs=0.1)


@pytest.fixture
def paths(tmp_path):
    shards = {shard: [f"{shard}{i}".encode() for i in range(10)] for shard in "abcd"}
    return [write_records(tmp_path / f"{name}.tfrecord", records) for name, records in shards.items()]


def _take(dataset, count):
    return [(e.element, tuple(e.seed.tolist())) for e in dataset.take(count).as_numpy_iterator()]


def test_files_are_read_in_blocks_and_epochs_end(paths):
    options = SequenceOptions(num_readers=2, read_block_length=3)
    found = list(ordered_records(paths, options).as_numpy_iterator())
    assert found[:7] == [b"a0", b"a1", b"a2", b"b0", b"b1", b"b2", b"a3"] and len(set(found)) == 40
    options = SequenceOptions(shuffle_buffer_size=4)
    numbers = tf.data.Dataset.range(100)
    found = [int(e) for e, _ in _take(shuffled_epochs(lambda _: numbers, options, seed=1), 100)]
    assert sorted(found) == list(range(100)) and found != sorted(found)
    assert all(number < place + 4 for place, number in enumerate(found))
    options = SequenceOptions(num_epochs=3, shuffle=False)
    numbers = tf.data.Dataset.range(5)
    found = _take(shuffled_epochs(lambda _: numbers, options, seed=1, first_epoch=1), 99)
    assert [int(e) for e, _ in found] == [0, 1, 2, 3, 4] * 2


def test_every_element_has_a_seed_of_its_own_that_does_not_depend_on_the_global_one(paths):
    options = SequenceOptions(shuffle_buffer_size=8)
    found = _take(shuffled_epochs(shuffled_files(paths, options), options, seed=4), 120)
    assert max(Counter(seed for _, seed in found).values()) == 1
    later = _take(shuffled_epochs(shuffled_files(paths, options), options, seed=4, first_epoch=2), 40)
    assert later == found[80:]
    options = SequenceOptions(shuffle_buffer_size=1, num_readers=1)
    found = [e for e, _ in _take(shuffled_epochs(shuffled_files(paths, options), options, seed=0), 400)]
    orders = {tuple(e[:1] for e in found[i : i + 40 : 10]) for i in range(0, 400, 40)}
    assert len(orders) > 4 and all(sorted(order) == [b"a", b"b", b"c", b"d"] for order in orders)
    options = SequenceOptions(shuffle_buffer_size=8)
    orders = []
    try:
        for global_seed in (None, 1, 2):
            tf.random.set_seed(global_seed)
            orders.append(_take(shuffled_epochs(shuffled_files(paths, options), options, seed=4), 60))
    finally:
        tf.random.set_seed(None)
    assert orders[0] == orders[1] == orders[2]


WEIGHTS = (1.0, 2.0, 5.0)


def _numbers(part):
    return lambda start: tf.data.Dataset.range(start, 1 << 40).map(lambda i: i * 10 + part)


def _mixture_take(start, count):
    dataset = mixture([_numbers(part) for part in range(3)], WEIGHTS, seed=6, start=start)
    return [int(i) for i in dataset.take(count)]


def test_a_mixture_is_entered_anywhere():
    found = np.array(_mixture_take(0, 4000))
    counts = np.bincount(found % 10)
    np.testing.assert_allclose(counts / 4000, np.array(WEIGHTS) / 8, atol=0.03)
    for part in range(3):
        assert (found[found % 10 == part] // 10 == np.arange(counts[part])).all()
    whole = _mixture_take(0, 9000)
    for start in (1, 4095, 4096, 8200):
        assert _mixture_take(start, 50) == whole[start : start + 50]
    found = np.array(_mixture_take(0, 5000))
    assert taken_before(WEIGHTS, seed=6, start=5000) == np.bincount(found % 10).tolist()
    assert taken_before(WEIGHTS, seed=6, start=0) == [0, 0, 0]


BAD = example({"image/encoded": [b"nothing"], "image/source_id": [b"17"], "image/filename": [b"a.png"]})


def test_what_does_not_decode_is_named_kept_and_left_out_by_a_reader(tmp_path):
    whole = [numbered_example(n) for n in range(6)]
    first = write_records(tmp_path / "a.tfrecord", [*whole[:3], BAD])
    damaged = [first, write_records(tmp_path / "b.tfrecord", [b"\xff" * 50, *whole[3:]])]
    found = find_undecodable(damaged, decode_example)
    named = [(damaged[0], 3, "17, a.png"), (damaged[1], 0, "without a name")]
    assert [(record.path, record.index, record.image) for record in found] == named
    assert found[1].reason == "it is no tf.Example" and "nothing" not in found[0].reason
    assert LEFT_OUT.read(str(tmp_path)) == [] and LEFT_OUT.as_table(str(tmp_path)) == {}
    LEFT_OUT.write(str(tmp_path), found)
    assert LEFT_OUT.read(str(tmp_path)) == found
    assert LEFT_OUT.as_table(str(tmp_path)) == {LEFT_OUT.name: (tmp_path / LEFT_OUT.name).read_text()}
    records = tf.data.Dataset.from_tensors(b"a")
    assert left_out.without(records, ()) is records
    # These say nothing of a record.
    exhausted = tf.errors.ResourceExhaustedError(None, None, "OOM when allocating a tensor")
    for fault in (exhausted, tf.errors.UnknownError(None, None, "OSError: [Errno 24] Too many open files")):
        refused(type(fault), "", find_undecodable, damaged, Mock(side_effect=fault))
    found = find_undecodable(damaged, decode_example)
    reader = Reader(paths=tuple(damaged)).leaving_out(found)
    assert reader.examples() == 6
    assert sorted(truth.source_id for _, truth in reader.truth()) == [str(n) for n in range(6)]
    first_epoch = reader.shuffled_records(seed=0, first_epoch=0).take(12)
    names = [reader.decode(seeded.element).sample.source_id.numpy() for seeded in first_epoch]
    assert sorted(names) == sorted([str(n).encode() for n in range(6)] * 2)
    refused(DataError, r"record 3: .*image '17, a\.png'", list, Reader(paths=tuple(damaged)).truth())
