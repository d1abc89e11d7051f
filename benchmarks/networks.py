"""Parameters, operations and memory of the networks that `detflow init` offers: the facts of its table.

    python -m benchmarks.networks operations [NAME...]
    python -m benchmarks.networks memory [--batches=2,6] [--side=256] [NAME...]

`networks.yaml` of each family has them. `operations` builds each network for 90 classes at its published
input. `memory` trains some steps on noise with two batch sizes, each in a child process, and divides the
difference of their peaks by that of their pixels: bytes for each pixel of a batch, on processors. Those of
EfficientDet D5 to D7 and of CenterNet are measured with --batches=1,3, for which 16 GiB are enough. Those of
two-stage networks are measured with --batches=1,3 --side=640: their second stage takes the same memory for
every image, so that small images would give too large a number.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from collections.abc import Mapping

from detection_core.config.check import check_pipeline_config
from detection_core.config.load import parse_pipeline_config
from detection_core.config.paths.overrides import apply_overrides
from detection_core.config.pipeline_config import CheckedConfig
from detection_core.detectors.family import model_message
from detection_core.zoo.networks import find_network, list_networks

_CLASSES = 90
_STEPS = 3
_KEYPOINTS = 17  # of COCO's persons
_BATCHES, _SIDE = "--batches=", "--side="
_OPTIONS = {_BATCHES: "2,6", _SIDE: "256"}


def _config(name: str, side: int = 0) -> CheckedConfig:
    config = parse_pipeline_config(find_network(name).text())
    arm = model_message(config.model)[1]
    size = {"height": side, "width": side}
    changes = {f"{arm}.image_resizer": {"fixed_shape_resizer": size}} if side else {}
    return check_pipeline_config(apply_overrides(config, {f"{arm}.num_classes": _CLASSES, **changes}))


def operations(name: str, options: Mapping[str, str]) -> dict[str, int]:
    from detection_core.tasks.describe import describe

    del options
    found = describe(_config(name))
    return {"parameters": found.parameters, "multiply_adds": found.flops // 2}


def memory(name: str, options: Mapping[str, str]) -> dict[str, int]:
    batches, side = [int(batch) for batch in options[_BATCHES].split(",")], options[_SIDE]
    peaks = []
    for batch in batches:
        command = [sys.executable, "-m", "benchmarks.networks", "peak", name, str(batch), side]
        peaks.append(
            int(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[-1])
        )
    pixels = (batches[1] - batches[0]) * int(side) ** 2
    return {"training_bytes": (peaks[1] - peaks[0]) // pixels, "rest_bytes": peaks[0]}


def peak(name: str, batch: int, side: int) -> int:
    import tensorflow as tf

    from benchmarks.training_step import make_batch, ours
    from detection_core.builders.detector import build_detector
    from detection_core.structures import Batch

    images, truth = make_batch(batch, side, _CLASSES)
    rows = truth.classes.shape
    finds = find_network(name).kind.finds
    if finds == "masks":
        truth = truth._replace(masks=tf.ones([*rows, side, side], tf.uint8))
    elif finds == "keypoints":
        points = tf.repeat(truth.boxes[:, :, tf.newaxis, :2], _KEYPOINTS, axis=2)
        truth = truth._replace(keypoints=points, keypoint_weights=tf.ones([*rows, _KEYPOINTS]))
    # Without a seed the weights are zeros, and keypoints need no label map.
    detector = build_detector(_config(name, side).model, seed=None)
    step = ours(detector, Batch(images, truth))
    for _ in range(_STEPS):
        step()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


_COMMANDS = {"operations": operations, "memory": memory}


def main() -> None:
    command, *rest = sys.argv[1:] or ["operations"]
    if command == "peak":
        print(peak(rest[0], *map(int, rest[1:])))
        return
    options, names = dict(_OPTIONS), []
    for each in rest:
        flag = next((flag for flag in options if each.startswith(flag)), "")
        if flag:
            options[flag] = each.removeprefix(flag)
        else:
            names.append(each)
    for name in names or [network.name for network in list_networks()]:
        print(json.dumps({"name": name, **_COMMANDS[command](name, options)}), flush=True)


if __name__ == "__main__":
    main()
