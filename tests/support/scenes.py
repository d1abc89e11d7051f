"""A few drawn scenes of squares and circles, as CSV, Pascal VOC, COCO or YOLO."""

import csv
import json
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

SIDE, CLASSES = 96, ("circle", "square")
TINY = "image_size=64,max_level=5,fpn_num_filters=16,fpn_cell_repeats=1,box_class_repeats=1"


def draw(folder: Path, count: int, *, seed: int = 0) -> list[tuple[str, str, tuple[int, int, int, int]]]:
    """Draw scenes of one object; return file name, class and box (xmin, ymin, xmax, ymax) of each."""
    rng = np.random.default_rng(seed)
    folder.mkdir(parents=True, exist_ok=True)
    scenes = []
    for number in range(count):
        picture = Image.fromarray(rng.integers(90, 140, (SIDE, SIDE, 3), dtype=np.uint8))
        pencil = ImageDraw.Draw(picture)
        x, y = (int(v) for v in rng.integers(0, SIDE - 41, 2))
        name = CLASSES[number % 2]
        box = (x, y, x + 40, y + 40)
        (pencil.rectangle if name == "square" else pencil.ellipse)(box, fill=(250, 250, 20))
        picture.save(folder / f"{number}.jpg")
        scenes.append((f"{number}.jpg", name, box))
    return scenes


def write_csv(path: Path, scenes, *, prefix: str = "", sets=("TRAIN",), **dialect) -> Path:
    """Write Google Cloud's columns; the scenes get the sets in turn."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, **dialect)
        for number, (name, label, box) in enumerate(scenes):
            xmin, ymin, xmax, ymax = (side / SIDE for side in box)
            word = sets[number % len(sets)]
            writer.writerow([word, prefix + name, label, xmin, ymin, "", "", xmax, ymax, "", ""])
    return path


def write_voc(folder: Path, scenes, *, difficult: int = -1) -> Path:
    """Write an XML file a scene; one of them is marked as difficult."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, (name, label, box) in enumerate(scenes):
        sides = "".join(
            f"<{side}>{value}</{side}>"
            for side, value in zip(("xmin", "ymin", "xmax", "ymax"), box, strict=True)
        )
        text = (
            f"<annotation><filename>{name}</filename><size><width>{SIDE}</width><height>{SIDE}</height></size>"
            f"<object><name>{label}</name><difficult>{int(number == difficult)}</difficult>"
            f"<bndbox>{sides}</bndbox></object></annotation>"
        )
        (folder / f"{Path(name).stem}.xml").write_text(text)
    return folder


def write_coco(path: Path, scenes, *, background: bool = False) -> Path:
    """Write COCO JSON."""
    classes = [{"id": number, "name": name} for number, name in enumerate(CLASSES, start=1)]
    classes = [{"id": 0, "name": "background"}, *classes] if background else classes
    images, annotations = [], []
    for number, (name, label, (left, top, right, bottom)) in enumerate(scenes):
        images.append({"id": number, "file_name": name, "width": SIDE, "height": SIDE})
        entry = {"id": number, "image_id": number, "category_id": CLASSES.index(label) + 1, "iscrowd": 0}
        annotations.append({**entry, "bbox": [left, top, right - left, bottom - top], "area": 1600})
    path.write_text(json.dumps({"images": images, "annotations": annotations, "categories": classes}))
    return path
