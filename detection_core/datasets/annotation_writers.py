"""Write boxes as annotation files that the readers of `formats` read, such as pre-annotations of a detector.

A format has the model, the scores (`AnnotatedObject.confidence`) and the notes if there is a field for them.
"""

import csv
import io
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from xml.etree import ElementTree

from detection_core.data.label_map import LabelMap
from detection_core.datasets.annotated_images import AnnotatedImage, AnnotatedObject
from detection_core.datasets.dataset_conversion import open_coco
from detection_core.storage import files

Writer = Callable[[str, Sequence[AnnotatedImage], LabelMap, str], None]
"""Takes the folder to write, images with boxes in pixels, the classes, and the model's name and version.

Image files are named by `AnnotatedImage.filename`; none is copied.
"""

_SIDES = ("xmin", "ymin", "xmax", "ymax")


def _write_coco(folder: str, images: Sequence[AnnotatedImage], label_map: LabelMap, model: str) -> None:
    with open_coco(files.join(folder, "annotations.json"), label_map, {}, model=model) as writer:
        for image in images:
            writer.add(image, image.filename, (image.width, image.height))


def _write_voc(folder: str, images: Sequence[AnnotatedImage], label_map: LabelMap, model: str) -> None:
    for image in images:
        stem = os.path.splitext(image.filename)[0]
        objects = [
            _element(
                "object",
                {"name": item.name, "pose": "Unspecified", "truncated": 0, "difficult": 0},
                _element("bndbox", dict(zip(_SIDES, _rounded(item), strict=True))),
            )
            for item in image.objects
        ]
        root = _element(
            "annotation",
            {"folder": os.path.dirname(stem), "filename": os.path.basename(image.filename)},
            _element("source", {"database": "Unknown", "annotation": model}),
            _element("size", {"width": image.width, "height": image.height, "depth": 3}),
            *objects,
        )
        files.write_bytes(files.join(folder, "voc", "Annotations", f"{stem}.xml"), _xml(root))


def _element(tag: str, texts: Mapping[str, object], *below: ElementTree.Element) -> ElementTree.Element:
    element = ElementTree.Element(tag)
    for name, text in texts.items():
        ElementTree.SubElement(element, name).text = str(text)
    element.extend(below)
    return element


def _xml(element: ElementTree.Element) -> bytes:
    ElementTree.indent(element)
    # A file name may have bytes that are no text.
    return ElementTree.tostring(element, encoding="unicode").encode(errors="replace") + b"\n"


def _rounded(item: AnnotatedObject) -> list[float]:
    return [round(side, 2) for side in item.box]


def _write_yolo(folder: str, images: Sequence[AnnotatedImage], label_map: LabelMap, model: str) -> None:
    for image in images:
        lines = []
        for item in image.objects:
            x, y, width, height = _in_image(item, image)
            numbers = f"{x + width / 2:.6f} {y + height / 2:.6f} {width:.6f} {height:.6f}"
            lines.append(f"{label_map.ids_by_text[item.name] - 1} {numbers}\n")
        stem = os.path.splitext(image.filename)[0]
        files.write_text(files.join(folder, "yolo", "labels", f"{stem}.txt"), "".join(lines))
    # A JSON text is a YAML text, too.
    names = "".join(f"  {item.id - 1}: {json.dumps(item.name)}\n" for item in label_map.items)
    data = f"# {json.dumps(model)}\ntrain: images\nval: images\nnames:\n{names}"
    files.write_text(files.join(folder, "yolo", "data.yaml"), data)


def _in_image(item: AnnotatedObject, image: AnnotatedImage) -> tuple[float, float, float, float]:
    """Return the box's xmin, ymin, width and height in fractions of the image."""
    xmin, ymin, xmax, ymax = item.box
    width, height = image.width, image.height
    return xmin / width, ymin / height, (xmax - xmin) / width, (ymax - ymin) / height


def _write_cvat(folder: str, images: Sequence[AnnotatedImage], label_map: LabelMap, model: str) -> None:
    text = {"mutable": "False", "input_type": "text", "default_value": "", "values": ""}
    names = ["score"] + ["note"] * any(item.note for image in images for item in image.objects)
    attributes = [_element("attribute", {"name": name} | text) for name in names]
    labels = [
        _element("label", {"name": entry.name}, _element("attributes", {}, *attributes))
        for entry in label_map.items
    ]
    meta = _element("meta", {}, _element("task", {"name": model}, _element("labels", {}, *labels)))
    with files.atomic_file(files.join(folder, "cvat.xml")) as file:
        file.write(b"<annotations>\n<version>1.1</version>\n" + _xml(meta))
        for number, image in enumerate(images):
            fields = {"id": number, "name": image.filename, "width": image.width, "height": image.height}
            element = ElementTree.Element("image", {key: str(value) for key, value in fields.items()})
            for item in image.objects:
                sides = zip(("xtl", "ytl", "xbr", "ybr"), map(str, _rounded(item)), strict=True)
                source = "manual" if item.confidence is None else "auto"
                given = {"label": item.name, "source": source, "occluded": "0", "z_order": "0"}
                box = ElementTree.SubElement(element, "box", given | dict(sides))
                if item.confidence is not None:
                    ElementTree.SubElement(box, "attribute", name="score").text = f"{item.confidence:.4f}"
                if item.note:
                    ElementTree.SubElement(box, "attribute", name="note").text = item.note
            file.write(_xml(element))
        file.write(b"</annotations>\n")


def _write_label_studio(
    folder: str, images: Sequence[AnnotatedImage], label_map: LabelMap, model: str
) -> None:
    """Write tasks with predictions; paths are relative to the root of Label Studio's local files."""
    with files.atomic_file(files.join(folder, "label_studio.json")) as file:
        for number, image in enumerate(images):
            address = image.path if files.is_remote(image.path) else f"/data/local-files/?d={image.filename}"
            results = [_region(item, image, str(n)) for n, item in enumerate(image.objects)]
            predictions = [{"model_version": model, "result": results}]
            task = {"data": {"image": address}, "predictions": predictions}
            file.write((b",\n" if number else b"[\n") + json.dumps(task).encode())
        file.write(b"\n]\n" if images else b"[]\n")


def _region(item: AnnotatedObject, image: AnnotatedImage, name: str) -> dict[str, object]:
    places = zip(("x", "y", "width", "height"), _in_image(item, image), strict=True)
    given = {} if item.confidence is None else {"score": item.confidence}
    return (
        given
        | {
            "id": name,
            "type": "rectanglelabels",
            "from_name": "label",
            "to_name": "image",
            "original_width": image.width,
            "original_height": image.height,
            "image_rotation": 0,
            "value": {key: 100 * part for key, part in places}
            | {"rotation": 0, "rectanglelabels": [item.name]},
        }
        | ({"meta": {"text": [item.note]}} if item.note else {})
    )


def _write_csv(folder: str, images: Sequence[AnnotatedImage], label_map: LabelMap, model: str) -> None:
    """Write a row for each object, and one without class and box for an image without objects."""
    rows: list[Sequence[object]] = [("filename", "width", "height", "class", *_SIDES, "score")]
    for image in images:
        head = (image.filename, image.width, image.height)
        found = [(*head, item.name, *_rounded(item), item.confidence) for item in image.objects]
        rows += found or [(*head, *[""] * 6)]
    write_rows(files.join(folder, "detections.csv"), rows)


def write_rows(path: str, rows: Iterable[Sequence[object]]) -> None:
    """Write a CSV file in UTF-8."""
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows(rows)
    files.write_bytes(path, text.getvalue().encode(errors="surrogateescape"))


WRITERS: dict[str, Writer] = {
    "csv": _write_csv,
    "coco": _write_coco,
    "voc": _write_voc,
    "yolo": _write_yolo,
    "cvat": _write_cvat,
    "label_studio": _write_label_studio,
}
"""Format, as in `readers.READERS`, to its writer."""
