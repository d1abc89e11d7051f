"""Latency and size of .tflite files, float32 and int8, beside those of the Object Detection API's exporter.

    python -m benchmarks.tflite [--networks ssd_fpnlite ssd] [--od-api FOLDER] [--threads 1 2 4] [--size 0]
        [--classes 90] [--forms post_process plain_nms] [--turns 7] [--runs 10] [--keep NAME]

`--od-api` is the folder that holds the package `object_detection`; its files come from its exporter for
TensorFlow Lite and from TensorFlow's converter, int8 by quantization after training. Ours are as `detflow
export` writes them, int8 of a detector that was rewritten for quantization. Both sides have random weights,
drawn so widely that scores differ, the same input and the same number of detections. LiteRT runs both with
XNNPACK. Files take turns, so that other load falls on all alike. `it / ours` is the median over the turns;
ours is the first of `--forms`.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np

from benchmarks.families import NETWORKS, ROOT, SPREAD, config_text, spread_initializers
from benchmarks.results import add_keep, keep

FORMATS = ("float32", "int8")
DETECTIONS = 100
OURS = "ours,"


def make_ours(text: str, side: int, folder: str, forms: Sequence[str]) -> None:
    """Write our files, named by their forms and formats."""
    from detection_core.artifacts.quantization import QuantizationOptions
    from detection_core.builders.detector import build_detector
    from detection_core.config.check import check_pipeline_config
    from detection_core.config.load import parse_pipeline_config
    from detection_core.detectors.family import TFLiteOutputOptions
    from detection_core.exporters.tflite import Conversion
    from detection_core.exporters.tflite_formats import FORMATS as WRITERS
    from detection_core.families.ssd.tflite import post_process_options, tflite_function
    from detection_core.quantization.rewriting import rewrite

    config = check_pipeline_config(parse_pipeline_config(text))
    model = build_detector(config.model)
    rewritten = rewrite(model, QuantizationOptions(delay=0))
    rewritten.calibrate([noise(side)])
    wanted = TFLiteOutputOptions(max_detections=DETECTIONS, classes_per_detection=1, use_regular_nms=False)
    options = post_process_options(config, wanted)
    for form in forms:
        for name, source in zip(FORMATS, (model, rewritten.model), strict=True):
            function = tflite_function(source, options, integer=WRITERS[name].integer, form=form)
            content = WRITERS[name].convert(Conversion(function=function))
            Path(folder, f"{OURS} {form}_{name}.tflite").write_bytes(content)


def noise(side: int) -> np.ndarray:
    """Return two images, float32 [2, side, side, 3], 0..255."""
    return np.random.default_rng(0).uniform(0, 255, (2, side, side, 3)).astype(np.float32)


def make_reference(text: str, side: int, folder: str, code: str) -> str:
    """Have the reference write its files; return why it did not, else ""."""
    work = {"config": text, "part": "tflite", "side": side, "code": code, "folder": folder}
    done = subprocess.run(
        [sys.executable, f"{ROOT}/benchmarks/od_api_peer.py", json.dumps(work | {"detections": DETECTIONS})],
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "TF_USE_LEGACY_KERAS": "1",
            "PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION": "python",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    return "" if done.returncode == 0 else done.stderr.strip().splitlines()[-1]


Times = dict[tuple[str, str], list[float]]
"""Contender and format to the milliseconds of each turn."""


def time_in_turns(paths: dict[tuple[str, str], str], threads: int, turns: int, runs: int) -> Times:
    """Time each file in each turn."""
    from detection_core.exporters.operator_times import measure_latency

    found: Times = {key: [] for key in paths}
    for _ in range(turns):
        for key, path in paths.items():
            found[key].append(measure_latency(path, threads=threads, runs=runs))
    return found


def ratio(own: list[float], other: list[float]) -> float:
    """Return the median of the quotients of two files' times in the same turns."""
    return round(statistics.median(a / b for a, b in zip(own, other, strict=True)), 3)


def measure(name: str, arguments: argparse.Namespace, folder: str) -> list[dict[str, Any]]:
    """Return the rows of a network."""
    network, side, _ = NETWORKS[name]
    side = arguments.size or side
    changes = spread_initializers(name) | {"num_classes": arguments.classes}
    text = config_text(network, side, changes)
    make_ours(text, side, folder, arguments.forms)
    missing = make_reference(text, side, folder, arguments.od_api)
    contenders = [f"{OURS} {form}" for form in arguments.forms]
    ours, contenders = contenders[0], contenders + ([] if missing else ["Object Detection API"])
    paths = {(who, form): f"{folder}/{who}_{form}.tflite" for who in contenders for form in FORMATS}
    rows: list[dict[str, Any]] = []
    for threads in arguments.threads:
        times = time_in_turns(paths, threads, arguments.turns, arguments.runs)
        for (who, form), path in paths.items():
            rows.append(
                {
                    "network": name,
                    "threads": threads,
                    "": who,
                    "format": form,
                    "MB": round(os.path.getsize(path) / 1e6, 2),
                    "ms": round(statistics.median(times[who, form]), 2),
                    "it / ours": ratio(times[who, form], times[ours, form]),
                    "it / float32": ratio(times[who, form], times[who, "float32"]),
                }
            )
    if missing:
        rows.append({key: "" for key in rows[0]} | {"network": name, "": missing})
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--networks", nargs="+", choices=("ssd_fpnlite", "ssd"), default=list(SPREAD)[:2])
    parser.add_argument("--od-api", default="", help="folder that holds the package object_detection")
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2, 4])
    parser.add_argument("--size", type=int, default=0, help="rows and columns of the input; 0: the networks'")
    parser.add_argument("--classes", type=int, default=90)
    parser.add_argument(
        "--forms", nargs="+", default=["post_process"], help="of our files, see `detflow export`"
    )
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--runs", type=int, default=10, help="inferences of a turn; their median counts")
    add_keep(parser)
    arguments = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for name in arguments.networks:
        with tempfile.TemporaryDirectory() as folder:
            rows += measure(name, arguments, folder)
    for row in rows:
        print(*row.values(), sep="\t")
    keep(arguments.keep, rows)


if __name__ == "__main__":
    main()
