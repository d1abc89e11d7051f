"""Small TFRecord files made for tests."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from detection_core.data import encode
from detection_core.data.encode import EncodedImage
from tests.support.dataset_files import picture


def encode_example(image: EncodedImage, columns: Mapping[str, Sequence[Any]]) -> bytes:
    """The serialised example of an image; arguments as of `encode.encode_example`."""
    return encode.serialise(encode.encode_example(image, columns))


def object_columns(
    sides: Mapping[str, Sequence[float]], label: Sequence[int], text: Sequence[str], **more: Sequence[Any]
) -> dict[str, Sequence[Any]]:
    """The features of objects by key: sides by name, classes and others."""
    columns = {f"bbox/{side}": values for side, values in sides.items()}
    columns |= {"class/label": label, "class/text": text, **more}
    return {f"image/object/{key}": values for key, values in columns.items()}


def image_bytes(height: int, width: int, number: int = 0, kind: str = "PNG") -> bytes:
    """An image that differs from number to number."""
    return picture(kind, width, height, number)


def _feature(values: Sequence[Any]) -> tf.train.Feature:
    if isinstance(values[0], bytes):
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=values))
    if isinstance(values[0], float):
        return tf.train.Feature(float_list=tf.train.FloatList(value=values))
    return tf.train.Feature(int64_list=tf.train.Int64List(value=values))


def example(fields: dict[str, Sequence[Any]]) -> bytes:
    """Serialise a tf.Example."""
    features = {key: _feature(values) for key, values in fields.items() if len(values)}
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()


def numbered_example(number: int, *, height: int = 6, width: int = 9, objects: int = 2) -> bytes:
    """The record number `number` of a set: its source id is the number."""
    rng = np.random.default_rng(number)
    low = rng.uniform(0.0, 0.5, (objects, 2))
    high = low + rng.uniform(0.1, 0.4, (objects, 2))
    sides = zip(("ymin", "xmin", "ymax", "xmax"), np.concatenate([low, high], axis=1).T.tolist(), strict=True)
    columns = object_columns(dict(sides), label=rng.integers(1, 4, objects).tolist(), text=())
    image = {"image/encoded": [image_bytes(height, width, number)]}
    return example({**image, "image/source_id": [str(number).encode()], **columns})


def write_records(path: Path, records: Sequence[bytes]) -> str:
    """Write a TFRecord file, compressed by the ending of its name."""
    compression = "GZIP" if path.suffix == ".gz" else ""
    with tf.io.TFRecordWriter(str(path), compression) as writer:
        for record in records:
            writer.write(record)
    return str(path)
