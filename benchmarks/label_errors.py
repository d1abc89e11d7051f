"""Recall and precision of `detflow data labels` on a data set with injected label errors.

    python -m benchmarks.label_errors bccd --config build/bccd/pipeline.config --work build/labels

The argument is a data set of any format, such as the Pascal VOC folder of BCCD. 5 % and 20 % of its objects
get an error, of three kinds in turn: the object is deleted, its box is moved, or its class is changed.
Detectors are trained cross-validated on the wrong labels. Of each kind the most suspected are taken, as many
as there are errors of it: then recall equals precision if so many are listed. Both are also given for half as
many. An overlooked object is found at IoU 0.5. Real errors of the data set count as false alarms.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.results import add_keep, keep

RATES = (0.05, 0.2)
OVERLOOKED, BADLY_LOCATED, SWAPPED = KINDS = ("overlooked", "badly_located", "swapped")
RATE = "train_config.optimizer.momentum_optimizer.learning_rate.cosine_decay_learning_rate"
Found = tuple[str, Sequence[float]]
"""A source id and a box xmin, ymin, xmax, ymax in pixels."""


def inject(annotations: dict[str, Any], rate: float, seed: int) -> dict[str, list[Found]]:
    """Put errors of the three kinds into COCO JSON; return where they are.

    The box is that of the deleted object, or of the wrong label.
    """
    rng = np.random.default_rng(seed)
    sizes = {image["id"]: (image["width"], image["height"]) for image in annotations["images"]}
    names = {image["id"]: str(image["id"]) for image in annotations["images"]}
    classes = [category["id"] for category in annotations["categories"]]
    objects = annotations["annotations"]
    chosen = rng.permutation(len(objects))[: round(rate * len(objects))]
    errors: dict[str, list[Found]] = {kind: [] for kind in KINDS}
    deleted = set()
    for place, number in enumerate(chosen.tolist()):
        kind, item = KINDS[place % len(KINDS)], objects[number]
        if kind == OVERLOOKED:
            deleted.add(number)
        elif kind == SWAPPED:
            item["category_id"] = int(rng.choice([c for c in classes if c != item["category_id"]]))
        else:
            item["bbox"] = moved(item["bbox"], sizes[item["image_id"]], rng)
        x, y, width, height = item["bbox"]
        errors[kind].append((names[item["image_id"]], (x, y, x + width, y + height)))
    annotations["annotations"] = [item for number, item in enumerate(objects) if number not in deleted]
    return errors


def moved(bbox: Sequence[float], size: tuple[int, int], rng: np.random.Generator) -> list[float]:
    """Return x, y, width, height of a box moved by 0.3 to 0.6 of its sides, within the image."""
    start, sides, limit = np.array(bbox[:2]), np.array(bbox[2:]), np.array(size)
    shift = rng.uniform(0.3, 0.6, 2) * rng.choice([-1, 1], 2) * sides
    # Away from the border, where a box would be moved back.
    shift = np.where((start + shift < 0) | (start + shift + sides > limit), -shift, shift)
    low, high = np.clip(start + shift, 0, limit - 1), np.clip(start + shift + sides, 1, limit)
    return [round(float(value), 2) for value in (*low, *np.maximum(high - low, 1))]


def write_whole(data: str, folder: Path) -> dict[str, Any]:
    """Convert a data set to COCO in a folder, and return all of its splits as one COCO JSON."""
    from detection_core.datasets.dataset_conversion import convert_to_coco

    made = convert_to_coco(data, str(folder))
    whole: dict[str, Any] = {"images": [], "annotations": []}
    for split, name in made.files.items():
        part = json.loads((folder / name).read_text())
        first = len(whole["images"])
        for image in part["images"]:
            whole["images"].append(
                image | {"id": first + image["id"], "file_name": f"{split}/{image['file_name']}"}
            )
        for item in part["annotations"]:
            number = len(whole["annotations"]) + 1
            whole["annotations"].append(item | {"id": number, "image_id": first + item["image_id"]})
        whole["categories"] = part["categories"]
        (folder / name).unlink()
    return whole


def with_errors(data: str, rate: float, seed: int, folder: Path) -> dict[str, list[Found]]:
    """Write a data set with injected errors once; return where they are."""
    listed = folder.with_suffix(".json")
    if not listed.exists():
        annotations = write_whole(data, folder)
        errors = inject(annotations, rate, seed)
        (folder / "annotations.json").write_text(json.dumps(annotations))
        listed.write_text(json.dumps(errors))
    return json.loads(listed.read_text())


def found_rows(suspects: Sequence[Any], errors: Sequence[Found], least: float, sizes: Any) -> list[bool]:
    """Return for each suspect whether it is an injected error that no earlier suspect was."""
    left = [(source_id, np.array(box, float)) for source_id, box in errors]
    hits = []
    for suspect in suspects:
        width, height = sizes[suspect.source_id]
        ymin, xmin, ymax, xmax = suspect.label_box or suspect.detected_box
        box = np.array([xmin * width, ymin * height, xmax * width, ymax * height])
        near = [
            n
            for n, (name, other) in enumerate(left)
            if name == suspect.source_id and iou(box, other) >= least
        ]
        hits.append(bool(near))
        if near:
            del left[max(near, key=lambda n: iou(box, left[n][1]))]
    return hits


def iou(box: np.ndarray, other: np.ndarray) -> float:
    """Return the overlap of two boxes of corners."""
    inner = np.prod(np.clip(np.minimum(box[2:], other[2:]) - np.maximum(box[:2], other[:2]), 0, None))
    areas = np.prod(box[2:] - box[:2]) + np.prod(other[2:] - other[:2])
    return float(inner / (areas - inner))


def measure(arguments: argparse.Namespace, rate: float) -> Iterable[dict[str, str]]:
    """Train and rank on a data set with errors; yield a row for each kind."""
    from component_specs import ExampleGenJob
    from components.example_gen.run import run
    from detection_core.config.load import load_config
    from detection_core.evaluation.label_scores import LabelErrorOptions
    from detection_core.tasks.cross_validation import fold_splits
    from detection_core.tasks.find_label_errors import LabelSearch, find_label_errors

    data = arguments.work / f"{rate:.0%}"
    errors = with_errors(arguments.data, rate, arguments.seed, data)
    images = json.loads((data / "annotations.json").read_text())["images"]
    out = data.with_name(f"{data.name}-found")
    examples = out / ".examples"
    if not examples.exists():
        splits = fold_splits(arguments.folds)
        run(
            ExampleGenJob(
                examples=str(examples),
                data_path=str(data),
                data_format="coco",
                splits=splits,
                quarantine_limit=1.0,
            )
        )
    overrides = {"train_config.num_steps": arguments.steps, f"{RATE}.total_steps": arguments.steps}
    search = LabelSearch(
        config=load_config(arguments.config, list(overrides.items())),
        work_dir=str(out / "folds"),
        options=LabelErrorOptions(low_score=arguments.low_score, high_score=arguments.high_score),
        count=max(map(len, errors.values())),
        below=1.0,
    )
    made = find_label_errors(str(examples), str(out), search)
    sizes = {str(image["id"]): (image["width"], image["height"]) for image in images}
    for kind in KINDS:
        count = len(errors[kind])
        suspects = [error for error in made.errors if error.kind == kind][:count]
        hits = found_rows(suspects, errors[kind], 0.5 if kind == OVERLOOKED else 0.9, sizes)
        half = hits[: count // 2]
        yield {
            "errors": f"{rate:.0%}",
            "kind": kind.replace("_", " "),
            "injected": f"{count:,}",
            "listed": f"{len(hits):,}",
            "recall": f"{sum(hits) / count:.2f}",
            "precision": f"{sum(hits) / max(1, len(hits)):.2f}",
            "recall of the first half": f"{sum(half) / count:.2f}",
            "precision of the first half": f"{sum(half) / max(1, len(half)):.2f}",
        }


def main() -> None:
    """Print a row for each rate and kind."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", help="folder of a data set")
    parser.add_argument("--config", required=True, help="pipeline.config, such as `detflow init` writes")
    parser.add_argument("--work", required=True, type=Path, help="folder of data and trainings")
    parser.add_argument("--folds", type=int, default=2)
    parser.add_argument("--steps", type=int, default=1000, help="training steps of each fold")
    parser.add_argument("--seed", type=int, default=0, help="of the errors")
    parser.add_argument("--low-score", type=float, help="as of the command")
    parser.add_argument("--high-score", type=float, help="as of the command")
    add_keep(parser)
    arguments = parser.parse_args()
    arguments.work.mkdir(parents=True, exist_ok=True)
    rows = []
    for rate in RATES:
        for row in measure(arguments, rate):
            rows.append(row)
            print("  ".join(f"{name} {value}" for name, value in row.items()), flush=True)
    keep(arguments.keep, rows)


if __name__ == "__main__":
    main()
