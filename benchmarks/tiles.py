"""What tiles gain on small objects: mAP of whole images, with and without tiles in training and detection.

    python -m benchmarks.tiles --work build/tiles [--steps 500] [--scenes 60]
    python -m benchmarks.tiles --work build/cells --voc bccd --classes 3 --grid 4 --pictures 7

A scene of 384 x 384 pixels is composed of small pictures of scanned digits, or of a real data set with
`--voc`. The network's input, 128 x 128, shows them at a third of their size. Two detectors are trained with
the same steps: one on whole images, one on tiles and whole images. Both are measured on whole images, without
tiles and with them. Ratios are to the first row.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from benchmarks.results import add_keep, keep

DIGITS = Path("examples/digits")
SIDE, SCENE = 128, 384
LISTS = {"train": "ImageSets/Main/trainval.txt", "eval": "ImageSets/Main/test.txt"}
RATE = "train_config.optimizer.momentum_optimizer.learning_rate.cosine_decay_learning_rate"
MAP = "DetectionBoxes_Precision/mAP"


Drawn = tuple[Image.Image, list[tuple[int, tuple[float, ...]]]]
"""A picture, with category and box (x, y, width, height) of each object."""


def digit_pictures() -> Callable[[np.random.Generator, str], Drawn]:
    """Return a function that composes a picture of scanned digits, all of one category."""
    spec = importlib.util.spec_from_file_location("compose", DIGITS / "compose.py")
    assert spec and spec.loader
    compose: Any = importlib.util.module_from_spec(spec)
    sys.modules["compose"] = compose
    spec.loader.exec_module(compose)
    scans = compose.split_scans(7)

    def draw(rng: np.random.Generator, split: str) -> Drawn:
        picture, digits = compose.compose_scene(rng, *scans[split])
        return picture, [(1, digit.box) for digit in digits]

    return draw


def real_pictures(folder: Path, splits: dict[str, str]) -> Callable[[np.random.Generator, str], Drawn]:
    """Return a function that draws a picture of a Pascal VOC folder, from the list of its split."""
    from detection_core.datasets.formats import voc

    found = {name: list(voc.read(str(folder), where).images) for name, where in splits.items()}
    names = sorted({item.name for images in found.values() for image in images for item in image.objects})

    def draw(rng: np.random.Generator, split: str) -> Drawn:
        image = found[split][rng.integers(len(found[split]))]
        corners = [(names.index(item.name) + 1, item.box) for item in image.objects]
        picture = Image.open(image.path).convert("RGB")
        boxes = [(label, (x0, y0, x1 - x0, y1 - y0)) for label, (x0, y0, x1, y1) in corners]
        return picture, [(label, box) for label, box in boxes if box[2] > 0 and box[3] > 0]

    return draw


def compose_scenes(
    arguments: argparse.Namespace, counts: dict[str, int], draw: Callable[[np.random.Generator, str], Drawn]
) -> Path:
    """Write COCO files of scenes, each a square of small pictures, unless they are there."""
    root, grid = arguments.work / "scenes", arguments.grid
    side = SCENE // grid
    for number, (split, count) in enumerate(counts.items()):
        if (root / f"{split}.json").exists():
            continue
        folder = root / "images" / split
        folder.mkdir(parents=True, exist_ok=True)
        images: list[dict[str, Any]] = []
        annotations: list[dict[str, Any]] = []
        for scene in range(count):
            rng = np.random.default_rng([7, number, scene])
            canvas = Image.new("RGB", (SCENE, SCENE), (128, 128, 128))
            for cell in rng.permutation(grid * grid)[: arguments.pictures].tolist():
                picture, objects = draw(rng, split)
                left, top = cell % grid * side, cell // grid * side
                scale = (side / picture.width, side / picture.height)
                canvas.paste(picture.resize((side, side), Image.Resampling.LANCZOS), (left, top))
                for label, box in objects:
                    x, y, w, h = np.multiply(box, [*scale, *scale]).tolist()
                    entry = {"image_id": scene, "category_id": label, "bbox": [left + x, top + y, w, h]}
                    annotations.append({**entry, "id": len(annotations), "area": w * h, "iscrowd": 0})
            name = f"{scene:04d}.png"
            canvas.save(folder / name)
            images.append({"id": scene, "file_name": name, "width": canvas.width, "height": canvas.height})
        categories = [{"id": label, "name": f"class {label}"} for label in range(1, arguments.classes + 1)]
        content = {"images": images, "annotations": annotations, "categories": categories}
        (root / f"{split}.json").write_text(json.dumps(content))
    return root


def train(work: Path, name: str, arguments: argparse.Namespace, data: Path, tiles: dict[str, float]) -> Any:
    """Return the detector and the folder of its examples, of which the split `eval` is the same in both."""
    import detection_core
    from component_specs import ExampleGenJob
    from components.example_gen.run import run

    examples = work / name / "examples"
    splits: Any = {s: {"annotations": f"{s}.json", "images": f"images/{s}"} for s in ("train", "eval")}
    if not examples.exists():
        run(
            ExampleGenJob(
                examples=str(examples), data_path=str(data.resolve()), splits=splits, tiles=tiles,
                quarantine_limit=0.05,
            )
        )  # fmt: skip
    size = "model.ssd.image_resizer.fixed_shape_resizer"
    overrides = {
        f"{size}.height": SIDE,
        f"{size}.width": SIDE,
        "model.ssd.num_classes": arguments.classes,
        "model.ssd.anchor_generator.multiscale_anchor_generator.anchor_scale": 2.0,
        "train_config.num_steps": arguments.steps,
        "train_config.batch_size": 8,
        "train_config.max_number_of_boxes": 80,
        "train_config.seed": 1,
        f"{RATE}.total_steps": arguments.steps,
        f"{RATE}.warmup_steps": min(100, arguments.steps // 5),
        f"{RATE}.learning_rate_base": 0.04,
    }
    config = detection_core.load_config(DIGITS / "pipeline.config", overrides)
    trained = detection_core.train(config, output=work / name / "trained", examples=examples, log_every=100)
    return trained, examples


def main() -> None:
    """Train both detectors, print the rows and the ratio."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--work", type=Path, required=True, help="folder to write; what is there is used again"
    )
    parser.add_argument("--voc", type=Path, help="Pascal VOC folder, whose pictures take the place of digits")
    parser.add_argument(
        "--lists", type=json.loads, default=LISTS, help="of --voc: split to its list, as JSON"
    )
    parser.add_argument("--classes", type=int, default=1, help="of --voc")
    parser.add_argument("--grid", type=int, default=3, help="places for pictures along a side of a scene")
    parser.add_argument("--pictures", type=int, default=9, help="pictures in a scene; other places are grey")
    parser.add_argument("--scenes", type=int, default=60, help="to train on; a third as many are measured")
    parser.add_argument("--steps", type=int, default=500)
    add_keep(parser)
    arguments = parser.parse_args()
    import detection_core
    from detection_core.ops.tile_options import tile_options

    counts = {"train": arguments.scenes, "eval": max(1, arguments.scenes // 3)}
    draw = real_pictures(arguments.voc, arguments.lists) if arguments.voc else digit_pictures()
    data = compose_scenes(arguments, counts, draw)
    tiles = {"size": SIDE, "overlap": 0.25}
    rows: list[dict[str, Any]] = []
    for trained_on, given in {"whole images": {}, "tiles": tiles}.items():
        detector, examples = train(arguments.work, trained_on.replace(" ", "-"), arguments, data, given)
        for detected_in, options in {"whole images": None, "tiles": tile_options(tiles)}.items():
            evaluation = detection_core.EvaluateOptions(tiles=options, pictures=4)
            output = arguments.work / trained_on.replace(" ", "-") / f"evaluation-{detected_in.split()[0]}"
            report = detection_core.evaluate(detector, examples=examples, options=evaluation, output=output)
            row: dict[str, Any] = {"trained on": trained_on, "detected in": detected_in}
            names = {
                "mAP": MAP,
                "mAP@.50": f"{MAP}@.50IOU",
                "small": f"{MAP} (small)",
            }
            row |= {short: round(report.metrics[name] or 0.0, 4) for short, name in names.items()}
            row["ratio"] = round(row["mAP"] / max(rows[0]["mAP"], 1e-4), 2) if rows else 1.0
            row["seconds an image"] = round(report.seconds_per_image, 3)
            rows.append(row)
            print(json.dumps(row), flush=True)
    keep(arguments.keep, rows)


if __name__ == "__main__":
    main()
