"""Speed and memory of a network of each family here, against the Object Detection API and torchvision.

    python -m benchmarks.families [--networks ssd_fpnlite ssd efficientdet_d0 faster_rcnn ...]
        [--parts step prediction] [--torch PYTHON] [--torchvision c4 fpn] [--od-api FOLDER]
        [--turns 5] [--batch 0] [--prediction-batch 1] [--size 0] [--threads 2] [--score-threshold 0.0]

The peers of Faster R-CNN and Mask R-CNN are run by `--torch`, a Python that has torch and torchvision. `c4`
has the layers of ours; `fpn` is torchvision's own detector, another network for the same task. The peer of
SSD, EfficientDet and CenterNet is the Object Detection API: `--od-api` is the folder that holds its package
`object_detection`, and for EfficientDet also `official`.
Peers that are missing are named, and the rest is measured. Nothing is downloaded; weights are random.

A training step is forward, losses, gradients and update by SGD with momentum. A prediction is
network and detections. Both sides get the same noise, objects, input size and threads. Of the networks in
`SPREAD`, a prediction's first weights are drawn so widely that scores differ between anchors, as a trained
detector's do: the initializers of a published config give every anchor the same score. `c4` also has the
anchors, proposals, sampled regions, detections and score threshold of ours; `fpn` has its own anchors,
proposals and regions. These things differ:

- torchvision suppresses the best 1,000 anchors (2,000 in training), ours all of them;
- torchvision has a box for each class, ours one for all classes (Faster R-CNN);
- torchvision averages four samples of each cell of a region, ours takes their maximum;
- torchvision has no batch norm behind the first convolution of the proposals and of the masks;
- neither side pastes masks into images, which torchvision would do otherwise.

Each contender is a process. They take turns, so that other load falls on all alike. `ours_cpu_ratio` is our
processor time divided by the peer's, the median over pairs of turns; `ours_wall_ratio` is that of the clock.
Peaks of memory include the code of TensorFlow or PyTorch and the weights; `working_gb` is what the work adds.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np

from benchmarks.results import add_keep, keep
from benchmarks.turns import Contender, serve, take_turns

ROOT = Path(__file__).parents[1]
CLASSES, BOXES = 90, 7
PARTS = ("step", "prediction")
TORCHVISION = ("c4", "fpn")
NETWORKS: dict[str, tuple[str, int, tuple[str, ...]]] = {
    "ssd_fpnlite": ("ssd_mobilenet_v2_fpnlite_320x320_coco17_tpu-8", 320, ()),
    "ssd": ("ssd_mobilenet_v2_320x320_coco17_tpu-8", 300, ()),
    "efficientdet_d0": ("efficientdet_d0_coco17_tpu-32", 512, ()),
    "faster_rcnn": ("faster_rcnn_resnet50_v1_640x640_coco17_tpu-8", 640, TORCHVISION),
    "faster_rcnn_fpn": ("faster_rcnn_resnet50_v1_fpn_640x640_coco17_tpu-8", 640, ("fpn",)),
    "mask_rcnn": ("mask_rcnn_resnet50_v1", 512, TORCHVISION),
    "center_net": ("centernet_resnet50_v1_fpn_512x512_coco17_tpu-8", 512, ()),
}
"""Names in `networks.yaml`, rows and columns of the input, and peers of torchvision; none: the reference."""
BATCHES = {"ssd_fpnlite": 8, "ssd": 8, "efficientdet_d0": 4}
"""Images of a step; the other networks have 2."""
SPREAD: dict[str, tuple[str, float, float]] = {
    "ssd_fpnlite": ("weight_shared_convolutional_box_predictor", 0.3, 0.7),
    "ssd": ("convolutional_box_predictor", 0.3, 0.015),
    "efficientdet_d0": ("weight_shared_convolutional_box_predictor", 0.47, 0.5),
}
"""Of predictions: the predictor, and standard deviations of the first weights of the extractor and of it."""
SECOND_STAGE = "second_stage_post_processing.batch_non_max_suppression"


def config_text(network: str, side: int, changes: dict[str, Any]) -> str:
    """Return a network's config whose images have a fixed size."""
    from detection_core.config.load import format_pipeline_config, parse_pipeline_config
    from detection_core.config.paths.overrides import apply_overrides
    from detection_core.detectors.family import model_message
    from detection_core.zoo.networks import find_network

    config = parse_pipeline_config(find_network(network).text(CLASSES))
    arm = model_message(config.model)[1]
    resizer = {"fixed_shape_resizer": {"height": side, "width": side}}
    changes = {"image_resizer": resizer, **changes}
    changed = apply_overrides(config, {f"{arm}.{path}": value for path, value in changes.items()})
    return format_pipeline_config(changed)


def spread_initializers(name: str) -> dict[str, Any]:
    """Return changes of a network's config that draw first weights widely; none if it is not in `SPREAD`."""
    if name not in SPREAD:
        return {}
    predictor, *deviations = SPREAD[name]
    places = ("feature_extractor", f"box_predictor.{predictor}")
    return {
        f"{place}.conv_hyperparams.initializer": {"random_normal_initializer": {"stddev": deviation}}
        for place, deviation in zip(places, deviations, strict=True)
    }


def write_batch(path: str, images: int, side: int) -> None:
    """Write noise, 0..255, and the boxes, normalised, and classes of seven objects in each image."""
    draws = np.random.default_rng(0)
    corner = draws.uniform(0.0, 0.6, (images, BOXES, 2))
    boxes = np.concatenate([corner, corner + draws.uniform(0.05, 0.4, corner.shape)], axis=-1)
    classes = draws.integers(0, CLASSES, (images, BOXES))
    pixels = draws.uniform(0.0, 255.0, (images, side, side, 3)).astype(np.float32)
    np.savez(path, pixels=pixels, boxes=boxes.astype(np.float32), classes=classes)


def read_batch(work: dict[str, Any]) -> Any:
    """Read the batch as our steps take it; with masks, each object covers the whole image."""
    import tensorflow as tf

    from detection_core.ops.objects import new_truth
    from detection_core.structures import Batch, Images

    with np.load(work["batch"]) as stored:
        pixels, boxes, classes = (tf.constant(stored[name]) for name in ("pixels", "boxes", "classes"))
    number, side = tuple(classes.shape), work["side"]
    covered = side if work.get("masks") else 0
    truth = new_truth(
        boxes=boxes,
        classes=tf.cast(classes, tf.int32),
        weights=tf.ones(number),
        is_crowd=tf.zeros(number, tf.bool),
        area=tf.zeros(number),
        valid=tf.ones(number, tf.bool),
        masks=tf.ones([*number, covered, covered], tf.uint8),
    )
    sizes = tf.fill([number[0], 2], side)
    return Batch(Images(pixels, sizes, sizes, tf.fill([number[0]], "made")), truth)


def images_of(name: str, part: str, arguments: argparse.Namespace) -> int:
    """Return the images of a step or a prediction."""
    if part == "prediction":
        return int(arguments.prediction_batch)
    return arguments.batch or BATCHES.get(name, 2)


def settings(name: str, part: str, arguments: argparse.Namespace, folder: str) -> dict[str, Any]:
    """Return what our process and its peers need, as JSON: the config, its numbers, and the batch's file."""
    from detection_core.config.load import parse_pipeline_config

    network, side, two_stages = NETWORKS[name]
    side = arguments.size or side
    changes = {f"{SECOND_STAGE}.score_threshold": arguments.score_threshold} if two_stages else {}
    if part == "prediction":
        changes |= spread_initializers(name)
    text = config_text(network, side, changes)
    work = {"config": text, "part": part, "side": side, "classes": CLASSES, "threads": arguments.threads}
    work["batch"] = os.path.join(folder, f"{name}_{part}.npz")
    write_batch(work["batch"], images_of(name, part, arguments), side)
    if not two_stages:
        return work
    model = parse_pipeline_config(text).model.faster_rcnn
    suppression = model.second_stage_post_processing.batch_non_max_suppression
    head = model.second_stage_box_predictor.mask_rcnn_box_predictor
    return work | {
        "proposals": model.first_stage_max_proposals,
        "sampled": model.second_stage_batch_size,
        "detections": suppression.max_total_detections,
        "score_threshold": suppression.score_threshold,
        "masks": head.mask_height if model.number_of_stages == 3 else 0,
    }


def our_work(work: dict[str, Any]) -> Callable[[], object]:
    """Return our step, or our prediction."""
    from detection_core.quick_imports import import_quickly
    from detection_core.training.kernels import use_onednn

    import_quickly()
    if work["part"] == "step":
        use_onednn()
    import tensorflow as tf

    from benchmarks.training_step import ours
    from detection_core.builders.detector import build_detector
    from detection_core.config.check import check_pipeline_config
    from detection_core.config.load import parse_pipeline_config
    from detection_core.training.memory import keep_host_memory

    keep_host_memory()
    tf.config.threading.set_intra_op_parallelism_threads(work["threads"])
    tf.config.set_visible_devices([], "GPU")
    detector = build_detector(check_pipeline_config(parse_pipeline_config(work["config"])).model)
    batch = read_batch(work)
    if work["part"] == "step":
        return ours(detector, batch)
    detect = tf.function(detector.detect, autograph=False)

    def run() -> object:
        return detect(batch.images).count.numpy()

    return run


def contenders(name: str, work: dict[str, Any], arguments: argparse.Namespace) -> Iterator[Contender]:
    """Start our process and those of its peers."""
    root, words = str(ROOT), json.dumps(work)
    yield Contender("ours", [sys.executable, __file__, "worker", words], root=root)
    if not NETWORKS[name][2]:
        own = json.dumps(work | {"code": arguments.od_api})
        command = [sys.executable, f"{ROOT}/benchmarks/od_api_peer.py", own]
        # Its generated messages are older than the C++ implementation allows.
        variables = {"TF_USE_LEGACY_KERAS": "1", "PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION": "python"}
        yield Contender("Object Detection API", command, root=root, **variables)
        return
    for network in [each for each in NETWORKS[name][2] if each in arguments.torchvision]:
        own = json.dumps({**work, "network": network, "config": ""})
        command = [arguments.torch, f"{ROOT}/benchmarks/torchvision_peer.py", own]
        # Threads that wait in a loop would count as work on a busy machine.
        yield Contender(f"torchvision {network}", command, root=root, OMP_WAIT_POLICY="PASSIVE")


def rows(found: list[Contender]) -> dict[str, Any]:
    """Return the costs of each contender, and of ours divided by those of each peer."""
    own = found[0]
    table: dict[str, dict[str, Any]] = {}
    for each in found:
        if each.missing:
            table[each.name] = {"missing": each.missing}
            continue
        costs = {name: round(each.median(name), 3) for name in ("cpu_s", "wall_s")}
        costs["peak_gb"] = round(each.turns[-1]["peak_gb"], 2)
        costs["working_gb"] = round(each.turns[-1]["peak_gb"] - each.first["ready_gb"], 2)
        if each is not own and not own.missing:
            for cost in ("cpu", "wall"):
                costs[f"ours_{cost}_ratio"] = round(own.ratio(each, f"{cost}_s"), 3)
            costs["ours_peak_ratio"] = round(own.turns[-1]["peak_gb"] / each.turns[-1]["peak_gb"], 3)
        table[each.name] = costs
    return table


def table_rows(result: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the costs and ratios as rows of a table."""
    columns = {
        "cpu_s": "CPU s",
        "peak_gb": "GB",
        "ours_cpu_ratio": "ours / it, CPU",
        "ours_peak_ratio": "ours / it, memory",
    }
    return [
        {"network": name, "part": part, "": contender}
        | {column: row.get(key, row.get("missing", "")) for key, column in columns.items()}
        for name, parts in result["networks"].items()
        for part, table in parts.items()
        for contender, row in table.items()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--networks", nargs="+", choices=NETWORKS, default=list(NETWORKS))
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--torch", default=sys.executable, help="Python that has torch and torchvision")
    parser.add_argument("--torchvision", nargs="+", choices=TORCHVISION, default=TORCHVISION)
    parser.add_argument("--od-api", default="", help="folder that holds the package object_detection")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--batch", type=int, default=0, help="images of a training step; 0: the networks'")
    parser.add_argument("--prediction-batch", type=int, default=1, help="images of a prediction")
    parser.add_argument("--size", type=int, default=0, help="rows and columns of images; 0: the networks'")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--score-threshold", type=float, default=0.0, help="of two-stage detections")
    add_keep(parser)
    arguments = parser.parse_args()
    result: dict[str, Any] = {"networks": {}, "load": [round(each, 1) for each in os.getloadavg()]}
    result |= {name: getattr(arguments, name) for name in ("turns", "batch", "threads", "score_threshold")}
    with tempfile.TemporaryDirectory() as folder:
        for name in arguments.networks:
            for part in arguments.parts:
                found = list(contenders(name, settings(name, part, arguments, folder), arguments))
                take_turns(found, arguments.turns)
                result["networks"].setdefault(name, {})[part] = rows(found)
    print(json.dumps(result, indent=1))
    found_rows = table_rows(result)
    for row in found_rows:
        print(*row.values(), sep="\t")
    keep(arguments.keep, found_rows)


if __name__ == "__main__":
    if sys.argv[1:2] == ["worker"]:
        serve(lambda: our_work(json.loads(sys.argv[2])))
    else:
        main()
