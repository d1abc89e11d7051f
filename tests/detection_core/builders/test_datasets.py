from __future__ import annotations

import io
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import text_format
from PIL import Image

from detection_core.builders import datasets
from detection_core.builders.datasets import (
    WorkerShard,
    build_eval_dataset,
    build_train_dataset,
    iterate_training_pairs,
    iterate_truth,
    naming_bad_train_records,
    one_batch_config,
    training_records,
)
from detection_core.data.example_columns import image_name
from detection_core.data.label_map import LabelMap, LabelMapItem
from detection_core.errors import ConfigError, DataError
from detection_core.protos import pipeline_pb2
from tests.support.record_files import example, image_bytes, numbered_example, write_records

LABEL_MAP = LabelMap(items=tuple(LabelMapItem(id=i, name=f"class{i}") for i in (1, 2, 3)))
CONFIG = """
model { ssd { num_classes: 3 image_resizer { fixed_shape_resizer { height: 8 width: 10 } } } }
train_config {
  max_number_of_boxes: 5
  %s
}
train_input_reader { %s tf_record_input_reader { input_path: "%s" } }
eval_input_reader { max_number_of_boxes: 4 tf_record_input_reader { input_path: "%s" } }
"""


AUGMENTATION = """
  data_augmentation_options { random_horizontal_flip {} }
  data_augmentation_options { ssd_random_crop {} }
  data_augmentation_options { random_adjust_brightness {} }
"""


MIXED = """
  data_augmentation_options { random_horizontal_flip {} }
  data_augmentation_options { mosaic { height: 16 width: 20 probability: 0.7 } }
  data_augmentation_options { random_adjust_brightness {} }
  mixing_pool_size: 5
"""


def _config(pattern: str, reader: str = "", augmentation: str = "") -> Any:
    text = CONFIG % (augmentation, reader, pattern, pattern)
    return text_format.Parse(text, pipeline_pb2.TrainEvalPipelineConfig())


@pytest.fixture
def records(tmp_path: Path) -> str:
    numbers = iter(range(23))
    for shard, count in enumerate((9, 3, 11)):
        write_records(
            tmp_path / f"examples-0000{shard}-of-00003.tfrecord",
            [numbered_example(next(numbers)) for _ in range(count)],
        )
    return str(tmp_path / "examples-?????-of-00003.tfrecord")


def _ids(batches: list[Any]) -> list[int]:
    return [int(i) for batch in batches for i in batch.images.source_ids]


def _train(config: Any, steps: int, **options: Any) -> list[Any]:
    dataset = build_train_dataset(config, label_map=LABEL_MAP, batch_size=4, **options)
    return list(dataset.take(steps).as_numpy_iterator())


@pytest.mark.parametrize("cache_bytes", [0, 1 << 20], ids=["streamed", "cached"])
def test_every_epoch_holds_each_example_once_in_another_order(records: str, cache_bytes: int) -> None:
    ids = _ids(_train(_config(records), 23, seed=5, cache_bytes=cache_bytes))
    epochs = [ids[i : i + 23] for i in range(0, 92, 23)]
    assert all(sorted(epoch) == list(range(23)) for epoch in epochs)
    assert len({tuple(epoch) for epoch in epochs}) == 4


def _labelled(number: int, label: int) -> bytes:
    sides = {f"image/object/bbox/{side}": [0.1] for side in ("ymin", "xmin")}
    sides |= {f"image/object/bbox/{side}": [0.5] for side in ("ymax", "xmax")}
    fields = {"image/source_id": [str(number).encode()], "image/object/class/label": [label]}
    return example({"image/encoded": [image_bytes(8, 10, number)], **fields, **sides})


@pytest.mark.parametrize("cache_bytes", [0, 1 << 20], ids=["streamed", "cached"])
def test_rare_classes_are_read_more_often_and_resumed(tmp_path: Path, cache_bytes: int) -> None:
    labels = [1] * 20 + [2] * 4
    pattern = write_records(
        tmp_path / "all.tfrecord",
        [_labelled(i, label) for i, label in enumerate(labels)],
    )
    config = _config(pattern, "repeat_factor_threshold: 0.8 shuffle_buffer_size: 7")
    # Class 2 is in a sixth of the images: they come sqrt(0.8 * 6) times, 2.19; an epoch has 29 images.
    whole = _train(config, 22, seed=3, cache_bytes=cache_bytes)
    for epoch in range(3):
        ids = _ids(whole)[29 * epoch : 29 * (epoch + 1)]
        assert len(set(ids)) == 24
        assert all(ids.count(i) in ((1, 2) if i < 20 else (2, 3)) for i in set(ids))
    rest = _train(config, 13, seed=3, start_step=9, cache_bytes=cache_bytes)
    for expected, found in zip(whole[9:], rest, strict=True):
        tf.nest.map_structure(np.testing.assert_array_equal, expected, found)


def test_images_that_are_kept_on_disk_are_those_that_are_decoded(
    records: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = _config(records, "shuffle_buffer_size: 7")
    wanted = _train(config, 12, seed=3, cache_bytes=0)
    monkeypatch.setenv("DETFLOW_IMAGE_CACHE", str(tmp_path / "kept"))
    for _ in range(2):  # the second finds those of the first
        found = _train(config, 12, seed=3, cache_bytes=0)
        tf.nest.map_structure(np.testing.assert_array_equal, wanted, found)
        assert len(list((tmp_path / "kept").rglob("*.*"))) == 0  # nothing half-written
        assert len([p for p in (tmp_path / "kept").rglob("*") if p.is_file()]) == 23


@pytest.mark.parametrize("start", [5, 17])
@pytest.mark.parametrize(
    "steps", [AUGMENTATION, MIXED + "num_steps: 20 close_mosaic_steps: 2"], ids=["alone", "mixed"]
)
@pytest.mark.parametrize("cache_bytes", [0, 1 << 20], ids=["streamed", "cached"])
def test_resuming_gives_the_rest_of_the_uninterrupted_run(
    records: str, start: int, steps: str, cache_bytes: int
) -> None:
    config = _config(records, "shuffle_buffer_size: 7 read_block_length: 2", steps)
    whole = _train(config, 20, seed=3, cache_bytes=cache_bytes)
    rest = _train(config, 20 - start, seed=3, start_step=start, cache_bytes=cache_bytes)
    for expected, found in zip(whole[start:], rest, strict=True):
        tf.nest.map_structure(np.testing.assert_array_equal, expected, found)


@pytest.mark.parametrize("cache_bytes", [0, 1 << 20], ids=["streamed", "cached"])
@pytest.mark.parametrize("steps", [AUGMENTATION, MIXED], ids=["alone", "mixed"])
def test_workers_share_the_batch_of_one(records: str, steps: str, cache_bytes: int) -> None:
    config = _config(records, augmentation=steps)
    whole = _train(config, 8, seed=3, start_step=2, cache_bytes=cache_bytes)
    shards = [
        _train(
            config,
            8,
            seed=3,
            start_step=2,
            cache_bytes=cache_bytes,
            shard=WorkerShard(worker=index, workers=2, replicas=2),
        )
        for index in range(2)
    ]
    for batch, *parts in zip(whole, *shards, strict=True):
        # The images are dealt out one by one: even ones to the first worker.
        for index, part in enumerate(parts):
            np.testing.assert_array_equal(batch.images.pixels[index::2], part.images.pixels)
            np.testing.assert_array_equal(batch.truth.boxes[index::2], part.truth.boxes)


def test_the_seed_decides_order_and_augmentation(records: str) -> None:
    config = _config(records, augmentation=AUGMENTATION)
    first, again, other = (_train(config, 3, seed=seed) for seed in (1, 1, 2))
    tf.nest.map_structure(np.testing.assert_array_equal, first, again)
    assert _ids(first) != _ids(other)


def test_the_same_image_is_augmented_anew_every_epoch(records: str) -> None:
    batches = _train(_config(records, augmentation=AUGMENTATION), 23, seed=0)
    pixels = [
        p for b in batches for p, i in zip(b.images.pixels, b.images.source_ids, strict=True) if i == b"4"
    ]
    assert len(pixels) == 4
    assert all(np.abs(a - b).max() > 0 for a, b in itertools.pairwise(pixels))


def test_neighbouring_seeds_do_not_share_epochs(records: str) -> None:
    config = _config(records)
    one, two = _ids(_train(config, 23, seed=1)), _ids(_train(config, 23, seed=2))
    assert one[23:46] != two[:23]


def test_batches_have_static_shapes(records: str) -> None:
    spec = build_train_dataset(_config(records), label_map=LABEL_MAP, batch_size=4, seed=0).element_spec
    assert spec.images.pixels.shape == [4, 8, 10, 3]
    assert spec.truth.boxes.shape == [4, 5, 4]
    assert spec.truth.masks.shape == [4, 5, 0, 0]
    assert all(s.shape.is_fully_defined() for s in tf.nest.flatten(spec))


def test_without_shuffling_the_records_come_in_order(tmp_path: Path) -> None:
    path = write_records(tmp_path / "a.tfrecord", [numbered_example(i) for i in range(5)])
    assert _ids(_train(_config(path, "shuffle: false"), 3, seed=0)) == [0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0, 1]


def test_gzip_is_known_by_the_file_name(tmp_path: Path) -> None:
    path = write_records(tmp_path / "a.tfrecord.gz", [numbered_example(i) for i in range(4)])
    assert sorted(_ids(_train(_config(path), 1, seed=0))) == [0, 1, 2, 3]


def test_one_of_n_examples_and_a_number_of_epochs(tmp_path: Path) -> None:
    path = write_records(tmp_path / "a.tfrecord", [numbered_example(i) for i in range(12)])
    ids = _ids(_train(_config(path, "sample_1_of_n_examples: 3 num_epochs: 2"), 9, seed=0))
    assert sorted(ids) == [0, 0, 3, 3, 6, 6, 9, 9]


def test_evaluation_reads_each_example_once_in_order_and_unchanged(tmp_path: Path) -> None:
    path = write_records(tmp_path / "a.tfrecord", [numbered_example(i) for i in range(5)])
    dataset = build_eval_dataset(_config(path), label_map=LABEL_MAP, batch_size=2)
    batches = list(dataset.as_numpy_iterator())
    assert _ids(batches) == [0, 1, 2, 3, 4]
    assert batches[0].truth.boxes.shape == (2, 4, 4)
    assert batches[0].truth.valid.tolist() == [[True, True, False, False]] * 2
    np.testing.assert_array_equal(batches[0].images.original_sizes, [[6, 9], [6, 9]])


def test_truth_is_that_of_the_original_image(tmp_path: Path) -> None:
    path = write_records(tmp_path / "a.tfrecord", [numbered_example(i, objects=7) for i in range(3)])
    found = list(iterate_truth(_config(path), label_map=LABEL_MAP))
    assert [truth.source_id for _, truth in found] == ["0", "1", "2"]
    image, truth = found[0]
    assert image.shape == (6, 9, 3) and image.dtype == np.uint8
    assert (truth.height, truth.width) == (6, 9)
    assert truth.boxes.shape == (7, 4) and not truth.difficult.any() and not truth.is_crowd.any()


def test_a_pattern_without_files_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"nothing-here.*correct input_path"):
        _train(_config(str(tmp_path / "nothing-here*")), 1, seed=0)


@pytest.mark.parametrize("cache_bytes", [0, 1 << 20], ids=["streamed", "cached"])
def test_weighted_inputs_are_mixed_and_resumed(tmp_path: Path, cache_bytes: int) -> None:
    for name, first in (("a", 0), ("b", 100)):
        write_records(tmp_path / name, [numbered_example(first + i) for i in range(5)])
    config = _config(str(tmp_path / "a"), "sample_from_datasets_weights: [1, 3]", AUGMENTATION)
    config.train_input_reader.tf_record_input_reader.input_path.append(str(tmp_path / "b"))
    whole = _train(config, 50, seed=2, cache_bytes=cache_bytes)
    ids = _ids(whole)
    assert 25 <= sum(i < 100 for i in ids) <= 75
    second = [i for i in ids if i >= 100]
    assert sorted(second[:5]) == sorted(second[5:10]) == [100, 101, 102, 103, 104]
    rest = _train(config, 20, seed=2, start_step=30, cache_bytes=cache_bytes)
    for expected, found in zip(whole[30:], rest, strict=True):
        tf.nest.map_structure(np.testing.assert_array_equal, expected, found)


def _damage(path: str, at: float = 0.5) -> None:
    data = bytearray(Path(path).read_bytes())
    data[int(len(data) * at)] ^= 0xFF
    Path(path).write_bytes(data)


def test_a_damaged_record_is_named_before_training(tmp_path: Path) -> None:
    path = write_records(tmp_path / "a.tfrecord", [numbered_example(i) for i in range(8)])
    _damage(path)
    with pytest.raises(DataError, match=r"a\.tfrecord, record [345]: .*damaged"):
        _train(_config(path), 1, seed=0)


def test_a_truncated_file_is_named(tmp_path: Path) -> None:
    path = write_records(tmp_path / "a.tfrecord", [numbered_example(i) for i in range(4)])
    Path(path).write_bytes(Path(path).read_bytes()[:-20])
    with pytest.raises(DataError, match=r"a\.tfrecord, record 3"):
        list(iterate_truth(_config(path), label_map=LABEL_MAP))


def test_an_image_that_does_not_decode_is_named_while_training(tmp_path: Path) -> None:
    broken = example({"image/encoded": [b"no image"], "image/source_id": [b"17"]})
    records = [numbered_example(i) for i in range(20)]
    path = write_records(tmp_path / "a.tfrecord", [*records, broken])
    config = _config(path)
    with (
        pytest.raises(DataError, match=r"a\.tfrecord, record 20: .*does not decode"),
        naming_bad_train_records(config, label_map=LABEL_MAP),
    ):
        _train(config, 12, seed=0)


@pytest.mark.parametrize(
    "reader", ["load_track_id: true", "num_additional_channels: 1", "input_type: TF_SEQUENCE_EXAMPLE"]
)
def test_what_is_not_read_is_refused_by_name(records: str, reader: str) -> None:
    with pytest.raises(ConfigError, match=r"train_input_reader\." + reader.split(":", maxsplit=1)[0]):
        _train(_config(records, reader), 1, seed=0)


def _labelled_example(number: int) -> bytes:
    """Two objects with the same box, scores of three classes, and two keypoints each."""
    sides = {f"image/object/bbox/{side}": [v, v] for side, v in zip(SIDES, (0.2, 0.1, 0.6, 0.5), strict=True)}
    return example(
        {
            "image/encoded": [image_bytes(6, 9, number)],
            "image/source_id": [str(number).encode()],
            "image/object/class/label": [1, 3],
            "image/object/class/multiclass_scores": [0.5, 0.25, 0.25, 0.0, 0.0, 1.0],
            "image/object/keypoint/y": [0.3, 0.4, 0.5, 0.6],
            "image/object/keypoint/x": [0.1, 0.2, 0.3, 0.4],
            "image/object/keypoint/visibility": [2, 2, 1, 0],
            **sides,
        }
    )


SIDES = ("ymin", "xmin", "ymax", "xmax")
READ = "num_keypoints: 2 keypoint_type_weight: [1, 0.5] load_multiclass_scores: true"
FLIP = "data_augmentation_options { random_horizontal_flip { %s } }"


@pytest.mark.parametrize(
    ("options", "scores", "objects"),
    [
        ("", np.zeros((2, 0)), 2),
        ("use_multiclass_scores: true", [[0.5, 0.25, 0.25], [0.0, 0.0, 1.0]], 2),
        ("merge_multiple_label_boxes: true", [[1.0, 0.0, 1.0]], 1),
    ],
)
def test_keypoints_and_labels_reach_the_batch(tmp_path: Path, options: str, scores, objects: int) -> None:
    path = write_records(tmp_path / "a.tfrecord", [_labelled_example(i) for i in range(4)])
    flip = FLIP % "probability: 1 keypoint_flip_permutation: [1, 0]"
    (batch,) = _train(_config(path, READ, f"{options} {flip}"), 1, seed=0)
    truth = batch.truth
    np.testing.assert_allclose(truth.class_scores[0, :objects], scores)
    assert truth.valid.sum(axis=1).tolist() == [objects] * 4
    np.testing.assert_allclose(truth.keypoints[0, 0], [[0.4, 0.8], [0.3, 0.9]], rtol=1e-6)
    np.testing.assert_allclose(truth.keypoint_weights[0, :objects], [[1.0, 0.5], [0.0, 0.5]][:objects])


def test_flips_of_keypoints_without_their_order_are_refused(tmp_path: Path) -> None:
    path = write_records(tmp_path / "a.tfrecord", [_labelled_example(0)])
    with pytest.raises(ConfigError, match=r"random_horizontal_flip\.keypoint_flip_permutation"):
        _train(_config(path, READ, FLIP % ""), 1, seed=0)


def test_the_sequence_of_a_run_without_these_labels_has_none_of_them(records: str) -> None:
    spec = build_train_dataset(_config(records), label_map=LABEL_MAP, batch_size=4, seed=0).element_spec
    assert spec.truth.keypoints.shape == [4, 5, 0, 2] and spec.truth.class_scores.shape == [4, 5, 0]


@pytest.mark.parametrize("reader", ["", "num_readers: 1 shuffle: false"])
@pytest.mark.parametrize("steps", [AUGMENTATION, MIXED + "batch_size: 4"], ids=["alone", "mixed"])
def test_pairs_are_what_training_takes_and_what_it_was_made_of(records: str, reader: str, steps: str) -> None:
    config = _config(records, reader, steps)
    batches = _train(config, 3, seed=11)
    pairs = list(itertools.islice(iterate_training_pairs(config, label_map=LABEL_MAP, seed=11), 12))
    taken = [tf.nest.map_structure(lambda field, i=i: field[i], batch) for batch in batches for i in range(4)]
    for (sample, element), expected in zip(pairs, taken, strict=True):
        tf.nest.map_structure(np.testing.assert_array_equal, element, expected)
        assert sample.source_id == element.images.source_ids
        assert tuple(sample.image.shape[:2]) == tuple(element.images.original_sizes.numpy())
    unchanged = _config(records, reader)
    plain = list(itertools.islice(iterate_training_pairs(unchanged, label_map=LABEL_MAP, seed=11), 12))
    for (sample, _), (other, _) in zip(pairs, plain, strict=True):
        np.testing.assert_array_equal(sample.image, other.image)
        np.testing.assert_array_equal(sample.truth.boxes, other.truth.boxes)


@pytest.mark.parametrize("cached", [True, False])
def test_the_records_of_a_batch_are_found_again(records, monkeypatch, cached):
    cache_bytes = datasets.DEFAULT_CACHE_BYTES if cached else 0
    monkeypatch.setattr(datasets, "DEFAULT_CACHE_BYTES", cache_bytes)
    config = _config(records, augmentation="batch_size: 4" + AUGMENTATION)
    batches = build_train_dataset(config, label_map=LABEL_MAP, batch_size=4, seed=3, cache_bytes=cache_bytes)
    for step, batch in enumerate(batches.take(7)):
        found = training_records(config, label_map=LABEL_MAP, seed=3, step=step)
        assert [image_name(record).encode() for record in found] == list(batch.images.source_ids.numpy())


def test_a_mixed_batch_has_the_records_that_it_may_be_mixed_with(records):
    config = _config(records, augmentation="batch_size: 4" + MIXED)
    found = training_records(config, label_map=LABEL_MAP, seed=3, step=0)
    assert len(found) == 4 + 5


def test_a_config_of_one_batch_reads_it_in_order_and_leaves_the_other_alone(records):
    config = _config(records, reader="repeat_factor_threshold: 0.5", augmentation="validation { }")
    alone = one_batch_config(config)
    assert not alone.train_input_reader.shuffle and not alone.train_config.HasField("validation")
    assert not alone.train_input_reader.HasField("repeat_factor_threshold")
    assert config.train_input_reader.shuffle and config.train_config.HasField("validation")


def test_training_alone_decodes_at_reduced_size(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    Image.fromarray(np.full((40, 80, 3), 200, np.uint8)).save(buffer, "JPEG")
    fields = {"image/encoded": [buffer.getvalue()], "image/source_id": [b"0"]}
    pattern = write_records(tmp_path / "all.tfrecord", [example(fields)])
    config = _config(pattern, "decode_at_reduced_size: true")
    # The network takes 8 x 10: an eighth of 40 rows would be 5.
    reader = datasets.train_reader(config, LABEL_MAP)
    assert reader.decoded_bytes(limit=1 << 20) == 10 * 20 * 3
    for cache_bytes in (0, 1 << 20):
        (batch,) = _train(config, 1, seed=0, cache_bytes=cache_bytes)
        assert batch.images.pixels.shape == (4, 8, 10, 3)
        np.testing.assert_allclose(batch.images.pixels, 200, atol=2)
    sample, _ = next(iterate_training_pairs(config, label_map=LABEL_MAP, seed=0))
    assert sample.image.shape == (10, 20, 3)
    ((whole, _),) = iterate_truth(config, label_map=LABEL_MAP)
    assert whole.shape == (40, 80, 3)
    config.train_input_reader.decode_at_reduced_size = False
    assert datasets.train_reader(config, LABEL_MAP).decoded_bytes(limit=1 << 20) == 40 * 80 * 3
