"""mAP against the number of labelled images: `detflow select` beside random images.

    python -m benchmarks.selection bccd --config examples/bccd/pipeline.config --work build/active

The argument is a data set of any format; its own labels stand for those of people. A quarter of the images
is measured, the others are the pool. For each seed both start from the same detector, trained on the same
random images. In each round images are added, and training goes on from the detector before, as a schedule
does with `train.warm_start: deployed`. Both train for the same number of steps. A repeated call uses what is
in the folder of `--work`.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.label_errors import RATE, write_whole
from benchmarks.results import add_keep, keep

RANDOM, SELECTED = STRATEGIES = ("random", "selected")
MAP = "DetectionBoxes_Precision/mAP"
SIZE = "model.ssd.image_resizer.fixed_shape_resizer"
FOLDER, IMAGES, LIST = "converted", "converted/images", "whole.json"


def divide(count: int, seed: int) -> tuple[list[int], list[int]]:
    """Return the pool in random order, and the measured images, which are the same for all seeds."""
    order = np.random.default_rng(0).permutation(count)
    pool = order[count // 4 :]
    return np.random.default_rng(seed).permutation(pool).tolist(), order[: count // 4].tolist()


def subset(whole: Mapping[str, Any], chosen: Sequence[int]) -> dict[str, Any]:
    """Return COCO JSON of the images at some places of another."""
    images = [whole["images"][place] for place in chosen]
    ids = {image["id"] for image in images}
    objects = [item for item in whole["annotations"] if item["image_id"] in ids]
    return {"images": images, "annotations": objects, "categories": whole["categories"]}


class Simulation:
    """A data set whose labels are uncovered image by image, and the folder of what was trained on them."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.work = arguments.work / Path(arguments.data).name
        self.arguments = arguments
        if not (self.work / LIST).exists():
            self.work.mkdir(parents=True, exist_ok=True)
            whole = write_whole(arguments.data, self.work / FOLDER)
            (self.work / LIST).write_text(json.dumps(whole))
        self.whole = json.loads((self.work / LIST).read_text())

    def path(self, place: int) -> str:
        """Return an image's file."""
        return str(self.work / IMAGES / self.whole["images"][place]["file_name"])

    def trained(
        self, name: str, labelled: Sequence[int], test: Sequence[int], start: str, steps: int
    ) -> Path:
        """Train and measure once; return a folder with `examples`, `trained` and `found.json`."""
        import detection_core
        from component_specs import ExampleGenJob
        from components.example_gen.run import run

        folder = self.work / name
        if (folder / "found.json").exists():
            return folder
        folder.mkdir(parents=True, exist_ok=True)
        splits: Any = {}
        for split, places in {"train": labelled, "test": test}.items():
            (folder / f"{split}.json").write_text(json.dumps(subset(self.whole, places)))
            splits[split] = {"annotations": f"{name}/{split}.json", "images": IMAGES}
        examples = folder / "examples"
        if not examples.exists():
            run(
                ExampleGenJob(
                    examples=str(examples),
                    data_path=str(self.work.resolve()),
                    data_format="coco",
                    splits=splits,
                    quarantine_limit=1.0,
                )
            )
        arguments = self.arguments
        overrides = {
            "train_config.num_steps": steps,
            "train_config.batch_size": 8,
            "train_config.seed": 1,
            "model.ssd.feature_extractor.depth_multiplier": arguments.depth,
            f"{SIZE}.height": arguments.height,
            f"{SIZE}.width": arguments.width,
            f"{RATE}.total_steps": steps,
            f"{RATE}.warmup_steps": steps // 10,
            f"{RATE}.learning_rate_base": 0.04 if start else 0.08,
        }
        config = detection_core.load_config(arguments.config, overrides)
        made = detection_core.train(
            config, output=folder / "trained", examples=examples, warm_start=start or None, log_every=50
        )
        options = detection_core.EvaluateOptions(split="test", pictures=0)
        report = detection_core.evaluate(made.model, examples=examples, options=options)
        found = {
            "images": len(labelled),
            "mAP": report.metrics[MAP],
            "mAP50": report.metrics[f"{MAP}@.50IOU"],
        }
        (folder / "found.json").write_text(json.dumps(found))
        return folder

    def next_images(self, strategy: str, folder: Path, pool: Sequence[int], count: int) -> list[int]:
        """Return images of the pool to label: its next ones, which are random, or the selected ones."""
        from detection_core.tasks.select_images import SelectOptions, select_images

        if strategy == RANDOM:
            return list(pool[:count])
        places = {self.path(place): place for place in pool}
        found = select_images(
            str(folder / "trained" / "model"),
            {path: Path(path).name for path in places},
            str(folder / "selected"),
            str(folder / "examples"),
            SelectOptions(number=count),
        )
        return [places[image.image] for image in found.chosen]

    def curve(self, strategy: str, seed: int) -> list[dict[str, float]]:
        """Return what is measured after each round."""
        arguments = self.arguments
        pool, test = divide(len(self.whole["images"]), seed)
        labelled, pool = pool[: arguments.start], pool[arguments.start :]
        folder = self.trained(f"start-{seed}", labelled, test, "", arguments.first_steps)
        found = [measured(folder)]
        for number in range(1, arguments.rounds + 1):
            more = self.next_images(strategy, folder, pool, arguments.add)
            labelled, pool = labelled + more, [place for place in pool if place not in more]
            start = str(folder / "trained" / "model")
            folder = self.trained(f"{strategy}-{seed}-{number}", labelled, test, start, arguments.steps)
            found.append(measured(folder))
            print(arguments.data, strategy, seed, found[-1], flush=True)
        return found


def measured(folder: Path) -> dict[str, float]:
    """Return what was measured in a folder of `trained`, and how many objects were labelled for it."""
    objects = len(json.loads((folder / "train.json").read_text())["annotations"])
    return {"objects": objects, **json.loads((folder / "found.json").read_text())}


def rows_of(name: str, curves: Mapping[str, Sequence[Sequence[Mapping[str, float]]]]) -> list[dict[str, str]]:
    """Return a row for each number of labelled images: means of the seeds, and each seed's difference."""
    rows = []
    for place, first in enumerate(curves[RANDOM][0]):
        values = {
            strategy: {
                metric: np.array([curve[place][metric] or 0.0 for curve in curves[strategy]])
                for metric in ("mAP", "mAP50", "objects")
            }
            for strategy in STRATEGIES
        }
        row = {"data": name, "labelled images": f"{first['images']:,}"}
        row |= {f"objects in them, {s}": f"{values[s]['objects'].mean():,.0f}" for s in STRATEGIES}
        for metric, title in {"mAP": "mAP", "mAP50": "mAP@.50"}.items():
            row |= {
                f"{title}, {strategy}": f"{values[strategy][metric].mean():.3f}" for strategy in STRATEGIES
            }
        gains = values[SELECTED]["mAP50"] - values[RANDOM]["mAP50"]
        row["gain in mAP@.50, by seed"] = ", ".join(f"{gain:+.3f}" for gain in gains)
        rows.append(row)
    return rows


def main() -> None:
    """Print a row for each data set and number of labelled images."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", help="folder of a data set")
    parser.add_argument("--config", required=True, help="pipeline.config of an SSD")
    parser.add_argument("--work", type=Path, required=True, help="folder of data and trainings")
    parser.add_argument("--start", type=int, default=20, help="labelled images of the first detector")
    parser.add_argument("--add", type=int, default=20, help="images to label in each round")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--first-steps", type=int, default=300, help="training steps of the first detector")
    parser.add_argument("--steps", type=int, default=150, help="training steps of each round")
    parser.add_argument("--height", type=int, default=96, help="of the network's input")
    parser.add_argument("--width", type=int, default=96, help="of the network's input")
    parser.add_argument("--depth", type=float, default=0.25, help="depth multiplier of the network")
    parser.add_argument("--seeds", type=int, default=3)
    add_keep(parser)
    arguments = parser.parse_args()
    simulation = Simulation(arguments)
    curves: dict[str, list[list[dict[str, float]]]] = {strategy: [] for strategy in STRATEGIES}
    for seed in range(arguments.seeds):
        for strategy, found in curves.items():
            found.append(simulation.curve(strategy, seed))
    rows = rows_of(Path(arguments.data).name, curves)
    for row in rows:
        print("  ".join(f"{name} {value}" for name, value in row.items()))
    keep(arguments.keep, rows)


if __name__ == "__main__":
    main()
