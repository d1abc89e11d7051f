"""The worth of weights to start from, for few images: mAP from scratch and from real weights.

    python -m benchmarks.starting_weights VOC_FOLDER [--images 120] [--steps 250] [--size 300]

The weights are of an SSD MobileNetV2 of 300 x 300 pixels that the Object Detection API trained on Open Images
for 23 classes. They lie under Apache-2.0 in the npm package `@mediapipe/objectron`, as a float16 TensorFlow
Lite file inside a file of assets. The npm client fetches the package by its name, as it is set up here; the
kernels and biases are written as a name-based checkpoint of TensorFlow 1 and restored like any other. Batch
norms were folded into the kernels: gamma is 1, mean 0, and variance 1 - epsilon.

Each training sees the same images in the same order, and is measured on the same other images of the folder.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tensorflow as tf

from component_specs import ExampleGenJob
from components.example_gen.run import run as generate_examples
from detection_core.api import evaluate, train
from detection_core.config.label_map_file import load_label_map
from detection_core.config.load import parse_pipeline_config
from detection_core.config.paths.overrides import apply_overrides
from detection_core.zoo.fine_tuning import config_fields, fine_tuning_recipe
from detection_core.zoo.networks import find_model

PACKAGE, ASSETS = "@mediapipe/objectron@0.4.1675468480", "package/objectron_solution_packed_assets.data"
FIRST_BYTE, END = 184, 9_987_912
EPSILON = 0.001
NETWORK = "ssd_mobilenet_v2_320x320_coco17_tpu-8"
METRIC = "DetectionBoxes_Precision/mAP@.50IOU"
TRAIN = "train_config"
RATE = f"{TRAIN}.optimizer.momentum_optimizer.learning_rate.cosine_decay_learning_rate"
FROM_SCRATCH_RATE = 2  # times the recipe's


def fetch_tflite(folder: Path) -> Path:
    """Let the npm client fetch the package, and take the TensorFlow Lite file out of it."""
    path = folder / "object_detection.tflite"
    if not path.exists():
        command = ["npm", "pack", PACKAGE, "--silent", "--pack-destination", str(folder)]
        try:
            name = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()[-1]
        except (OSError, subprocess.CalledProcessError) as error:
            raise SystemExit(
                f"expected npm to fetch {PACKAGE}, found: {error}; with --output FOLDER put bytes"
                f" {FIRST_BYTE} to {END} of its {ASSETS} there as {path.name}"
            ) from error
        with tarfile.open(folder / name) as package:
            assets = package.extractfile(ASSETS)
            assert assets is not None
            content = assets.read()[FIRST_BYTE:END]
        if content[4:8] != b"TFL3":
            raise SystemExit(f"expected a TensorFlow Lite file in {PACKAGE}, found something else")
        path.write_bytes(content)
    return path


def read_weights(path: Path) -> dict[str, np.ndarray]:
    """Return the variables of the network, as TensorFlow 1 named and laid them out."""
    interpreter: Any = tf.lite.Interpreter(model_path=str(path))
    interpreter.allocate_tensors()
    names = {detail["index"]: detail["name"] for detail in interpreter.get_tensor_details()}
    stored: dict[int, int] = {}
    values: dict[str, np.ndarray] = {}
    for operation in interpreter._get_ops_details():
        inputs, outputs = (list(map(int, operation[side])) for side in ("inputs", "outputs"))
        if operation["op_name"] == "DEQUANTIZE":
            stored[outputs[0]] = inputs[0]
        if operation["op_name"] not in ("CONV_2D", "DEPTHWISE_CONV_2D"):
            continue
        kernel, bias = (interpreter.get_tensor(stored[i]).astype(np.float32) for i in inputs[1:])
        values |= _layer(names[outputs[0]].split(";")[0], kernel, bias)
    return values


def _layer(output: str, kernel: np.ndarray, bias: np.ndarray) -> dict[str, np.ndarray]:
    """Return the variables of a convolution, whose output is named after its last operation."""
    scope, _, last = output.rpartition("/")
    scope = scope.removesuffix("/BatchNorm")
    depthwise = scope.endswith("/depthwise")
    weights = kernel.transpose(1, 2, 3, 0)
    found = {f"{scope}/depthwise_weights" if depthwise else f"{scope}/weights": weights}
    if last.startswith("BiasAdd"):
        return found | {f"{scope}/biases": bias}
    norm, ones = f"{scope}/BatchNorm", np.ones_like(bias)
    return found | {
        f"{norm}/gamma": ones,
        f"{norm}/beta": bias,
        f"{norm}/moving_mean": 0 * ones,
        f"{norm}/moving_variance": (1 - EPSILON) * ones,
    }


def write_checkpoint(values: Mapping[str, np.ndarray], prefix: Path) -> str:
    """Write variables with TensorFlow 1's saver; return the prefix."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        for name, value in values.items():
            tf.compat.v1.get_variable(name, initializer=value)
        session.run(tf.compat.v1.global_variables_initializer())
        return str(tf.compat.v1.train.Saver().save(session, str(prefix), write_meta_graph=False))


def make_examples(data: Path, folder: Path, images: int) -> Path:
    """Ingest a part of a Pascal VOC folder for training, and up to 100 other images to measure on."""
    if not folder.exists():
        total = len(list((data / "Annotations").glob("*.xml")))
        measured = min(100, total - images)
        splits = {"train": images / total, "eval": measured / total}
        splits["rest"] = max(1 - sum(splits.values()), 0.0)
        folder.mkdir(parents=True)
        used = {name: fraction for name, fraction in splits.items() if fraction > 0}
        generate_examples(
            ExampleGenJob(
                examples=str(folder),
                data_path=str(data),
                data_format="voc",
                splits=used,
                quarantine_limit=0.05,
            )
        )
    return folder


def _times(schedule: Mapping[str, float], factor: float) -> dict[str, float]:
    """Return a schedule with all of its rates multiplied."""
    return {key: value * factor if "rate" in key else value for key, value in schedule.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("data", type=Path, help="Pascal VOC folder")
    parser.add_argument("--images", type=int, default=120)
    parser.add_argument("--steps", type=int, default=250)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--size", type=int, default=300, help="height and width of the network's input")
    parser.add_argument("--output", type=Path, default=None, help="kept between calls; a temporary folder")
    parser.add_argument("--rate", type=float, default=1.0, help="times the recipe's learning rate")
    parser.add_argument("--only", default="", help="one of the trainings, by its name")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        output = arguments.output or Path(scratch)
        output.mkdir(parents=True, exist_ok=True)
        checkpoint = write_checkpoint(read_weights(fetch_tflite(output)), output / "objectron.ckpt")
        examples = make_examples(arguments.data, output / "examples", arguments.images)
        classes = load_label_map(str(examples / "label_map.pbtxt")).num_classes
        recipe = fine_tuning_recipe(
            find_model(NETWORK),
            images=arguments.images,
            classes=classes,
            batch_size=arguments.batch,
            num_steps=arguments.steps,
        )
        rates = _times(config_fields(recipe)[RATE], arguments.rate)
        faster = _times(config_fields(recipe)[RATE], FROM_SCRATCH_RATE)
        start: dict[str, Any] = {f"{TRAIN}.fine_tune_checkpoint": checkpoint}
        start[f"{TRAIN}.fine_tune_checkpoint_type"] = "detection"
        heads = {f"{TRAIN}.load_all_detection_checkpoint_vars": True}
        trainings: dict[str, dict[str, Any]] = {
            "with what the heads share": start | heads,
            "backbone and extra layers": start,
            f"from scratch, {FROM_SCRATCH_RATE} times the rate": {RATE: faster},
            "from scratch": {},
        }
        for name, changes in trainings.items():
            if arguments.only not in ("", name):
                continue
            side = "model.ssd.image_resizer.fixed_shape_resizer"
            size = {f"{side}.height": arguments.size, f"{side}.width": arguments.size}
            text = find_model(NETWORK).text(classes)
            config = apply_overrides(
                parse_pipeline_config(text), {**config_fields(recipe), RATE: rates, **changes, **size}
            )
            folder, began = output / name.replace(" ", "_").replace(",", ""), time.monotonic()
            trained = train(config, output=folder, examples=examples)
            report = evaluate(trained, examples=examples)
            seconds = time.monotonic() - began
            value = report.metrics[METRIC]
            found = None if value is None else round(value, 4)
            print(json.dumps({"start": name, "mAP@.50": found, "s": round(seconds)}))


if __name__ == "__main__":
    main()
