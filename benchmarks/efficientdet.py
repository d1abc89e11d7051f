"""Speed of google/automl's EfficientDet here, against effdet (PyTorch), and against SSD FPN-Lite 320.

    python -m benchmarks.efficientdet [--models efficientdet-lite0,efficientdet-d0] [--batch 8] [--threads 0]
        [--steps 10] [--parts step,prediction,file] [--peer PYTHON]

One run times, on the same batch of noise with the same objects and the same number of threads:

- a training step: forward, losses, gradients and update, as the training loop makes it;
- a prediction: one image, network and suppression, as `detflow predict` and SavedModels make it;
- the TensorFlow Lite file, float32 and int8, in LiteRT, which effdet has no counterpart of.

Contenders are timed in turns, so that other load falls on all alike. Besides times it prints ratios, and the
time of each billion multiply-adds, as the networks of different families do different amounts of work.

The peer runs in a child process with the Python of `--peer`, which needs torch, timm and effdet, but not
detflow. Without them the benchmark prints that they are missing and times the rest. Where ai-edge-litert is
missing, files are run by tensorflow's own interpreter.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

SSD = "ssd_mobilenet_v2_fpnlite_320x320"
CLASSES, BOXES, WARM_UP = 90, 7, 2
PARTS = ("step", "prediction", "file")
PEER = Path(__file__).with_name("efficientdet_peer.py")
# effdet's names: those of lite are of networks with the same layers.
PEER_NAMES = {
    **{f"efficientdet-d{size}": f"tf_efficientdet_d{size}" for size in range(8)},
    **{f"efficientdet-lite{size}": f"tf_efficientdet_lite{size}" for size in range(5)},
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Subject:
    """A detector that is timed.

    Attributes:
        name: of it.
        side: rows and columns of its input.
        multiply_adds: of its network for one image.
        config: what it is built from.
    """

    name: str
    side: int
    multiply_adds: int
    config: Any


def subject(name: str) -> Subject:
    from benchmarks.training_step import CONFIG
    from detection_core.config.check import check_pipeline_config
    from detection_core.config.load import load_pipeline_config, parse_pipeline_config
    from detection_core.tasks.describe import describe

    if name == SSD:
        config = load_pipeline_config(str(CONFIG))
    else:
        config = parse_pipeline_config(
            f'model {{ efficientdet {{ name: "{name}" num_classes: {CLASSES}'
            ' nms_configs { method: "hard" mode: "per_class" iou_thresh: 0.5 score_thresh: 0.05 } } }'
        )
    config = check_pipeline_config(config)
    found = describe(config)
    return Subject(
        name=name, side=found.input_shape.smallest[0], multiply_adds=found.flops // 2, config=config
    )


def training_step(found: Subject, batch: Any) -> Callable[[], object]:
    from benchmarks.training_step import ours
    from detection_core.builders.detector import build_detector

    return ours(build_detector(found.config.model), batch)


def prediction(found: Subject, batch: Any) -> Callable[[], object]:
    import tensorflow as tf

    from detection_core.builders.detector import build_detector

    detect = tf.function(build_detector(found.config.model).detect)

    def run() -> object:
        return detect(batch.images).count.numpy()

    return run


def write_batch(batch: Any, path: str) -> None:
    """Write images and objects for the peer, without the padding that all images have."""
    import numpy as np

    truth = batch.truth
    np.savez(
        path,
        pixels=batch.images.pixels.numpy(),
        boxes=truth.boxes.numpy()[:, :BOXES],
        classes=truth.classes.numpy()[:, :BOXES],
    )


def write_files(found: Subject, folder: str) -> dict[str, str]:
    """Convert a detector to float32 and, with ranges of noise, to int8; return format to path."""
    import numpy as np

    from detection_core.artifacts.quantization import QuantizationOptions
    from detection_core.builders.detector import configured_model
    from detection_core.detectors.family import TFLiteOutputOptions
    from detection_core.exporters.tflite import Conversion
    from detection_core.exporters.tflite_formats import FORMATS

    configured = configured_model(found.config)
    model, family = configured.build(), configured.family
    noise = np.random.default_rng(0).uniform(0, 255, (1, found.side, found.side, 3)).astype(np.float32)
    rewritten = family.require_quantization().rewrite(model, QuantizationOptions(delay=0), None)
    rewritten.calibrate([noise])
    outputs = TFLiteOutputOptions(max_detections=100, classes_per_detection=1, use_regular_nms=False)
    paths = {}
    for name, source in (("float32", model), ("int8", rewritten.model)):
        function = family.require_tflite().function(source, found.config, outputs, FORMATS[name].integer)
        paths[name] = os.path.join(folder, f"{found.name}_{name}.tflite")
        Path(paths[name]).write_bytes(FORMATS[name].convert(Conversion(function=function)))
    return paths


def file_run(path: str, threads: int) -> Callable[[], object]:
    import numpy as np

    try:
        from ai_edge_litert.interpreter import Interpreter
    except ImportError:
        from tensorflow.lite import Interpreter

    interpreter = Interpreter(model_path=path, num_threads=threads)
    interpreter.allocate_tensors()
    details = interpreter.get_input_details()[0]
    noise = np.random.default_rng(0).uniform(0, 1, details["shape"])
    values = noise * 255 if details["dtype"] == np.uint8 else noise * 2 - 1
    interpreter.set_tensor(details["index"], values.astype(details["dtype"]))
    return interpreter.invoke


def time_in_turns(contenders: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Return the median milliseconds of each contender over `turns` turns."""
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for run in contenders.values():
        for _ in range(WARM_UP):
            run()
    for _ in range(rounds):
        for name, run in contenders.items():
            began = time.perf_counter()
            run()
            times[name].append(1000 * (time.perf_counter() - began))
    return {name: statistics.median(found) for name, found in times.items()}


class Peer:
    """effdet in a child process, which sets up a network and then runs it."""

    def __init__(self, python: str, threads: int) -> None:
        words = [python, str(PEER), str(threads)]
        self._process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.missing = str(self._answer(None).get("missing", ""))

    def _answer(self, command: dict[str, Any] | None) -> dict[str, Any]:
        assert self._process.stdin is not None and self._process.stdout is not None
        if command is not None:
            self._process.stdin.write(json.dumps(command) + "\n")
            self._process.stdin.flush()
        line = self._process.stdout.readline()
        return dict(json.loads(line)) if line else {"missing": "the process of the peer ended"}

    def contender(self, part: str, found: Subject, batch: str) -> Callable[[], object] | str:
        """Set up a part on the batch of a file; returns what runs it, or why it cannot be run."""
        if self.missing:
            return self.missing
        if found.name not in PEER_NAMES:
            return "effdet has no such network"
        what = {"part": part, "model": PEER_NAMES[found.name], "side": found.side, "batch": batch}
        answer = self._answer({"set_up": f"{part} {found.name}", **what, "classes": CLASSES})
        if "missing" in answer:
            return str(answer["missing"])
        return lambda: self._answer({"run": f"{part} {found.name}"})

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def measure_part(part: str, subjects: list[Subject], peer: Peer, arguments: argparse.Namespace) -> Any:
    """Time a part of all subjects in turns; returns name to times, ratios and what is missing."""
    from benchmarks.training_step import make_batch

    contenders: dict[str, Callable[[], object]] = {}
    missing: dict[str, str] = {}
    images = arguments.batch if part == "step" else 1
    with tempfile.TemporaryDirectory() as folder:
        for found in subjects:
            if part == "file":
                for kind, path in write_files(found, folder).items():
                    contenders[f"{found.name} {kind}"] = file_run(path, arguments.threads)
                continue
            batch, stored = make_batch(images, found.side, CLASSES), f"{folder}/{found.name}.npz"
            write_batch(batch, stored)
            contenders[found.name] = (training_step if part == "step" else prediction)(found, batch)
            theirs = peer.contender(part, found, stored)
            if callable(theirs):
                contenders[f"{found.name} effdet"] = theirs
            elif found.name != SSD:
                missing[found.name] = theirs
        times = time_in_turns(contenders, arguments.steps)
    return _rows(subjects, times, images) | ({"effdet_missing": missing} if missing else {})


def _rows(subjects: list[Subject], times: dict[str, float], images: int) -> dict[str, Any]:
    work = {found.name: found.multiply_adds * images / 1e9 for found in subjects}
    per_operation = {name: ms / work[name.partition(" ")[0]] for name, ms in times.items()}
    rows: dict[str, Any] = {}
    for name, ms in times.items():
        own, _, kind = name.partition(" ")
        row: dict[str, Any] = {
            "ms": round(ms, 2),
            "ms_per_billion_multiply_adds": round(per_operation[name], 3),
        }
        if f"{own} effdet" in times and not kind:
            row["ratio_to_effdet"] = round(ms / times[f"{own} effdet"], 3)
        reference = f"{SSD} {kind}".strip()
        if reference in times and kind != "effdet" and own != SSD:
            row["ratio_to_ssd"] = round(ms / times[reference], 3)
            row["ratio_to_ssd_per_operation"] = round(per_operation[name] / per_operation[reference], 3)
        rows[name] = row
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", default="efficientdet-lite0,efficientdet-d0")
    parser.add_argument("--batch", type=int, default=8, help="images of a training step")
    parser.add_argument("--threads", type=int, default=0, help="of every contender; 0: one a processor")
    parser.add_argument("--steps", type=int, default=10, help="turns that are timed")
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--peer", default=sys.executable, help="Python that has torch, timm and effdet")
    arguments = parser.parse_args()
    arguments.threads = arguments.threads or len(os.sched_getaffinity(0))

    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(arguments.threads)
    tf.config.set_visible_devices([], "GPU")
    subjects = [subject(name) for name in (*arguments.models.split(","), SSD)]
    peer = Peer(arguments.peer, arguments.threads)
    result: dict[str, Any] = {
        "threads": arguments.threads,
        "batch": arguments.batch,
        "multiply_adds": {found.name: found.multiply_adds for found in subjects},
    }
    for part in arguments.parts.split(","):
        result[part] = measure_part(part, subjects, peer, arguments)
    peer.close()
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
