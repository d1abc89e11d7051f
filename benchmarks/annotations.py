"""Memory and processor time of ExampleGen's readers on large annotation files.

    python -m benchmarks.annotations [--images 10000] [--boxes 100] [--formats coco voc] [--keep NAME]

`--images 100000` makes ten million boxes, about 1.5 GB of COCO JSON. Each format is made in a temporary
folder (TMPDIR), with empty image files, read up to the sorted index of the images, and deleted. Each is read
by a separate process. Its memory is the peak less what the process has after its imports.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.results import ROOT, add_keep, keep

_WIDTH, _HEIGHT, _CLASSES = 640, 480, 20
_SPLIT_BY_RATIO = {"train": 1.0}


def _boxes(image: int, count: int) -> Iterator[tuple[int, int, int, int, int]]:
    """Yield class, x, y, width and height of an image's boxes, in pixels."""
    for at in range(image * count, (image + 1) * count):
        yield at % _CLASSES, at * 37 % 500, at * 53 % 400, 20 + at * 11 % 120, 15 + at * 7 % 60


def _name(image: int) -> str:
    return f"{image:07d}"


def _corners(box: tuple[int, int, int, int, int]) -> tuple[int, int, int, int]:
    _, x, y, width, height = box
    return x, y, x + width, y + height


def _write_coco(root: Path, images: int, boxes: int) -> None:
    with (root / "annotations.json").open("w") as file:
        file.write('{"images": [')
        for n in range(images):
            entry = {"id": n, "file_name": f"{_name(n)}.jpg", "width": _WIDTH, "height": _HEIGHT}
            file.write(f"{', ' * bool(n)}{json.dumps(entry)}")
        file.write('], "annotations": [')
        # A round for each box, so that the annotations of an image are far apart.
        number = 0
        for place in range(boxes):
            for n in range(images):
                at = n * boxes + place
                where = (
                    f"[{at * 37 % 500}.5, {at * 53 % 400}.25, {20 + at * 11 % 120}.5, {15 + at * 7 % 60}.25]"
                )
                head = f'{{"id": {number}, "image_id": {n}, "category_id": {at % _CLASSES + 1}'
                file.write(f'{", " * bool(number)}{head}, "bbox": {where}, "area": 812.5, "iscrowd": 0}}')
                number += 1
        classes = [{"id": n + 1, "name": f"class {n}"} for n in range(_CLASSES)]
        file.write(f'], "categories": {json.dumps(classes)}}}')


def _write_open_images(root: Path, images: int, boxes: int) -> None:
    flags = "IsOccluded,IsTruncated,IsGroupOf,IsDepiction,IsInside"
    head = f"ImageID,Source,LabelName,Confidence,XMin,XMax,YMin,YMax,{flags}"
    with (root / "train-annotations-bbox.csv").open("w") as file:
        file.write(f"{head}\n")
        for n in range(images):
            for box in _boxes(n, boxes):
                a, b, c, d = _corners(box)
                sides = f"{a / _WIDTH:.6f},{c / _WIDTH:.6f},{b / _HEIGHT:.6f},{d / _HEIGHT:.6f}"
                file.write(f"{_name(n)},xclick,/m/{box[0]:04d},1,{sides},0,0,0,0,0\n")


def _write_csv(root: Path, images: int, boxes: int) -> None:
    with (root / "labels.csv").open("w") as file:
        file.write("filename,width,height,class,xmin,ymin,xmax,ymax\n")
        for n in range(images):
            for box in _boxes(n, boxes):
                sides = ",".join(map(str, _corners(box)))
                file.write(f"{_name(n)}.jpg,{_WIDTH},{_HEIGHT},class {box[0]},{sides}\n")


def _write_cvat(root: Path, images: int, boxes: int) -> None:
    with (root / "annotations.xml").open("w") as file:
        file.write("<annotations>\n")
        for n in range(images):
            file.write(f'<image id="{n}" name="{_name(n)}.jpg" width="{_WIDTH}" height="{_HEIGHT}">\n')
            for box in _boxes(n, boxes):
                a, b, c, d = _corners(box)
                file.write(
                    f'<box label="class {box[0]}" xtl="{a}" ytl="{b}" xbr="{c}" ybr="{d}" occluded="0"/>\n'
                )
            file.write("</image>\n")
        file.write("</annotations>\n")


def _write_createml(root: Path, images: int, boxes: int) -> None:
    with (root / "_annotations.createml.json").open("w") as file:
        for n in range(images):
            drawn = [
                {
                    "label": f"class {k}",
                    "coordinates": {"x": x + w / 2, "y": y + h / 2, "width": w, "height": h},
                }
                for k, x, y, w, h in _boxes(n, boxes)
            ]
            entry = {"image": f"{_name(n)}.jpg", "annotations": drawn}
            file.write(f"{'[' if not n else ','}\n{json.dumps(entry)}")
        file.write("]")


def _each(suffix: str, text: Callable[[int, list[tuple[int, ...]]], str]) -> Callable[[Path, int, int], None]:
    def write(root: Path, images: int, boxes: int) -> None:
        for n in range(images):
            path = root / suffix.format(_name(n))
            path.parent.mkdir(exist_ok=True)
            path.write_text(text(n, list(_boxes(n, boxes))))

    return write


def _voc(image: int, boxes: Sequence[Any]) -> str:
    sides = ("xmin", "ymin", "xmax", "ymax")
    objects = "".join(
        f"<object><name>class {box[0]}</name><pose>Unspecified</pose><truncated>0</truncated>"
        "<difficult>0</difficult><bndbox>"
        + "".join(f"<{side}>{value}</{side}>" for side, value in zip(sides, _corners(box), strict=True))
        + "</bndbox></object>"
        for box in boxes
    )
    size = f"<size><width>{_WIDTH}</width><height>{_HEIGHT}</height><depth>3</depth></size>"
    return f"<annotation><filename>{_name(image)}.jpg</filename>{size}{objects}</annotation>"


def _yolo(_: int, boxes: Sequence[Any]) -> str:
    return "".join(
        f"{k} {(x + w / 2) / _WIDTH:.6f} {(y + h / 2) / _HEIGHT:.6f} {w / _WIDTH:.6f} {h / _HEIGHT:.6f}\n"
        for k, x, y, w, h in boxes
    )


def _labelme(image: int, boxes: Sequence[Any]) -> str:
    shapes = [
        {
            "label": f"class {box[0]}",
            "points": [_corners(box)[:2], _corners(box)[2:]],
            "shape_type": "rectangle",
        }
        for box in boxes
    ]
    size = {"imagePath": f"{_name(image)}.jpg", "imageWidth": _WIDTH, "imageHeight": _HEIGHT}
    return json.dumps({"shapes": shapes, **size})


def _write_yolo(root: Path, images: int, boxes: int) -> None:
    names = "".join(f"class {n}\n" for n in range(_CLASSES))
    (root / "classes.txt").write_text(names)
    _each("labels/{}.txt", _yolo)(root, images, boxes)


def _write_tfrecord(root: Path, images: int, boxes: int) -> None:
    import tensorflow as tf

    def feature(values: Sequence[Any]) -> tf.train.Feature:
        kinds = {bytes: ("bytes_list", tf.train.BytesList), int: ("int64_list", tf.train.Int64List)}
        field, kind = kinds.get(type(values[0]), ("float_list", tf.train.FloatList))
        return tf.train.Feature(**{field: kind(value=values)})

    with tf.io.TFRecordWriter(str(root / "train.record")) as writer:
        for n in range(images):
            found = list(_boxes(n, boxes))
            a, b, c, d = zip(*map(_corners, found), strict=True)
            columns: dict[str, Sequence[Any]] = {
                "image/encoded": [b"\xff\xd8\xff"],
                "image/filename": [f"{_name(n)}.jpg".encode()],
                "image/width": [_WIDTH],
                "image/height": [_HEIGHT],
                "image/object/class/label": [box[0] + 1 for box in found],
                "image/object/class/text": [f"class {box[0]}".encode() for box in found],
                "image/object/bbox/xmin": [v / _WIDTH for v in a],
                "image/object/bbox/ymin": [v / _HEIGHT for v in b],
                "image/object/bbox/xmax": [v / _WIDTH for v in c],
                "image/object/bbox/ymax": [v / _HEIGHT for v in d],
            }
            features = tf.train.Features(feature={key: feature(values) for key, values in columns.items()})
            writer.write(tf.train.Example(features=features).SerializeToString())


WRITERS: dict[str, Callable[[Path, int, int], None]] = {
    "coco": _write_coco,
    "open_images": _write_open_images,
    "csv": _write_csv,
    "cvat": _write_cvat,
    "createml": _write_createml,
    "tfrecord": _write_tfrecord,
    "voc": _each("xml/{}.xml", _voc),
    "yolo": _write_yolo,
    "labelme": _each("images/{}.json", _labelme),
}
"""Format to the function that writes its files for some images and boxes of each."""


def read(root: str, data_format: str) -> dict[str, float]:
    """Read a data set up to the sorted index; return images, CPU seconds and megabytes."""
    from components.example_gen.ingestion import read_dataset
    from components.example_gen.sources import find_data
    from detection_core.datasets.layouts import check_splits

    data = find_data(root, data_format, check_splits(_SPLIT_BY_RATIO))
    base, start = _memory("VmRSS"), time.process_time()
    dataset = read_dataset(data, None)
    images = sum(1 for _ in dataset.splits["train"].packed())
    cpu = time.process_time() - start
    return {"images": images, "CPU s": cpu, "MB": _memory("VmHWM") - base}


def _memory(field: str) -> float:
    """Return a value of this process in megabytes: VmRSS now, VmHWM at most."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{field}:")) / 1000


def measure(data_format: str, images: int, boxes: int) -> dict[str, Any]:
    """Write a data set, read it in a process and return a row of the table."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        (root / "images").mkdir()
        if data_format != "tfrecord":
            for n in range(images):
                (root / "images" / f"{_name(n)}.jpg").touch()
        WRITERS[data_format](root, images, boxes)
        size = sum(path.stat().st_size for path in root.rglob("*") if path.is_file())
        command = [sys.executable, "-m", "benchmarks.annotations", "--read", folder, "--formats", data_format]
        done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["images"] == images, f"expected {images} images, found {found['images']}"
    return {
        "format": data_format,
        "boxes": f"{images * boxes:,}",
        "file MB": round(size / 1e6),
        "peak MB": round(found["MB"]),
        "CPU s": round(found["CPU s"], 1),
        "boxes a CPU s": f"{images * boxes / found['CPU s']:,.0f}",
    }


def main() -> None:
    """Measure, print and keep."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--images", type=int, nargs="+", default=[1000, 10_000])
    parser.add_argument("--boxes", type=int, default=100, help="of an image")
    parser.add_argument("--formats", nargs="+", choices=WRITERS, default=list(WRITERS))
    parser.add_argument("--read", metavar="DIR", help=argparse.SUPPRESS)
    add_keep(parser)
    arguments = parser.parse_args()
    if arguments.read:
        print(json.dumps(read(arguments.read, arguments.formats[0])))
        return
    rows = []
    for data_format in arguments.formats:
        for images in arguments.images:
            rows.append(measure(data_format, images, arguments.boxes))
            print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
    print(json.dumps(rows, indent=1))
    keep(arguments.keep, rows)


if __name__ == "__main__":
    main()
