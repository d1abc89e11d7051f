"""Datasets of a config: which records a batch has, in which order, and that a resumed run gives the rest."""

import copy
import itertools
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from detection_core.builders import datasets
from detection_core.config.check import check_evaluation, check_pipeline_config
from detection_core.config.load import parse_pipeline_config
from detection_core.data.label_map import label_map_from_names
from detection_core.data.records import image_name, naming_bad_records
from detection_core.errors import DataError
from detection_core.protos import pipeline_pb2
from tests.support.cases import cases, config_refused, refused
from tests.support.dataset_files import encoded
from tests.support.record_files import example, image_bytes, numbered_example, write_records

LABEL_MAP = label_map_from_names(["class1", "class2", "class3"])
CONFIG = """
model { ssd { num_classes: 3 image_resizer { fixed_shape_resizer { height: 8 width: 10 } } } }
train_config { max_number_of_boxes: 5 batch_size: 4 %s }
train_input_reader { %s tf_record_input_reader { input_path: "%s" } }
eval_input_reader { max_number_of_boxes: 4 tf_record_input_reader { input_path: "%s" } }
"""
BRIGHTNESS = "data_augmentation_options { random_adjust_brightness {} }"
AUGMENTATION = f"data_augmentation_options {{ random_crop_image {{ min_area: 0.2 }} }} {BRIGHTNESS}"
MIXED = f"""
  data_augmentation_options {{ random_horizontal_flip {{}} }}
  data_augmentation_options {{ mosaic {{ height: 16 width: 20 probability: 0.7 }} }}
  {BRIGHTNESS}
  mixing_pool_size: 5 num_steps: 20 close_mosaic_steps: 2
"""


def _config(pattern, reader="", train=""):
    return parse_pipeline_config(CONFIG % (train, reader, pattern, pattern))


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    folder, numbers = tmp_path_factory.mktemp("records"), iter(range(23))
    for shard, count in enumerate((9, 3, 11)):
        shard_records = [numbered_example(next(numbers)) for _ in range(count)]
        write_records(folder / f"examples-0000{shard}-of-00003.tfrecord", shard_records)
    return str(folder / "examples-?????-of-00003.tfrecord")


def _ids(batches):
    return [int(i) for batch in batches for i in batch.images.source_ids]


def _train(config, steps, seed=3, cache_bytes=0, **options):
    options |= {"seed": seed, "cache_bytes": cache_bytes}
    dataset = datasets.build_train_dataset(config, label_map=LABEL_MAP, batch_size=4, **options)
    return list(dataset.take(steps).as_numpy_iterator())


def _pairs(config):
    return datasets.iterate_training_pairs(config, label_map=LABEL_MAP, seed=3)


def _assert_equal(first, second):
    tf.nest.map_structure(np.testing.assert_array_equal, first, second)


class Run(NamedTuple):
    """An uninterrupted run of 20 steps, and what another one is asked to repeat of it."""

    config: Any
    cache_bytes: int
    batches: list[Any]
    start: int
    worker: int


@pytest.fixture(scope="module", params=["alone", "mixed"])
def run(records, request):
    """Images alone from memory, and mixed ones from the files."""
    runs = {"alone": (AUGMENTATION, 1 << 20, 5, 0), "mixed": (MIXED, 0, 17, 1)}
    train, cache_bytes, start, worker = runs[request.param]
    config = _config(records, "shuffle_buffer_size: 7 read_block_length: 2", train)
    return Run(config, cache_bytes, _train(config, 20, cache_bytes=cache_bytes), start, worker)


@pytest.mark.slow
def test_every_epoch_holds_each_example_once_in_another_order(records):
    orders = []
    for seed, cache_bytes in ((1, 1 << 20), (2, 1 << 20), (1, 0)):
        ids = _ids(_train(_config(records), 23, seed=seed, cache_bytes=cache_bytes))
        epochs = [tuple(ids[i : i + 23]) for i in range(0, 92, 23)]
        assert all(sorted(epoch) == list(range(23)) for epoch in epochs)
        orders.append(epochs)
        assert len(set(epochs)) == 4
    assert not set(orders[0]) & set(orders[1]), "seeds beside each other share an epoch"


@pytest.mark.slow
def test_a_resumed_run_gives_the_rest_and_workers_share_its_batches(run):
    rest = _train(run.config, 20 - run.start, start_step=run.start, cache_bytes=run.cache_bytes)
    _assert_equal(run.batches[run.start :], rest)
    shard = datasets.WorkerShard(worker=run.worker, workers=2, replicas=2)
    parts = _train(run.config, 5, start_step=15, cache_bytes=run.cache_bytes, shard=shard)
    for batch, part in zip(run.batches[15:], parts, strict=True):
        # The images are dealt out one by one: even ones to the first worker.
        np.testing.assert_array_equal(batch.images.pixels[run.worker :: 2], part.images.pixels)
        np.testing.assert_array_equal(batch.truth.boxes[run.worker :: 2], part.truth.boxes)


def test_pairs_are_what_training_takes_and_what_it_was_made_of(run, monkeypatch):
    monkeypatch.setattr(datasets, "DEFAULT_CACHE_BYTES", run.cache_bytes)
    pairs = list(itertools.islice(_pairs(run.config), 12))
    for number, (sample, element) in enumerate(pairs):
        _assert_equal(element, tf.nest.map_structure(lambda f, n=number: f[n % 4], run.batches[number // 4]))
        assert sample.source_id == element.images.source_ids
        assert tuple(sample.image.shape[:2]) == tuple(element.images.original_sizes.numpy())
    unchanged = copy.deepcopy(run.config)
    unchanged.train_config.ClearField("data_augmentation_options")
    for (sample, _), (plain, _) in zip(pairs, _pairs(unchanged), strict=False):
        np.testing.assert_array_equal(sample.image, plain.image)
        np.testing.assert_array_equal(sample.truth.boxes, plain.truth.boxes)


def test_the_records_of_a_batch_are_found_again(run, monkeypatch):
    """Where images are mixed, with those that the last one may be mixed with."""
    monkeypatch.setattr(datasets, "DEFAULT_CACHE_BYTES", run.cache_bytes)
    for step in (0, 5):  # the second has images of two epochs
        found = datasets.training_records(run.config, label_map=LABEL_MAP, seed=3, step=step)
        names = [image_name(record).encode() for record in found]
        assert names[:4] == list(run.batches[step].images.source_ids)
        assert len(names) == (9 if run.config.train_config.mixing_pool_size == 5 else 4)


def test_an_image_is_augmented_differently_every_epoch(run):
    images = [p for b in run.batches for p in b.images.pixels[b.images.source_ids == b"4"]]
    assert len(images) >= 3
    assert all(np.abs(a - b).max() > 0 for a, b in itertools.combinations(images, 2))


def _boxed(number, labels, size=(8, 10), **columns):
    """An image with the same box for every label."""
    sides = dict(zip(("ymin", "xmin", "ymax", "xmax"), (0.2, 0.1, 0.6, 0.5), strict=True))
    columns |= {"class/label": labels, **{f"bbox/{side}": [v] * len(labels) for side, v in sides.items()}}
    fields = {"image/encoded": [image_bytes(*size, number)], "image/source_id": [str(number).encode()]}
    return example(fields | {f"image/object/{name}": values for name, values in columns.items()})


@pytest.mark.slow
@cases(0, 1 << 20)
def test_rare_classes_are_read_more_often_and_resumed(tmp_path, *, cache_bytes):
    labels = [1] * 20 + [2] * 4
    pattern = write_records(tmp_path / "all", [_boxed(i, [label]) for i, label in enumerate(labels)])
    config = _config(pattern, "repeat_factor_threshold: 0.8 shuffle_buffer_size: 7")
    # Class 2 is in a sixth of the images: they come sqrt(0.8 * 6) times, 2.19; an epoch has 29 images.
    whole = _train(config, 15, cache_bytes=cache_bytes)
    for epoch in range(2):
        ids = _ids(whole)[29 * epoch : 29 * (epoch + 1)]
        assert len(set(ids)) == 24
        assert all(ids.count(i) in ((1, 2) if i < 20 else (2, 3)) for i in set(ids))
    _assert_equal(whole[9:], _train(config, 6, start_step=9, cache_bytes=cache_bytes))


def test_classes_weigh_by_their_objects_in_all_records_whatever_is_repeated(tmp_path):
    pattern = write_records(tmp_path / "all", [_boxed(i, [1, 1, 1 + i % 2]) for i in range(4)])
    reader, train = "repeat_factor_threshold: 0.9", "class_weight_power: 0.5"
    weights = datasets.training_class_weights(_config(pattern, reader, train), label_map=LABEL_MAP)
    # Ten objects of class1 and two of class2; class3 has none.
    first, second = 10**-0.5, 2**-0.5
    mean = (first + second) / 2
    assert weights == pytest.approx({"class1": first / mean, "class2": second / mean, "class3": 1.0})
    assert datasets.training_class_weights(_config(pattern), label_map=LABEL_MAP) == {}
    (batch,) = _train(_config(pattern, reader, train), 1, class_weights=tuple(weights.values()))
    wanted = np.where(batch.truth.classes == 1, second / mean, first / mean) * batch.truth.valid
    np.testing.assert_allclose(batch.truth.class_weights, wanted, rtol=1e-6)


def test_weighted_inputs_are_mixed_and_resumed(tmp_path):
    for name, first in (("a", 0), ("b", 100)):
        write_records(tmp_path / name, [numbered_example(first + i) for i in range(5)])
    config = _config(str(tmp_path / "a"), "sample_from_datasets_weights: [1, 3]", BRIGHTNESS)
    config.train_input_reader.tf_record_input_reader.input_path.append(str(tmp_path / "b"))
    whole = _train(config, 50)
    ids = _ids(whole)
    assert 25 <= sum(i < 100 for i in ids) <= 75
    second = [i for i in ids if i >= 100]
    assert sorted(second[:5]) == sorted(second[5:10]) == [100, 101, 102, 103, 104]
    _assert_equal(whole[30:], _train(config, 20, start_step=30))


def test_batches_have_static_shapes_and_no_labels_that_nobody_asks_for(records):
    dataset = datasets.build_train_dataset(_config(records), label_map=LABEL_MAP, batch_size=4, seed=0)
    spec = dataset.element_spec
    assert spec.images.pixels.shape == [4, 8, 10, 3]
    assert spec.truth.boxes.shape == [4, 5, 4] and spec.truth.masks.shape == [4, 5, 0, 0]
    assert spec.truth.keypoints.shape == [4, 5, 0, 2] and spec.truth.class_scores.shape == [4, 5, 0]
    assert all(s.shape.is_fully_defined() for s in tf.nest.flatten(spec))


def _numbered(path, count, **options):
    return write_records(path, [numbered_example(i, **options) for i in range(count)])


def test_records_come_in_order_without_shuffling_and_one_of_n_as_often_as_asked(tmp_path):
    path = _numbered(tmp_path / "a.tfrecord.gz", 5)
    assert _ids(_train(_config(path, "shuffle: false"), 3)) == [0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0, 1]
    path = _numbered(tmp_path / "a", 12)
    config = _config(path, "sample_1_of_n_examples: 3 num_epochs: 2")
    assert sorted(_ids(_train(config, 9))) == [0, 0, 3, 3, 6, 6, 9, 9]
    assert datasets.train_reader(config, LABEL_MAP).examples() == 4


def test_evaluation_reads_each_example_once_in_order_and_unchanged(tmp_path):
    path = _numbered(tmp_path / "a", 5)
    config, training = _config(path), _config(path, "num_epochs: 3")
    dataset = datasets.build_eval_dataset(config, label_map=LABEL_MAP, batch_size=2)
    batches = list(dataset.as_numpy_iterator())
    assert _ids(batches) == [0, 1, 2, 3, 4]
    np.testing.assert_array_equal(batches[0].images.original_sizes, [[6, 9], [6, 9]])
    assert batches[0].truth.valid.sum(axis=1).tolist() == [2, 2]
    assert batches[0].truth.boxes.shape == (2, 4, 4)
    images = np.concatenate([batch.images.pixels for batch in batches])
    assert len(np.unique(images, axis=0)) == 5
    for start, examples, expected in (
        (0, 9, [2, 2, 1]),
        (0, 3, [2, 2]),
        (3, 9, [2]),
        (1, 2, [2]),
        (5, 2, []),
    ):
        pixels = datasets.representative_pixels(
            training, label_map=LABEL_MAP, examples=examples, batch_size=2, start=start
        )
        found = [batch.numpy() for batch in pixels]
        assert [len(batch) for batch in found] == expected
        if found:
            np.testing.assert_array_equal(np.concatenate(found), images[start : start + sum(expected)])


def test_evaluation_may_read_a_sample(records):
    config = _config(records)
    config.eval_input_reader[0].sample_1_of_n_examples = 2
    found, images = datasets.sampled_evaluation(config, 5, label_map=LABEL_MAP)
    assert (found.eval_input_reader[0].sample_1_of_n_examples, images) == (6, 4)
    assert _ids(datasets.build_eval_dataset(found, label_map=LABEL_MAP)) == [0, 6, 12, 18]
    assert config.eval_input_reader[0].sample_1_of_n_examples == 2
    for enough in (0, 12):
        assert datasets.sampled_evaluation(config, enough, label_map=LABEL_MAP) == (config, 12)
    message = "^eval_input_reader: expected an eval_input_reader, found none"
    empty = pipeline_pb2.TrainEvalPipelineConfig()
    config_refused(message, check_evaluation, empty)


def test_truth_is_that_of_the_original_image(tmp_path):
    path = _numbered(tmp_path / "a.tfrecord", 3, objects=7)
    found = list(datasets.iterate_truth(_config(path), label_map=LABEL_MAP))
    assert [truth.source_id for _, truth in found] == ["0", "1", "2"]
    image, truth = found[0]
    assert image.shape == (6, 9, 3) and image.dtype == np.uint8
    assert (truth.height, truth.width) == (6, 9)
    assert truth.boxes.shape == (7, 4) and not truth.difficult.any() and not truth.is_crowd.any()


def test_a_damaged_or_missing_file_is_named_before_training(tmp_path):
    path = Path(_numbered(tmp_path / "a.tfrecord", 8))
    whole = path.read_bytes()
    middle = len(whole) // 2
    path.write_bytes(whole[:middle] + bytes([whole[middle] ^ 0xFF]) + whole[middle + 1 :])
    message = r"a\.tfrecord, record [345]: .*damaged"
    refused(DataError, message, _train, _config(str(path)), 1, cache_bytes=1 << 20)
    path.write_bytes(whole[:-20])
    truth = datasets.iterate_truth(_config(str(path)), label_map=LABEL_MAP)
    refused(DataError, r"a\.tfrecord, record 7", list, truth)
    nothing = _config(str(tmp_path / "nothing-here*"))
    refused(DataError, "nothing-here.*correct input_path", _train, nothing, 1)


def test_an_image_that_does_not_decode_is_named_while_training(tmp_path):
    broken = example({"image/encoded": [b"no image"], "image/source_id": [b"17"]})
    path = write_records(tmp_path / "a.tfrecord", [*(numbered_example(i) for i in range(8)), broken])
    config = _config(path)
    reader, message = datasets.train_reader(config, LABEL_MAP), r"a\.tfrecord, record 8: .*does not decode"
    with pytest.raises(DataError, match=message), naming_bad_records(reader.paths, reader.decode):
        _train(config, 6)
    refused(DataError, message, list, datasets.representative_pixels(config, label_map=LABEL_MAP, examples=9))
    (bad,), examined = datasets.find_bad_train_records(config, label_map=LABEL_MAP)
    assert (bad.path, bad.index, bad.image, examined) == (path, 8, "17", 9)
    kept = _train(config, 4, shard=datasets.WorkerShard(left_out=(bad,)))
    assert set(_ids(kept)) == set(range(8))


READ = "num_keypoints: 2 keypoint_type_weight: [1, 0.5] load_multiclass_scores: true"
FLIP = "data_augmentation_options { random_horizontal_flip { %s } }"
COLUMNS = {
    "class/multiclass_scores": [0.5, 0.25, 0.25, 0.0, 0.0, 1.0], "keypoint/visibility": [2, 2, 1, 0],
    "keypoint/y": [0.3, 0.4, 0.5, 0.6], "keypoint/x": [0.1, 0.2, 0.3, 0.4],
}  # fmt: skip


@cases(
    ("use_multiclass_scores: true", [[0.5, 0.25, 0.25], [0.0, 0.0, 1.0]]),
    ("merge_multiple_label_boxes: true", [[1.0, 0.0, 1.0]]),
)
def test_keypoints_and_labels_reach_the_batch(tmp_path, *, options, scores):
    path = write_records(tmp_path / "a", [_boxed(i, [1, 3], **COLUMNS) for i in range(4)])
    flip = FLIP % "probability: 1 keypoint_flip_permutation: [1, 0]"
    (batch,) = _train(_config(path, READ, f"{options} {flip}"), 1)
    truth, objects = batch.truth, len(scores)
    np.testing.assert_allclose(truth.class_scores[0, :objects], scores)
    assert truth.valid.sum(axis=1).tolist() == [objects] * 4
    np.testing.assert_allclose(truth.keypoints[0, 0], [[0.4, 0.8], [0.3, 0.9]], rtol=1e-6)
    np.testing.assert_allclose(truth.keypoint_weights[0, :objects], [[1.0, 0.5], [0.0, 0.5]][:objects])


def test_what_is_not_read_and_flips_without_an_order_of_keypoints_are_refused(records):
    unread, flipped = _config(records, "load_track_id: true"), _config(records, READ, FLIP % "")
    config_refused(r"train_input_reader\.load_track_id", check_pipeline_config, unread)
    config_refused(r"random_horizontal_flip\.keypoint_flip_permutation", check_pipeline_config, flipped)


def test_a_config_of_one_batch_reads_it_in_order_and_leaves_the_other_alone():
    reader = "repeat_factor_threshold: 0.5 sample_1_of_n_examples: 2 num_epochs: 3"
    config = _config("a", reader, "validation { } fine_tune_checkpoint: 'b'")
    alone = datasets.one_batch_config(config)
    assert not alone.train_input_reader.shuffle and config.train_input_reader.shuffle
    cleared = {
        "train_input_reader": ("repeat_factor_threshold", "sample_1_of_n_examples", "num_epochs"),
        "train_config": ("validation", "fine_tune_checkpoint"),
    }
    for message, fields in cleared.items():
        for field in fields:
            assert not getattr(alone, message).HasField(field) and getattr(config, message).HasField(field)
    assert alone.train_config.batch_size == 4


def test_training_alone_decodes_at_reduced_size(tmp_path):
    data = encoded(Image.fromarray(np.full((40, 80, 3), 200, np.uint8)), "JPEG")
    fields = {"image/encoded": [data], "image/source_id": [b"0"]}
    config = _config(write_records(tmp_path / "all", [example(fields)]), "decode_at_reduced_size: true")
    # The network takes 8 x 10: an eighth of 40 rows would be 5.
    reader = datasets.train_reader(config, LABEL_MAP)
    assert reader.decoded_bytes(limit=1 << 20) == 10 * 20 * 3
    (batch,) = _train(config, 1)
    sample, element = next(_pairs(config))  # from memory
    for pixels in (*batch.images.pixels, element.images.pixels):
        assert pixels.shape == (8, 10, 3)
        np.testing.assert_allclose(pixels, 200, atol=2)
    assert sample.image.shape == (10, 20, 3)
    ((whole, _),) = datasets.iterate_truth(config, label_map=LABEL_MAP)
    assert whole.shape == (40, 80, 3)
    config.train_input_reader.decode_at_reduced_size = False
    assert datasets.train_reader(config, LABEL_MAP).decoded_bytes(limit=1 << 20) == 40 * 80 * 3
