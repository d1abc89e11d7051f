"""One small data set, written in every format that is read."""

import json
import os

from detection_core.data.record_format import write_record
from detection_core.datasets.annotated_images import AnnotatedObject
from detection_core.datasets.classes import make_label_map
from detection_core.datasets.encoding import make_example
from tests.support.dataset_files import in_pixels, picture, stored_image, voc_xml
from tests.support.record_files import encode_example, object_columns

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
            center = [(x + right) / 2 / WIDTH, (y + bottom) / 2 / HEIGHT]
            numbers = [*center, (right - x) / WIDTH, (bottom - y) / HEIGHT]
            if ring:
                numbers = [value / (HEIGHT if at % 2 else WIDTH) for at, value in enumerate(ring)]
            lines.append(" ".join([str(CLASSES.index(label)), *map(repr, numbers)]))
        if lines:
            write_text(root / "labels" / f"{name}.txt", "\n".join(lines))
    write_text(root / "data.yaml", f"train: images\nval: images\nnames: [{', '.join(CLASSES)}]\n")


def _csv(root):
    write_images(root / "images")
    lines = ["filename,width,height,class,xmin,ymin,xmax,ymax"]
    for name, objects in IMAGES.items():
        rows = [f"{label},{','.join(map(str, box))}" for label, box, _ in objects] or [",,,,"]
        lines += [f"{name}.jpg,{WIDTH},{HEIGHT},{row}" for row in rows]
    write_text(root / "labels.csv", "\n".join(lines))


def _pairs(ring):
    return list(zip(ring[::2], ring[1::2], strict=True))


def _labelme(root):
    write_images(root / "images")
    for name, objects in IMAGES.items():
        shapes = [
            {"label": label, "points": _pairs(ring or box), "group_id": None}
            | {"shape_type": "polygon" if ring else "rectangle"}
            for label, box, ring in objects
        ]
        content = {"version": "5.5.0", "flags": {}, "shapes": shapes, "imagePath": f"..\\images\\{name}.jpg"}
        content |= {"imageData": None, "imageHeight": HEIGHT, "imageWidth": WIDTH}
        write_text(root / "json" / f"{name}.json", json.dumps(content))


def _cvat(root):
    write_images(root / "images")
    images = []
    for number, (name, objects) in enumerate(IMAGES.items()):
        shapes = []
        for label, (x, y, right, bottom), ring in objects:
            points = ";".join(f"{a},{b}" for a, b in _pairs(ring)) if ring else ""
            place = f'xtl="{x}" ytl="{y}" xbr="{right}" ybr="{bottom}"'
            polygon = f'<polygon label="{label}" points="{points}"/>'
            shapes.append(polygon if ring else f'<box label="{label}" {place}/>')
        size = f'width="{WIDTH}" height="{HEIGHT}"'
        images.append(f'<image id="{number}" name="{name}.jpg" {size}>{"".join(shapes)}</image>')
    text = f"<annotations><version>1.1</version>{''.join(images)}</annotations>"
    write_text(root / "annotations.xml", text)


def _label_studio(root):
    write_images(root / "images")
    tasks = []
    for number, (name, objects) in enumerate(IMAGES.items()):
        results = []
        for label, (x, y, right, bottom), ring in objects:
            kind = "polygonlabels" if ring else "rectanglelabels"
            sides = {"width": 100 * (right - x) / WIDTH, "height": 100 * (bottom - y) / HEIGHT}
            value = {"x": 100 * x / WIDTH, "y": 100 * y / HEIGHT, **sides, "rotation": 0}
            if ring:
                value = {"points": [[100 * a / WIDTH, 100 * b / HEIGHT] for a, b in _pairs(ring)]}
            size = {"original_width": WIDTH, "original_height": HEIGHT, "image_rotation": 0}
            named = {"id": f"{number}{len(results)}", "type": kind}
            results.append({**size, "value": {**value, kind: [label]}, **named})
        done = [{"id": 1, "was_cancelled": False, "result": results}]
        address = f"/data/upload/1/0123abcd-{name}.jpg"
        tasks.append({"id": number, "annotations": done, "data": {"image": address}})
    write_text(root / "export.json", json.dumps(tasks))


def _createml(root):
    write_images(root / "images")
    entries = []
    for name, objects in IMAGES.items():
        drawn = []
        for label, (x, y, right, bottom), _ in objects:
            place = {"x": (x + right) / 2, "y": (y + bottom) / 2, "width": right - x, "height": bottom - y}
            drawn.append({"label": label, "coordinates": place})
        entries.append({"image": f"{name}.jpg", "annotations": drawn})
    write_text(root / "_annotations.createml.json", json.dumps(entries))


def _via(root):
    write_images(root / "images")
    images = {}
    for name, objects in IMAGES.items():
        regions = []
        for label, (x, y, right, bottom), ring in objects:
            place = {"name": "rect", "x": x, "y": y, "width": right - x, "height": bottom - y}
            if ring:
                place = {"name": "polygon", "all_points_x": ring[::2], "all_points_y": ring[1::2]}
            regions.append({"shape_attributes": place, "region_attributes": {"pet": label}})
        images[f"{name}.jpg99"] = {"filename": f"{name}.jpg", "size": 99, "regions": regions}
    project = {"_via_settings": {}, "_via_img_metadata": images, "_via_attributes": {}}
    write_text(root / "via_project.json", json.dumps(project))


def _open_images(root):
    write_images(root / "train")
    rows = ["ImageID,Source,LabelName,Confidence,XMin,XMax,YMin,YMax,IsOccluded,IsTruncated,IsGroupOf"]
    for name, objects in IMAGES.items():
        for label, (x, y, right, bottom), _ in objects:
            sides = f"{x / WIDTH!r},{right / WIDTH!r},{y / HEIGHT!r},{bottom / HEIGHT!r}"
            rows.append(f"{name},xclick,/m/{label},1,{sides},0,0,0")
    write_text(root / "train-annotations-bbox.csv", "\n".join(rows))
    labels = ["ImageID,Source,LabelName,Confidence"]
    labels += [f"{name},verification,/m/cat,0" for name, objects in IMAGES.items() if not objects]
    write_text(root / "train-annotations-human-imagelabels-boxable.csv", "\n".join([*labels, ""]))
    write_text(root / "class-descriptions-boxable.csv", "".join(f"/m/{c},{c}\n" for c in CLASSES))


def _tfrecord(root):
    root.mkdir(parents=True, exist_ok=True)
    with (root / "boxes.record").open("wb") as out:
        for number, (name, objects) in enumerate(IMAGES.items()):
            data = picture(width=WIDTH, height=HEIGHT, seed=number)
            image = stored_image(data, WIDTH, HEIGHT, f"{name}.jpg", name)
            sides = {"xmin": (0, WIDTH), "ymin": (1, HEIGHT), "xmax": (2, WIDTH), "ymax": (3, HEIGHT)}
            columns = object_columns(
                {side: [box[at] / whole for _, box, _ in objects] for side, (at, whole) in sides.items()},
                label=[CLASSES.index(label) + 1 for label, _, _ in objects],
                text=[label for label, _, _ in objects],
                is_crowd=[0] * len(objects),
                area=[0.0] * len(objects),
            )
            write_record(out, encode_example(image, columns))


WRITERS = {"coco": _coco, "voc": _voc, "yolo": _yolo, "cvat": _cvat, "label_studio": _label_studio}
WRITERS |= {"labelme": _labelme, "csv": _csv, "createml": _createml, "via": _via}
WRITERS |= {"open_images": _open_images, "tfrecord": _tfrecord}
"""Format to what writes the set to a folder."""

WITH_OUTLINES = ("yolo", "cvat", "label_studio", "labelme", "via")
"""Formats that carry outlines."""


def common_records(found):
    """Records with what every format says of the images; places to 1e-4 pixels, as records hold them."""
    images = [in_pixels(image, WIDTH, HEIGHT) for image in found.images]
    label_ids = make_label_map([found.categories]).ids_by_text
    records = {}
    for image in images:
        name = os.path.basename(image.filename)
        boxes = [(item.name, tuple(round(at, 4) for at in item.box)) for item in image.objects]
        objects = [AnnotatedObject(*box) for box in boxes]
        plain = image._replace(source_id=name, filename=name, objects=objects, labels=())
        records[name] = make_example(plain, label_ids).data
    return [records[name] for name in sorted(records)]
