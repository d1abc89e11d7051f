"""Latency and size of int8 beside float32, the same detector in the same run.

    python -m benchmarks.tflite [--size 320] [--classes 90] [--runs 30]

The named peer is the float32 file that TensorFlow Lite's own converter writes from the same SavedModel,
run by the same LiteRT with XNNPACK. Weights are random: they do not change the network's work.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np

from detection_core.builders.detector import build_detector
from detection_core.config.load import load_pipeline_config
from detection_core.config.paths.overrides import apply_overrides
from detection_core.detectors.family import TFLiteOutputOptions
from detection_core.detectors.quantization import QuantizationOptions
from detection_core.exporters.operator_times import measure_latency
from detection_core.exporters.tflite import Conversion
from detection_core.exporters.tflite_formats import FORMATS
from detection_core.families.ssd.tflite import post_process_options, tflite_function
from detection_core.quantization.rewriting import rewrite

CONFIG = Path(__file__).parent / "ssd_mobilenet_v2_fpnlite.config"
THREADS = (1, 2)


def make_files(size: int, classes: int, folder: str) -> dict[str, str]:
    """Convert the detector both ways; return format to path."""
    resizer = "model.ssd.image_resizer.fixed_shape_resizer"
    overrides = {f"{resizer}.height": size, f"{resizer}.width": size, "model.ssd.num_classes": classes}
    config = apply_overrides(load_pipeline_config(str(CONFIG)), {k: str(v) for k, v in overrides.items()})
    model = build_detector(config.model)
    rewritten = rewrite(model, QuantizationOptions(delay=0))
    rewritten.calibrate([np.random.default_rng(0).uniform(0, 255, (2, size, size, 3)).astype(np.float32)])
    options = post_process_options(
        config, TFLiteOutputOptions(max_detections=100, classes_per_detection=1, use_regular_nms=False)
    )
    paths = {}
    for name, source in (("float32", model), ("int8", rewritten.model)):
        paths[name] = os.path.join(folder, f"{name}.tflite")
        function = tflite_function(source, options, integer=FORMATS[name].integer)
        Path(paths[name]).write_bytes(FORMATS[name].convert(Conversion(function=function)))
    return paths


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--size", type=int, default=320, help="rows and columns of the input")
    parser.add_argument("--classes", type=int, default=90)
    parser.add_argument("--runs", type=int, default=30)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        paths = make_files(arguments.size, arguments.classes, folder)
        sizes = {name: os.path.getsize(path) for name, path in paths.items()}
        latency = {
            threads: {
                name: measure_latency(path, threads=threads, runs=arguments.runs)
                for name, path in paths.items()
            }
            for threads in THREADS
        }
    size, classes = arguments.size, arguments.classes
    result = {
        "detector": f"ssd_mobilenet_v2_fpnlite {size}x{size}, {classes} classes",
        "size_bytes": sizes,
        "size_ratio_int8_to_float32": round(sizes["int8"] / sizes["float32"], 3),
        "latency_ms": {t: {name: round(ms, 2) for name, ms in row.items()} for t, row in latency.items()},
        "latency_ratio_int8_to_float32": {
            t: round(row["int8"] / row["float32"], 3) for t, row in latency.items()
        },
    }
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
