"""Batches of their records, read by the config that hyper-parameters become, against the goldens."""

import numpy as np
import tensorflow as tf

from detection_core.builders.datasets import build_eval_dataset, build_train_dataset
from detection_core.config.automl.translation import RunFlags, translate
from detection_core.config.messages.efficientdet import settings_of
from detection_core.data.label_map import label_map_from_names
from tests.support.cases import cases
from tests.support.golden_cases import load_cases
from tests.support.record_files import write_records

CASES = load_cases(__file__, "batches")
LABELS = label_map_from_names(["a", "b", "c"])
READ = {"image_size": 64, "num_classes": 3, "max_instances_per_image": 6, "input_rand_hflip": False}
READ |= {"jitter_min": 1.0, "jitter_max": 1.0, "min_level": 3, "max_level": 5, "num_scales": 1}


def _config(hparams, records):
    flags = RunFlags(
        batch_size=2, num_examples_per_epoch=20, train_file_pattern=records, val_file_pattern=records
    )
    config = translate("efficientdet-d0", hparams, flags).config
    config.train_input_reader.shuffle = False
    return config


def _first(config, labels, *, training):
    if training:
        return next(iter(build_train_dataset(config, label_map=labels, batch_size=2, seed=0, cache_bytes=0)))
    return next(iter(build_eval_dataset(config, label_map=labels, batch_size=2)))


def _batch(name, folder, **changed):
    given = dict(CASES[name].params)
    examples, training = given.pop("examples"), given.pop("is_training")
    assert READ.items() <= given.items()
    serialized = [CASES[example].inputs["serialized"].tobytes() for example in examples]
    config = _config(given | changed, write_records(folder / "train-00000-of-00001.tfrecord", serialized))
    return _first(config, LABELS, training=training), settings_of(config.model.efficientdet)


@cases(*(name for name in CASES if name.startswith("batch")))
def test_golden_batch(tmp_path, *, name):
    batch, settings = _batch(name, tmp_path)
    wanted = CASES[name].outputs
    pixels = (batch.images.pixels - tf.constant(settings.mean_rgb)) / tf.constant(settings.stddev_rgb)
    if settings.scale_range:
        pixels = pixels * 2.0 / 255.0 - 1.0
    flat = pixels.numpy().reshape(-1)
    sampled = flat[np.linspace(0, flat.size - 1, 512).astype(np.int64)]
    np.testing.assert_allclose(sampled, wanted["images"], rtol=1e-4, atol=1e-3)
    for row in range(2):
        truth = wanted["groundtruth_data"][row]
        labelled = truth[truth[:, 6] > 0]
        valid = batch.truth.valid[row].numpy()
        assert valid.sum() == len(labelled)
        boxes = batch.truth.boxes[row].numpy()[valid] * 64 * wanted["image_scales"][row]
        np.testing.assert_allclose(boxes, labelled[:, :4], rtol=1e-4, atol=1e-3)
        np.testing.assert_array_equal(batch.truth.classes[row].numpy()[valid] + 1, labelled[:, 6])


def test_crowds_stay_where_they_are_not_to_be_skipped(tmp_path):
    kept = _batch("batch_train", tmp_path, skip_crowd_during_training=False)[0].truth.valid.numpy()
    skipped = CASES["batch_train"].outputs["groundtruth_data"][:, :, 6] > 0
    assert (kept.sum(axis=1) - skipped.sum(axis=1)).tolist() == [0, 1]
