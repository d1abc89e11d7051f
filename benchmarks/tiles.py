"""What tiles gain on small objects: mAP of whole images, with and without tiles in training and detection.

    python -m benchmarks.tiles --work build/tiles [--steps 600] [--scenes 60]
    python -m benchmarks.tiles --work build/tiles --data bccd --classes 3 --size 192

Scenes are composed of nine pictures of scanned digits, which the network's input, 128 x 128, shows at a third
of their size. `--data` takes a folder that `data.path` may name instead, with splits train and eval, or else
divided. Two detectors are trained with the same steps: one on whole images, one on tiles and whole images.
Both are measured on whole images, without tiles and with them. Ratios are to the first row.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from benchmarks.results import add_keep, keep

DIGITS = Path("examples/digits")
SIDE, GRID = 128, 3
RATE = "train_config.optimizer.momentum_optimizer.learning_rate.cosine_decay_learning_rate"
MAP = "DetectionBoxes_Precision/mAP"


def compose_scenes(root: Path, counts: dict[str, int]) -> Path:
    """Write COCO files of scenes of 384 x 384 pixels with small digits, unless they are there."""
    spec = importlib.util.spec_from_file_location("compose", DIGITS / "compose.py")
    assert spec and spec.loader
    compose: Any = importlib.util.module_from_spec(spec)
    sys.modules["compose"] = compose
    spec.loader.exec_module(compose)
    scans = compose.split_scans(7)
    for number, (split, count) in enumerate(counts.items()):
        if (root / f"{split}.json").exists():
            continue
        folder = root / "images" / split
        folder.mkdir(parents=True, exist_ok=True)
        images: list[dict[str, Any]] = []
        annotations: list[dict[str, Any]] = []
        for scene in range(count):
            rng = np.random.default_rng([7, number, scene])
            canvas = Image.new("RGB", (GRID * SIDE, GRID * SIDE))
            for cell in range(GRID * GRID):
                picture, digits = compose.compose_scene(rng, *scans[split])
                left, top = cell % GRID * SIDE, cell // GRID * SIDE
                scale = (SIDE / picture.width, SIDE / picture.height)
                canvas.paste(picture.resize((SIDE, SIDE), Image.Resampling.LANCZOS), (left, top))
                for digit in digits:
                    x, y, w, h = np.multiply(digit.box, [*scale, *scale]).tolist()
                    box = {
                        "image_id": scene,
                        "category_id": 1,
                        "bbox": [left + x, top + y, w, h],
                        "iscrowd": 0,
                    }
                    annotations.append({**box, "id": len(annotations), "area": w * h})
            name = f"{scene:04d}.png"
            canvas.save(folder / name)
            images.append({"id": scene, "file_name": name, "width": canvas.width, "height": canvas.height})
        content = {"images": images, "annotations": annotations, "categories": [{"id": 1, "name": "digit"}]}
        (root / f"{split}.json").write_text(json.dumps(content))
    return root


def train(work: Path, name: str, arguments: argparse.Namespace, data: Path, tiles: dict[str, float]) -> Any:
    """Return the detector and the folder of its examples, of which the split `eval` is the same in both."""
    import detection_core
    from component_specs import ExampleGenJob
    from components.example_gen.run import run

    examples = work / name / "examples"
    splits: Any = {s: {"annotations": f"{s}.json", "images": f"images/{s}"} for s in ("train", "eval")}
    if arguments.data:
        splits = arguments.splits or {"train": 0.8, "eval": 0.2}
    if not examples.exists():
        run(
            ExampleGenJob(
                examples=str(examples), data_path=str(data.resolve()), splits=splits, tiles=tiles,
                quarantine_limit=0.05,
            )
        )  # fmt: skip
    size = "model.ssd.image_resizer.fixed_shape_resizer"
    overrides = {
        f"{size}.height": arguments.size,
        f"{size}.width": arguments.size,
        "model.ssd.num_classes": arguments.classes,
        "model.ssd.anchor_generator.multiscale_anchor_generator.anchor_scale": 2.0,
        "train_config.num_steps": arguments.steps,
        "train_config.batch_size": 8,
        "train_config.max_number_of_boxes": 80,
        "train_config.seed": 1,
        f"{RATE}.total_steps": arguments.steps,
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
    parser.add_argument("--data", type=Path, help="folder of a data set of your own")
    parser.add_argument("--splits", type=json.loads, help="as data.splits, with --data")
    parser.add_argument("--classes", type=int, default=1, help="of --data")
    parser.add_argument("--size", type=int, default=SIDE, help="side of the network's input")
    parser.add_argument("--tile", type=int, default=0, help="side of a tile (default: that of the input)")
    parser.add_argument("--scenes", type=int, default=60, help="to train on; a third as many are measured")
    parser.add_argument("--steps", type=int, default=600)
    add_keep(parser)
    arguments = parser.parse_args()
    import detection_core
    from detection_core.ops.tile_options import tile_options

    counts = {"train": arguments.scenes, "eval": max(1, arguments.scenes // 3)}
    data = arguments.data or compose_scenes(arguments.work / "scenes", counts)
    tiles = {"size": arguments.tile or arguments.size, "overlap": 0.25}
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
                "large": f"{MAP} (large)",
            }
            row |= {short: round(report.metrics[name] or 0.0, 4) for short, name in names.items()}
            row["ratio"] = round(row["mAP"] / max(rows[0]["mAP"], 1e-4), 2) if rows else 1.0
            row["seconds an image"] = round(report.seconds_per_image, 3)
            rows.append(row)
            print(json.dumps(row), flush=True)
    keep(arguments.keep, rows)


if __name__ == "__main__":
    main()
