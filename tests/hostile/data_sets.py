"""Small data sets of each annotation format, to put something wrong into."""

import json
import os
from pathlib import Path

from tests.hostile.case import put, step

_SPLITS = '{"train": {"annotations": "a.json", "images": "images"}}'
RATIO = '{"train": 1.0}'


def example_gen(kind, splits="", **fields):
    """Return the call of ExampleGen for the data set in {in}; any share of it may go into quarantine."""
    given = {"examples": "{out}/examples", "data_path": "{in}", "data_format": kind, "quarantine_limit": "1"}
    usual = _SPLITS if kind == "coco" else RATIO
    return step("example_gen", **{**given, "splits": splits or usual, **fields})


def good_images(folder, count=3):
    """Write images g0.jpg, g1.jpg and so on; return their names."""
    from tests.hostile.images import jpeg

    return [put(folder / f"g{number}.jpg", jpeg()).name for number in range(count)]


def coco(folder, images=(), annotations=(), *, categories=None, raw=None, files=None, count=3):
    """Write `a.json` and good images with a box each, further entries of it, and further files of images.

    Categories stand in place of one, `cat`; `raw` is the whole file of annotations in place of all that.
    """
    names = good_images(folder / "images", count)
    for name, content in (files or {}).items():
        put(folder / "images" / name, content)
    good = [{"id": 1000 + i, "file_name": name, "width": 64, "height": 48} for i, name in enumerate(names)]
    box = {"bbox": [1, 1, 20, 20], "category_id": 1, "area": 400, "iscrowd": 0}
    boxes = [{"id": 9000 + i, "image_id": 1000 + i, **box} for i in range(len(names))]
    whole = {
        "images": [*good, *images],
        "annotations": [*boxes, *annotations],
        "categories": [{"id": 1, "name": "cat"}] if categories is None else categories,
    }
    put(folder / "a.json", json.dumps(whole) if raw is None else raw)


def voc_xml(name="cat", box=(1, 1, 20, 20), size=(64, 48), file="x.jpg", head="", more=""):
    """Return an annotation of Pascal VOC with one object."""
    corners = "".join(f"<{k}>{v}</{k}>" for k, v in zip(("xmin", "ymin", "xmax", "ymax"), box, strict=True))
    return (
        f"{head}<annotation><filename>{file}</filename><size><width>{size[0]}</width><height>{size[1]}</height>"
        f"</size><object><name>{name}</name><bndbox>{corners}</bndbox>{more}</object></annotation>"
    )


def voc(folder, xml, name="x.xml"):
    """Write two good images with annotations, and a third with one of the given text."""
    from tests.hostile.images import jpeg

    for image in good_images(folder / "JPEGImages", 2):
        put(folder / "Annotations" / f"{image[:-4]}.xml", voc_xml(file=image))
    put(folder / "JPEGImages/x.jpg", jpeg())
    put(Path(os.fsdecode(os.fsencode(folder / "Annotations" / name))), xml)


def yolo(folder, data=None, labels="0 0.5 0.5 0.2 0.2\n"):
    """Write three images with labels, and a data.yaml."""
    names = good_images(folder / "images/train")
    for name in names:
        put(folder / "labels/train" / f"{name[:-4]}.txt", "0 0.5 0.5 0.2 0.2\n")
    put(folder / "labels/train/g2.txt", labels)
    good = "train: images/train\nval: images/train\nnames: [cat]\n"
    put(folder / "data.yaml", good if data is None else data)


def labelme(folder, **fields):
    """Write a good image with its LabelMe file, and one whose fields are changed."""
    good_images(folder, 2)
    place = {"points": [[1, 1], [20, 20]], "shape_type": "rectangle", "group_id": None}
    whole = {"version": "5.4.1", "flags": {}, "shapes": [{"label": "cat", **place, "flags": {}}]}
    whole |= {"imageData": None, "imageHeight": 48, "imageWidth": 64}
    put(folder / "g0.json", json.dumps({**whole, "imagePath": "g0.jpg"}))
    changed = json.dumps({**whole, "imagePath": "g1.jpg", **fields})
    put(folder / f"{fields.get('file', 'g1')}.json", fields.get("raw", changed))
