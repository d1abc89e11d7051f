"""Annotations are written as the ingest reads them: the same images, classes and boxes."""

import json
import os
from xml.etree import ElementTree

import numpy as np
import yaml
from PIL import Image

from detection_core.data.label_map import LabelMap, LabelMapItem
from detection_core.datasets.annotated_images import AnnotatedImage, AnnotatedObject
from detection_core.datasets.annotation_writers import WRITERS
from detection_core.datasets.layout_search import find_layouts
from detection_core.datasets.readers import READERS
from detection_core.datasets.shapes import place_objects
from tests.support.cases import cases

MODEL = "ssd 1795305663"
CLASSES = LabelMap(items=(LabelMapItem(id=1, name="red cell"), LabelMapItem(id=3, name='a "<&> ä')))
SIZES = {"a/x.jpg": (64, 48), "b.png": (50, 40), "none.jpg": (30, 20)}
BOXES = {
    "a/x.jpg": [("red cell", (0, 0, 64, 48), 0.9), ('a "<&> ä', (10.5, 3.25, 20, 40), 0.25)],
    "b.png": [("red cell", (1, 2, 3, 5), 1.0)],
    "none.jpg": [],
}


def images(folder):
    return [
        AnnotatedImage(
            name, name, f"{folder}/{name}", *SIZES[name],
            [AnnotatedObject(label, box, confidence=score) for label, box, score in BOXES[name]],
        )
        for name in SIZES
    ]  # fmt: skip


def write(folder, name):
    """Write annotations of a format, and the images where its reader looks for them."""
    WRITERS[name](str(folder), images(folder), CLASSES, MODEL)
    root = folder / name if name in ("voc", "yolo") else folder
    where = {"voc": "JPEGImages", "yolo": "images"}.get(name, "images")
    for file, size in SIZES.items():
        path = root / where / file
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", size).save(path)
    return root


def as_annotated(path):
    """Accept the predictions of tasks, as Label Studio does when an annotator submits them."""
    tasks = json.loads(path.read_text())
    for task in tasks:
        (prediction,) = task.pop("predictions")
        task["annotations"] = [{"result": prediction["result"]}]
    path.write_text(json.dumps(tasks))


@cases(*sorted(WRITERS))
def test_what_is_written_is_read_back(tmp_path, *, name):
    root = write(tmp_path, name)
    if name == "label_studio":
        as_annotated(root / "label_studio.json")
    (layout, *_) = [found for found in find_layouts(str(root)) if found.format == name]
    location = layout.splits["train"] if isinstance(layout.splits["train"], dict | str) else None
    found = READERS[name].read(layout.path, location)
    read = {os.path.relpath(image.path, root).partition("/")[2]: image for image in found.images}
    assert found.rejected == [] and sorted(read) == sorted(SIZES)
    for file, image in read.items():
        objects = place_objects(image, *SIZES[file])
        assert [item.name for item in objects] == [label for label, _, _ in BOXES[file]]
        boxes = np.reshape([item.box for item in objects], (-1, 4))
        # YOLO's six decimals are of the image's side, the others' two of a pixel.
        np.testing.assert_allclose(boxes, np.reshape([box for _, box, _ in BOXES[file]], (-1, 4)), atol=1e-4)
        if name == "coco":
            assert [item.confidence for item in objects] == [score for _, _, score in BOXES[file]]


def test_formats_have_the_model_and_the_scores_where_they_have_a_field(tmp_path):
    for name in WRITERS:
        WRITERS[name](str(tmp_path), images(tmp_path), CLASSES, MODEL)
    assert json.loads((tmp_path / "annotations.json").read_text())["info"] == {"description": MODEL}
    voc = ElementTree.parse(tmp_path / "voc" / "Annotations" / "a" / "x.xml")
    assert voc.findtext("source/annotation") == MODEL and voc.findtext("folder") == "a"
    data = (tmp_path / "yolo" / "data.yaml").read_text()
    assert data.startswith(f'# "{MODEL}"\n')
    assert yaml.safe_load(data)["names"] == {0: "red cell", 2: 'a "<&> ä'}
    cvat = ElementTree.parse(tmp_path / "cvat.xml")
    assert cvat.findtext("meta/task/name") == MODEL
    assert [box.get("source") for box in cvat.iter("box")] == ["auto"] * 3
    assert [a.text for a in cvat.iterfind("image/box/attribute[@name='score']")] == [
        "0.9000",
        "0.2500",
        "1.0000",
    ]
    tasks = json.loads((tmp_path / "label_studio.json").read_text())
    assert tasks[0]["data"] == {"image": "/data/local-files/?d=a/x.jpg"}
    (prediction,) = tasks[0]["predictions"]
    assert prediction["model_version"] == MODEL
    assert [region["score"] for region in prediction["result"]] == [0.9, 0.25]
    assert (tmp_path / "detections.csv").read_text().splitlines()[1] == "a/x.jpg,64,48,red cell,0,0,64,48,0.9"


def test_names_that_are_no_text_and_no_images_leave_files_that_can_be_parsed(tmp_path):
    odd = AnnotatedImage("\udc80.jpg", "\udc80.jpg", "\udc80.jpg", 4, 4, [])
    for name in WRITERS:
        for number, some in enumerate(([odd], [])):
            WRITERS[name](str(tmp_path / str(number)), some, CLASSES, "")
    for number in "01":
        json.loads((tmp_path / number / "label_studio.json").read_text())
        json.loads((tmp_path / number / "annotations.json").read_text())
        ElementTree.parse(tmp_path / number / "cvat.xml")
    assert ElementTree.parse(tmp_path / "0" / "cvat.xml").find("image").get("name") == "?.jpg"
