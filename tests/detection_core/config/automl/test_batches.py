"""Batches of their records, read by the config that hyper-parameters become, against the goldens."""

import hashlib
import pathlib
from typing import Any

import numpy as np
import tensorflow as tf

from detection_core.builders.datasets import build_eval_dataset, build_train_dataset
from detection_core.config.automl.label_maps import resolve_label_map, to_label_map
from detection_core.config.automl.translation import RunFlags, translate
from detection_core.config.messages.efficientdet import settings_of
from detection_core.data.label_map import LabelMap, label_map_from_names
from tests.support.cases import cases
from tests.support.golden_cases import load_cases
from tests.support.record_files import example, image_bytes, write_records

CASES = load_cases(__file__, "batches")
LABELS = label_map_from_names(["a", "b", "c"])
READ = {"image_size": 64, "num_classes": 3, "max_instances_per_image": 6, "input_rand_hflip": False}
READ |= {"jitter_min": 1.0, "jitter_max": 1.0, "min_level": 3, "max_level": 5, "num_scales": 1}


def _config(hparams: dict[str, Any], records: str) -> Any:
    flags = RunFlags(
        batch_size=2, num_examples_per_epoch=20, train_file_pattern=records, val_file_pattern=records
    )
    config = translate("efficientdet-d0", hparams, flags).config
    config.train_input_reader.shuffle = False
    return config


def _first(config: Any, labels: LabelMap, *, training: bool) -> Any:
    if training:
        return next(iter(build_train_dataset(config, label_map=labels, batch_size=2, seed=0, cache_bytes=0)))
    return next(iter(build_eval_dataset(config, label_map=labels, batch_size=2)))


def _batch(name: str, folder: pathlib.Path, **changed: Any) -> tuple[Any, Any]:
    given = dict(CASES[name].params)
    examples, training = given.pop("examples"), given.pop("is_training")
    assert READ.items() <= given.items()
    serialized = [CASES[example].inputs["serialized"].tobytes() for example in examples]
    config = _config(given | changed, write_records(folder / "train-00000-of-00001.tfrecord", serialized))
    return _first(config, LABELS, training=training), settings_of(config.model.efficientdet)


@cases(*(name for name in CASES if name.startswith("batch")))
def test_golden_batch(tmp_path: pathlib.Path, *, name: str) -> None:
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


def test_crowds_stay_where_they_are_not_to_be_skipped(tmp_path: pathlib.Path) -> None:
    kept = _batch("batch_train", tmp_path, skip_crowd_during_training=False)[0].truth.valid.numpy()
    skipped = CASES["batch_train"].outputs["groundtruth_data"][:, :, 6] > 0
    assert (kept.sum(axis=1) - skipped.sum(axis=1)).tolist() == [0, 1]


NAMES = {1: "aeroplane", 12: "dog", 18: "dog"}


def _full_record(number: int, labels: list[int], **own: Any) -> bytes:
    """A record with all features that both of their writers write; `own`: those of one of them."""
    count = len(labels)
    picture = image_bytes(40, 60, number, "JPEG")
    corners = {"ymin": 0.25, "xmin": 0.1, "ymax": 0.75, "xmax": 0.6}
    fields: dict[str, Any] = {
        "image/height": [40],
        "image/width": [60],
        "image/filename": [f"{number:06d}.jpg".encode()],
        "image/source_id": [str(number).encode()],
        "image/key/sha256": [hashlib.sha256(picture).hexdigest().encode()],
        "image/encoded": [picture],
        "image/format": [b"jpeg"],
        "image/object/class/text": [NAMES[label].encode() for label in labels],
        "image/object/class/label": labels,
    }
    fields |= {f"image/object/bbox/{name}": [value] * count for name, value in corners.items()}
    return example(fields | {f"image/object/{name}": values for name, values in own.items()})


# Fields of one writer alone: dataset/create_coco_tfrecord.py, dataset/create_pascal_tfrecord.py.
WRITERS: dict[str, tuple[list[int], dict[str, Any]]] = {
    "coco": ([18, 1], {"is_crowd": [1, 0], "area": [600.0, 500.0]}),
    "pascal": ([12, 1], {"difficult": [1, 0], "truncated": [0, 1], "view": [b"Left", b"Unspecified"]}),
}


@cases(("coco", {1: "aeroplane", 18: "dog"}, 90), ("pascal", "0: background\n1: aeroplane\n12: dog\n", 20))
def test_records_of_their_writers_are_read_as_they_are(
    tmp_path: pathlib.Path, *, writer: str, label_map: Any, classes: int
) -> None:
    """With a label map without all ids, and one with the background in a file."""
    if isinstance(label_map, str):
        (tmp_path / "names.yaml").write_text(label_map, encoding="utf-8")
        label_map = str(tmp_path / "names.yaml")
    labels, own = WRITERS[writer]
    write_records(tmp_path / "set-00000-of-00002.tfrecord", [_full_record(7, labels, **own)])
    write_records(tmp_path / "set-00001-of-00002.tfrecord", [_full_record(8, [])])
    hparams = READ | {"num_classes": classes, "label_map": label_map}
    config = _config(hparams, str(tmp_path / "set-*.tfrecord"))
    ours = to_label_map(resolve_label_map(label_map))
    crowds = [bool(crowd) for crowd in own.get("is_crowd", [0, 0])]
    trained = [label for label, crowd in zip(labels, crowds, strict=True) if not crowd]
    for training, expected in ((True, trained), (False, labels)):
        batch = _first(config, ours, training=training)
        ids = {int(name): row for row, name in enumerate(batch.images.source_ids.numpy().tolist())}
        assert set(ids) == {7, 8} and not batch.truth.valid[ids[8]].numpy().any()
        truth = tf.nest.map_structure(lambda field, row=ids[7]: field[row].numpy(), batch.truth)
        assert (truth.classes[truth.valid] + 1).tolist() == expected
        assert truth.is_crowd[truth.valid].tolist() == crowds[-len(expected) :]
        # 40 rows of 60 columns fill the upper two thirds of the square.
        box = truth.boxes[truth.valid][0]
        np.testing.assert_allclose(box, [0.25 * 2 / 3, 0.1, 0.75 * 2 / 3, 0.6], atol=1 / 64)
