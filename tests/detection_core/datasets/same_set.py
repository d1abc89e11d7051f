"""One small data set, written in every format that is read."""

from __future__ import annotations

import json

from tests.detection_core.datasets.dataset_files import picture, voc_xml

WIDTH, HEIGHT = 40, 30
CLASSES = ("cat", "dog")
BOX, OTHER_BOX = (5.0, 6.0, 20.0, 25.5), (0.0, 0.0, 40.0, 15.0)
RING = (10.0, 3.0, 30.0, 3.0, 20.0, 27.0)
IMAGES = {
    "a": [("cat", BOX, None), ("dog", OTHER_BOX, None)],
    "b": [("dog", (10.0, 3.0, 30.0, 27.0), RING)],
    "c": [],
}
"""Name without suffix to objects: class, box and outline, in pixels."""


def write_images(folder):
    folder.mkdir(parents=True, exist_ok=True)
    for number, name in enumerate(IMAGES):
        (folder / f"{name}.jpg").write_bytes(picture(width=WIDTH, height=HEIGHT, seed=number))


def write_text(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def _coco(root):
    write_images(root / "images")
    annotations = []
    for image, objects in enumerate(IMAGES.values()):
        for name, (x, y, right, bottom), ring in objects:
            number = len(annotations)
            entry = {"id": number, "image_id": image, "bbox": [x, y, right - x, bottom - y], "iscrowd": 0}
            entry |= {"segmentation": [list(ring)]} if ring else {}
            annotations.append({**entry, "category_id": CLASSES.index(name) + 1})
    images = [
        {"id": n, "file_name": f"{name}.jpg", "width": WIDTH, "height": HEIGHT}
        for n, name in enumerate(IMAGES)
    ]
    categories = [{"id": n, "name": name} for n, name in enumerate(CLASSES, start=1)]
    content = {"images": images, "annotations": annotations, "categories": categories}
    write_text(root / "annotations.json", json.dumps(content))


def _voc(root):
    write_images(root / "images")
    for name, objects in IMAGES.items():
        one_by_one = [voc_xml(name, [box], label) for label, box, _ in objects]
        inside = "".join(text[text.index("<object>") : text.rindex("</annotation>")] for text in one_by_one)
        write_text(root / "annots" / f"{name}.xml", voc_xml(name, (), extra=inside))


def _yolo(root):
    write_images(root / "images")
    for name, objects in IMAGES.items():
        lines = []
        for label, (x, y, right, bottom), ring in objects:
            numbers = [
                (x + right) / 2 / WIDTH,
                (y + bottom) / 2 / HEIGHT,
                (right - x) / WIDTH,
                (bottom - y) / HEIGHT,
            ]
            if ring:
                numbers = [value / (HEIGHT if at % 2 else WIDTH) for at, value in enumerate(ring)]
            lines.append(" ".join([str(CLASSES.index(label)), *map(repr, numbers)]))
        if lines:
            write_text(root / "labels" / f"{name}.txt", "\n".join(lines))
    write_text(root / "data.yaml", f"train: images\nval: images\nnames: [{', '.join(CLASSES)}]\n")


WRITERS = {"coco": _coco, "voc": _voc, "yolo": _yolo}
"""Format to what writes the set to a folder."""

WITH_OUTLINES = ("yolo",)
"""Formats that carry outlines."""
