"""Small data sets of each annotation format, to put something wrong into."""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.hostile.case import put, step

_SPLITS = '{"train": {"annotations": "a.json", "images": "images"}}'
RATIO = '{"train": 1.0}'


def example_gen(kind: str, splits: str = "", **fields: str) -> tuple[str, ...]:
    """Return the call of ExampleGen for the data set in {in}; any share of it may go into quarantine."""
    given = {"examples": "{out}/examples", "data_path": "{in}", "data_format": kind, "quarantine_limit": "1"}
    usual = _SPLITS if kind == "coco" else RATIO
    return step("example_gen", **{**given, "splits": splits or usual, **fields})


def good_images(folder: Path, count: int = 3) -> list[str]:
    """Write images g0.jpg, g1.jpg and so on; return their names."""
    from tests.hostile.images import jpeg

    return [put(folder / f"g{number}.jpg", jpeg()).name for number in range(count)]


def coco(
    folder: Path,
    images: Sequence[Any] = (),
    annotations: Sequence[Any] = (),
    *,
    categories: Any = None,
    raw: bytes | str | None = None,
    files: Mapping[str, bytes] | None = None,
    count: int = 3,
) -> None:
    """Write good images with a box each, and what else is given.

    Args:
        folder: to write `a.json` and `images/` to.
        images: further entries.
        annotations: further entries.
        categories: in place of one, `cat`.
        raw: the whole file of annotations, in place of all that.
        files: further images by name.
        count: how many good images.
    """
    names = good_images(folder / "images", count)
    for name, content in (files or {}).items():
        put(folder / "images" / name, content)
    good = [{"id": 1000 + i, "file_name": name, "width": 64, "height": 48} for i, name in enumerate(names)]
    boxes = [
        {
            "id": 9000 + i,
            "image_id": 1000 + i,
            "bbox": [1, 1, 20, 20],
            "category_id": 1,
            "area": 400,
            "iscrowd": 0,
        }
        for i in range(len(names))
    ]
    whole = {
        "images": [*good, *images],
        "annotations": [*boxes, *annotations],
        "categories": [{"id": 1, "name": "cat"}] if categories is None else categories,
    }
    put(folder / "a.json", json.dumps(whole) if raw is None else raw)


def voc_xml(
    name: str = "cat",
    box: Sequence[Any] = (1, 1, 20, 20),
    size: Sequence[Any] = (64, 48),
    file: str = "x.jpg",
    head: str = "",
    more: str = "",
) -> str:
    """Return an annotation of Pascal VOC with one object."""
    corners = "".join(f"<{k}>{v}</{k}>" for k, v in zip(("xmin", "ymin", "xmax", "ymax"), box, strict=True))
    return (
        f"{head}<annotation><filename>{file}</filename><size><width>{size[0]}</width><height>{size[1]}</height>"
        f"</size><object><name>{name}</name><bndbox>{corners}</bndbox>{more}</object></annotation>"
    )


def voc(folder: Path, xml: bytes | str, name: str = "x.xml") -> None:
    """Write two good images with annotations, and a third with one of the given text."""
    from tests.hostile.images import jpeg

    for image in good_images(folder / "JPEGImages", 2):
        put(folder / "Annotations" / f"{image[:-4]}.xml", voc_xml(file=image))
    put(folder / "JPEGImages/x.jpg", jpeg())
    put(Path(os.fsdecode(os.fsencode(folder / "Annotations" / name))), xml)


def yolo(folder: Path, data: bytes | str | None = None, labels: bytes | str = "0 0.5 0.5 0.2 0.2\n") -> None:
    """Write three images with labels, and a data.yaml."""
    names = good_images(folder / "images/train")
    for name in names:
        put(folder / "labels/train" / f"{name[:-4]}.txt", "0 0.5 0.5 0.2 0.2\n")
    put(folder / "labels/train/g2.txt", labels)
    put(
        folder / "data.yaml",
        "train: images/train\nval: images/train\nnames: [cat]\n" if data is None else data,
    )


def labelme(folder: Path, **fields: Any) -> None:
    """Write a good image with its LabelMe file, and one whose fields are changed."""
    good_images(folder, 2)
    shape = {
        "label": "cat",
        "points": [[1, 1], [20, 20]],
        "shape_type": "rectangle",
        "group_id": None,
        "flags": {},
    }
    for number in range(2):
        whole = {
            "version": "5.4.1",
            "flags": {},
            "shapes": [shape],
            "imagePath": f"g{number}.jpg",
            "imageData": None,
            "imageHeight": 48,
            "imageWidth": 64,
        }
        changed = {**whole, **fields} if number else whole
        name = fields.get("file", "g1") if number else "g0"
        put(folder / f"{name}.json", fields["raw"] if number and "raw" in fields else json.dumps(changed))
