"""COCO's metrics of boxes, beside pycocotools and faster-coco-eval on the same detections in turns.

    python -m benchmarks.evaluation [--images 5000] [--classes 80] [--detections 100] [--turns 5]
        [--peers pycocotools faster_coco_eval] [--keep NAME]

Seven objects an image, and of its detections two near each object, as COCO has about; or with `--dense`, all
detections near an object of one class. Ours get arrays and the peers COCO's lists, both ready in memory. Each
contender is a process. A peer that is not installed is named, and the rest is measured. `working MB` is what
the work adds to the peak of memory.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import io
import json
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.results import add_keep, keep
from benchmarks.turns import Contender, serve, take_turns

OBJECTS, HEIGHT, WIDTH = 7, 480, 640
PEERS = {"pycocotools": "COCOeval", "faster_coco_eval": "COCOeval_faster"}


def make_images(work: dict[str, Any]) -> list[dict[str, np.ndarray]]:
    """Make boxes, normalised ymin, xmin, ymax and xmax, classes and scores; the objects come first."""
    rng = np.random.default_rng(work.get("seed", 0))
    count, images = OBJECTS + work["detections"], []
    for _ in range(work["images"]):
        low = rng.uniform(0, 0.7, (count, 2))
        boxes = np.concatenate([low, low + rng.uniform(0.02, 0.3, (count, 2))], 1).astype(np.float32)
        classes = rng.integers(0, 1 if work["dense"] else work["classes"], count).astype(np.int32)
        near = count - OBJECTS if work["dense"] else 2 * OBJECTS
        of: np.ndarray = np.resize(np.arange(OBJECTS), near)
        boxes[OBJECTS : OBJECTS + near] = boxes[of] + rng.normal(0, 0.01, (near, 4))
        classes[OBJECTS : OBJECTS + near] = classes[of]
        scores = -np.sort(-rng.random(work["detections"]).astype(np.float32))
        crowd = rng.random(OBJECTS) < 0.01
        images.append({"boxes": boxes, "classes": classes, "scores": scores, "is_crowd": crowd})
    return images


def ours(work: dict[str, Any]) -> Callable[[], object]:
    """Return the evaluation here; it prints the metrics."""
    from detection_core.evaluation.coco_metrics import evaluate_coco
    from detection_core.evaluation.results import EvaluatedImage
    from detection_core.structures import Instances

    def instances(image: dict[str, np.ndarray], rows: slice, **fields: Any) -> Instances:
        boxes, classes = image["boxes"][rows], image["classes"][rows]
        return Instances(source_id="", height=HEIGHT, width=WIDTH, boxes=boxes, classes=classes, **fields)

    images = [
        EvaluatedImage(
            truth=instances(image, slice(OBJECTS), is_crowd=image["is_crowd"]),
            detections=instances(image, slice(OBJECTS, None), scores=image["scores"]),
        )
        for image in make_images(work)
    ]
    names = {c: str(c) for c in range(work["classes"])}
    return lambda: print(json.dumps(list(evaluate_coco(images, names).metrics().values())), file=sys.stderr)


def peer(work: dict[str, Any]) -> Callable[[], object]:
    """Return the evaluation of a package with the interface of pycocotools."""
    package = importlib.import_module(work["peer"])
    tool = package if hasattr(package, "COCO") else importlib.import_module(f"{work['peer']}.coco")
    engine = importlib.import_module(f"{work['peer']}.cocoeval") if tool is not package else package
    truth: list[dict[str, Any]] = []
    found: list[dict[str, Any]] = []
    size = np.array([HEIGHT, WIDTH] * 2, np.float32)
    for number, image in enumerate(make_images(work), start=1):
        boxes = image["boxes"] * size
        xywh = np.concatenate([boxes[:, 1::-1], boxes[:, :1:-1] - boxes[:, 1::-1]], axis=1).tolist()
        areas = ((boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])).tolist()
        rows = [
            {"image_id": number, "category_id": c + 1, "bbox": box}
            for c, box in zip(image["classes"].tolist(), xywh, strict=True)
        ]
        for row, area, crowd in zip(rows[:OBJECTS], areas, image["is_crowd"].tolist(), strict=False):
            truth.append(row | {"id": len(truth) + 1, "area": area, "iscrowd": int(crowd)})
        found += [
            row | {"score": score}
            for row, score in zip(rows[OBJECTS:], image["scores"].tolist(), strict=True)
        ]
    everything = {
        "images": [{"id": n + 1, "height": HEIGHT, "width": WIDTH} for n in range(work["images"])],
        "categories": [{"id": c + 1, "name": str(c)} for c in range(work["classes"])],
        "annotations": truth,
    }

    def run() -> None:
        with contextlib.redirect_stdout(io.StringIO()):
            objects = tool.COCO()
            objects.dataset = everything
            objects.createIndex()
            evaluation = getattr(engine, PEERS[work["peer"]])(objects, objects.loadRes(found), "bbox")
            evaluation.evaluate()
            evaluation.accumulate()
            evaluation.summarize()
        print(json.dumps([float(value) for value in evaluation.stats[:12]]), file=sys.stderr)

    return run


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--images", type=int, default=5000)
    parser.add_argument("--classes", type=int, default=80)
    parser.add_argument("--detections", type=int, default=100, help="of an image")
    parser.add_argument("--dense", action="store_true", help="all detections near an object of one class")
    parser.add_argument("--peers", nargs="*", choices=PEERS, default=list(PEERS))
    parser.add_argument("--turns", type=int, default=5)
    add_keep(parser)
    arguments = parser.parse_args()
    work = {name: getattr(arguments, name) for name in ("images", "classes", "detections", "dense")}
    found = []
    for name in ("", *arguments.peers):
        command = [sys.executable, "-m", "benchmarks.evaluation", "worker", json.dumps(work | {"peer": name})]
        found.append(Contender(name or "ours", command, root="."))
    take_turns(found, arguments.turns)
    rows: list[dict[str, Any]] = []
    for each in found:
        if each.missing:
            rows.append({"": each.name, "CPU s": each.missing})
            continue
        working = each.turns[-1]["peak_gb"] - each.first["ready_gb"]
        rows.append(
            {
                "": each.name,
                "CPU s": round(each.median("cpu_s"), 2),
                "images/s": round(arguments.images / each.median("wall_s")),
                "working MB": round(1000 * working),
                "it / ours, CPU": round(each.ratio(found[0]), 2),
            }
        )
    for row in rows:
        print(*row.values(), sep="\t")
    keep(arguments.keep, rows)


if __name__ == "__main__":
    if sys.argv[1:2] == ["worker"]:
        settings = json.loads(sys.argv[2])
        make = peer if settings["peer"] else ours
        serve(lambda: make(settings), needs=settings["peer"])
    else:
        main()
