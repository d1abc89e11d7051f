"""How fast ExampleGen ingests, beside a plain loop and beside Beam with one element an image.

    python -m benchmarks.ingest [--images 4000] [--workers 2] [--od-api FOLDER] [--keep NAME]
    python -m benchmarks.ingest --masks [--images 200]
    python -m benchmarks.ingest --annotations FILE.json [--format label_studio]

The data set is made on the spot: 64 distinct 640x480 JPEGs of about 80 KB, each linked under many names, with
7 boxes an image in COCO JSON. Every contender reads the same annotations and files with the same code, makes
the same checks and writes the same records to disk. Start-up is what 64 images take. The rate of a core is
the other images by processor time. The best of the repetitions counts. `--od-api` is the folder that holds
the package `object_detection`: its create_coco_tf_record.py, without these checks, is another contender.

`--masks` encodes the masks of 640x480 images with 7 polygons of 40 points each, beside the way of the Object
Detection API's create_coco_tf_record.py. `--annotations` reads an annotation file, with the folder `images`
beside it, up to the shards' lists.
"""

from __future__ import annotations

import argparse
import io
import json
import logging
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image

from benchmarks.results import add_keep, keep

if TYPE_CHECKING:
    from components.example_gen.ingestion import Dataset

HEIGHT, WIDTH, DISTINCT, BOXES = 480, 640, 64, 7


def make_dataset(root: Path, images: int) -> None:
    """Write the JPEG files and annotations.json."""
    folder = root / "images"
    folder.mkdir(parents=True)
    for number in range(DISTINCT):
        rng = np.random.default_rng(number)
        coarse = Image.fromarray(rng.integers(0, 256, (60, 80, 3), dtype=np.uint8))
        buffer = io.BytesIO()
        coarse.resize((WIDTH, HEIGHT), Image.Resampling.BICUBIC).save(buffer, "JPEG", quality=85)
        (folder / f"{number:06d}.jpg").write_bytes(buffer.getvalue())
    for number in range(DISTINCT, images):
        os.link(folder / f"{number % DISTINCT:06d}.jpg", folder / f"{number:06d}.jpg")
    rng = np.random.default_rng(images)
    corners = rng.uniform(0, 0.5, (images, BOXES, 2)) * (WIDTH, HEIGHT)
    sizes = rng.uniform(0.05, 0.5, (images, BOXES, 2)) * (WIDTH, HEIGHT)
    boxes = np.concatenate([corners, sizes], axis=2).round(2).tolist()
    content = {
        "images": [
            {"id": n, "file_name": f"{n:06d}.jpg", "width": WIDTH, "height": HEIGHT} for n in range(images)
        ],
        "annotations": [
            {"id": n * BOXES + i, "image_id": n, "category_id": i + 1, "bbox": box, "area": box[2] * box[3]}
            | {"iscrowd": 0}
            for n in range(images)
            for i, box in enumerate(boxes[n])
        ],
        "categories": [{"id": i + 1, "name": f"class {i}"} for i in range(BOXES)],
    }
    (root / "annotations.json").write_text(json.dumps(content))


def _read(data: Path, data_format: str, splits: Mapping[str, Any]) -> Dataset:
    from components.example_gen.ingestion import read_dataset
    from components.example_gen.sources import find_data
    from detection_core.datasets.layouts import check_splits

    return read_dataset(find_data(str(data), data_format, check_splits(splits)), None)


def plain_loop(data: Path, out: Path) -> None:
    """The least that does the job: one loop, one file, no Beam, no counts."""
    from detection_core.data.record_format import write_record
    from detection_core.datasets.encoding import make_example

    dataset = _read(data, "coco", {"train": 1.0})
    with open(out / "loop.tfrecord", "wb") as file:
        for record in dataset.splits["train"]:
            write_record(file, make_example(record, dataset.label_map.ids_by_text).data)


def element_by_element(data: Path, out: Path) -> None:
    """The usual Beam pipeline: one element an image, Beam's own TFRecord sink."""
    import apache_beam as beam
    from apache_beam.options.pipeline_options import PipelineOptions

    from components.runtime.beam_pipeline import IN_PROCESS
    from detection_core.datasets.encoding import make_example

    dataset = _read(data, "coco", {"train": 1.0})
    with beam.Pipeline(options=PipelineOptions(flags=IN_PROCESS)) as pipeline:
        _ = (
            pipeline
            | beam.Create(dataset.splits["train"])
            | beam.Map(lambda record, ids: make_example(record, ids).data, dataset.label_map.ids_by_text)
            | beam.io.WriteToTFRecord(str(out / "elements"), num_shards=4)
        )


_REFERENCE = """
import contextlib, sys
sys.modules["contextlib2"] = contextlib
from object_detection.dataset_tools import create_coco_tf_record as script
script._create_tf_record_from_coco_annotations(sys.argv[1], sys.argv[2], sys.argv[3], False, num_shards=4)
"""


def object_detection_api(code: str) -> Callable[[Path, Path], None]:
    """Return the Object Detection API's conversion, in a process, as its messages have the names of ours."""

    def run_it(data: Path, out: Path) -> None:
        places = [data / "annotations.json", data / "images", out / "reference"]
        environment = {**os.environ, "PYTHONPATH": code, "TF_CPP_MIN_LOG_LEVEL": "3"}
        command = [sys.executable, "-c", _REFERENCE, *map(str, places)]
        subprocess.run(command, env=environment, cwd=data, check=True)

    return run_it


def example_gen(arguments: list[str], compression: str = "") -> Callable[[Path, Path], None]:
    """Return ExampleGen itself, annotations, counts, card and all, with Beam arguments."""

    def run_it(data: Path, out: Path) -> None:
        from component_specs import ExampleGenJob
        from components.example_gen.run import run

        run(
            ExampleGenJob(
                examples=str(out / "examples"),
                data_path=str(data),
                data_format="coco",  # as the others
                splits={"train": 1.0},
                compression=compression,
                beam_args=tuple(arguments),
            )
        )

    return run_it


def measure(contender: Callable[[Path, Path], None], data: Path, repeat: int) -> tuple[float, float]:
    """Return the least seconds that a contender takes, and the least processor seconds."""
    found = [measure_once(contender, data) for _ in range(repeat)]
    return min(seconds for seconds, _ in found), min(cpu for _, cpu in found)


def measure_once(contender: Callable[[Path, Path], None], data: Path) -> tuple[float, float]:
    """Return seconds and processor seconds, those of the processes that it starts included."""
    with tempfile.TemporaryDirectory(dir=data.parent) as out:
        start, before = time.perf_counter(), os.times()
        contender(data, Path(out))
        seconds, after = time.perf_counter() - start, os.times()
    return seconds, sum(after[:4]) - sum(before[:4])


def measure_masks(images: int) -> None:
    """Print images a second of processor time, painting every mask and as ingest makes them."""
    from pycocotools import mask as coco_mask

    from detection_core.datasets.annotated_images import AnnotatedObject, Polygons
    from detection_core.datasets.masks import encode_masks

    rng = np.random.default_rng(0)

    def ring() -> list[float]:
        sides = rng.uniform(0.05, 0.5, 2) * (WIDTH, HEIGHT)
        center = rng.uniform(sides / 2, (WIDTH, HEIGHT) - sides / 2)
        angles = np.sort(rng.uniform(0, 2 * np.pi, 40))
        directions = np.stack([np.cos(angles), np.sin(angles)], axis=1)
        points = center + directions * rng.uniform(0.7, 1, (40, 1)) * sides / 2
        return [float(v) for v in points.ravel().round(2)]

    def paint(objects: list[AnnotatedObject]) -> None:
        for item in objects:
            assert isinstance(item.mask, Polygons)
            pixels = coco_mask.decode(coco_mask.frPyObjects(list(item.mask.rings), HEIGHT, WIDTH))
            Image.fromarray(np.amax(pixels, axis=2)).save(io.BytesIO(), "PNG")

    def item() -> AnnotatedObject:
        return AnnotatedObject("x", (0, 0, 1, 1), 0, 0, None, None, None, "", Polygons([ring()]))

    data = [[item() for _ in range(BOXES)] for _ in range(images)]
    encode_masks(data[0], HEIGHT, WIDTH)
    ways: dict[str, Callable[[list[AnnotatedObject]], object]] = {
        "painted": paint,
        "ingest": lambda objects: encode_masks(objects, HEIGHT, WIDTH),
    }
    for name, way in ways.items():
        start = time.process_time()
        for objects in data:
            way(objects)
        print(f"{name:24}{images / (time.process_time() - start):9.0f} images/s a core", flush=True)


def measure_annotations(path: Path, data_format: str) -> None:
    """Print the seconds and the memory that an annotation file takes up to the shards' lists."""
    import resource

    from components.example_gen.shards import ShardSettings, write_tasks

    start, before = time.perf_counter(), time.process_time()
    where = path.name if data_format == "coco" else {"annotations": path.name, "images": "images"}
    dataset = _read(path.parent, data_format, {"train": where})
    with tempfile.TemporaryDirectory() as out:
        settings = ShardSettings(label_ids=dataset.label_map.ids_by_text)
        tasks = write_tasks(out, "train", dataset.splits["train"], 2000, settings)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    seconds, cpu = time.perf_counter() - start, time.process_time() - before
    print(f"{sum(tasks.values())} images: {seconds:.1f} s, {cpu:.1f} s of processor, {peak:.2f} GB")


def main() -> int:
    """Print seconds, rates and the ratio to the plain loop, for every contender."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--images", type=int, default=4000)
    parser.add_argument("--masks", action="store_true", help="measure the encoding of masks instead")
    parser.add_argument("--annotations", type=Path, help="measure the reading of this file instead")
    parser.add_argument("--format", default="coco", help="of the annotations")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--workers", type=int, default=0, help="also run multi_processing with so many")
    parser.add_argument("--od-api", default="", help="folder that holds the package object_detection")
    add_keep(parser)
    options = parser.parse_args()
    logging.basicConfig(level=logging.ERROR)
    if options.masks:
        measure_masks(min(options.images, 200))
        return 0
    if options.annotations:
        measure_annotations(options.annotations, options.format)
        return 0
    import apache_beam  # noqa: F401 - its import is not what is measured

    from components.runtime.beam_pipeline import IN_PROCESS

    contenders = {
        "plain loop": plain_loop,
        "Beam, element = image": element_by_element,
        "ExampleGen": example_gen(IN_PROCESS),
        "ExampleGen, GZIP": example_gen(IN_PROCESS, "GZIP"),
    }
    if options.workers:
        flags = ["--runner=FnApiRunner", "--direct_running_mode=multi_processing"]
        contenders["ExampleGen, processes"] = example_gen([*flags, f"--direct_num_workers={options.workers}"])
    if options.od_api:
        contenders["Object Detection API"] = object_detection_api(options.od_api)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        data, tiny = Path(folder) / "data", Path(folder) / "tiny"
        make_dataset(data, options.images)
        make_dataset(tiny, DISTINCT)
        size = sum((data / "images" / f"{n:06d}.jpg").stat().st_size for n in range(DISTINCT)) // DISTINCT
        print(f"{options.images} images of {WIDTH}x{HEIGHT}, {size:,} bytes, {BOXES} boxes each")
        print(f"{'':24}{'seconds':>9}{'images/s':>9}{'start-up':>10}{'images/s a core':>17}{'ratio':>7}")
        reference = 0.0
        for name, contender in contenders.items():
            start_up, cpu_start_up = measure(contender, tiny, options.repeat)
            seconds, cpu = measure(contender, data, options.repeat)
            a_core = (options.images - DISTINCT) / max(cpu - cpu_start_up, 1e-9)
            reference = reference or a_core
            print(
                f"{name:24}{seconds:9.2f}{options.images / seconds:9.0f}{start_up:10.2f}"
                f"{a_core:17.0f}{a_core / reference:7.2f}",
                flush=True,
            )
            rates = {"images/s": round(options.images / seconds), "images/s a core": round(a_core)}
            rows.append({"": name, "start-up, s": round(start_up, 2), **rates})
    keep(options.keep, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
