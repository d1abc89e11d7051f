"""Examples as ExampleGen writes them, made of a few drawn images."""

import dataclasses
import hashlib
import io
from pathlib import Path

import numpy as np
from PIL import Image

from detection_core.data.label_map import format_label_map, label_map_from_names
from detection_core.data.record_format import write_record
from tests.support.dataset_files import stored_image
from tests.support.record_files import encode_example, object_columns

CLASSES = ("cat", "dog")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Made:
    """An image to be written; equal pictures have equal bytes."""

    picture: int = 0
    boxes: tuple[tuple[float, float, float, float], ...] = ((0.1, 0.1, 0.5, 0.5),)
    classes: tuple[str, ...] = ("cat",)
    crowd: tuple[int, ...] = ()
    source_id: str = ""
    filename: str = ""
    size: tuple[int, int] = (48, 64)
    data: bytes = b""


def picture_bytes(number: int, size: tuple[int, int] = (48, 64)) -> bytes:
    """A PNG file that looks like no other number's: soft blobs, as photos have no sharp noise."""
    blobs = np.random.default_rng(number).integers(0, 255, (6, 8, 3), dtype=np.uint8)
    stream = io.BytesIO()
    Image.fromarray(blobs).resize(size[::-1], Image.Resampling.BICUBIC).save(stream, "PNG")
    return stream.getvalue()


def encode(made: Made, number: int, classes=CLASSES) -> bytes:
    data = made.data or picture_bytes(made.picture or number + 1000, made.size)
    ymin, xmin, ymax, xmax = zip(*made.boxes, strict=True) if made.boxes else ((), (), (), ())
    texts = made.classes[: len(made.boxes)]
    name = made.source_id or f"image-{number}"
    kind = {"sha256": hashlib.sha256(data).hexdigest(), "format": "png"}
    image = stored_image(data, *made.size[::-1], made.filename or f"{name}.png", name, **kind)
    columns = object_columns(
        {"ymin": ymin, "xmin": xmin, "ymax": ymax, "xmax": xmax},
        label=[classes.index(text) + 1 for text in texts],
        text=texts,
        is_crowd=made.crowd or (0,) * len(texts),
        area=[1.0] * len(texts),
    )
    return encode_example(image, columns)


def write_examples(folder: Path, splits: dict[str, list[Made]], classes=CLASSES, shards: int = 1) -> str:
    """Write the splits in some shards each, with a label map and no card."""
    number = 0
    for split, images in splits.items():
        (folder / f"Split-{split}").mkdir(parents=True)
        for shard in range(shards):
            begin, end = (edge * len(images) // shards for edge in (shard, shard + 1))
            name = f"examples-{shard:05d}-of-{shards:05d}.tfrecord"
            with open(folder / f"Split-{split}" / name, "wb") as file:
                for made in images[begin:end]:
                    write_record(file, encode(made, number, classes))
                    number += 1
    (folder / "label_map.pbtxt").write_text(format_label_map(label_map_from_names(list(classes))))
    return str(folder)


def some_images(count: int, *, seed: int) -> list[Made]:
    """Draw images of two spans and several folders, with copies, repeated boxes, crowds and damaged files."""
    random = np.random.default_rng(seed)
    images = []
    for number in range(count):
        corners = random.uniform(0, 0.7, (random.integers(0, 6), 2))
        boxes = [(*corner, *(corner + random.uniform(0.01, 0.3, 2))) for corner in corners.tolist()]
        boxes += boxes[:1] * int(random.integers(0, 2))
        labels = random.choice(CLASSES, len(boxes), p=[0.8, 0.2])
        made = Made(
            boxes=tuple(tuple(map(float, box)) for box in boxes),
            classes=tuple(map(str, labels)),
            crowd=tuple(map(int, random.uniform(size=len(boxes)) < 0.1)),
            picture=int(random.integers(1, count)),
            source_id=f"{random.integers(1, 4)}/{number}",
            filename=f"folder {random.integers(0, 3)}/{number}.png",
            data=b"no image" if random.uniform() < 0.05 else b"",
        )
        images.append(made)
    return images
