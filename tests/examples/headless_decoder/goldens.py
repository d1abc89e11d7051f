"""Goldens of the decoders of examples/headless_decoder: what LiteRT and our built-in operations find.

`python -m tests.examples.headless_decoder.goldens` writes them.
"""

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from detection_core.artifacts.tflite_metadata import DECODING as DECODING_FILE
from detection_core.evaluation.tflite_runner import suppressed_heads
from tests.support.tiny_files import DECODING, described, inputs_of, run

FOLDER = Path("examples/headless_decoder")
# Changes of the attributes of TFLite_Detection_PostProcess.
VARIANTS: dict[str, dict[str, Any]] = {
    "one class a box": {},
    "three classes a box": {"max_classes_per_detection": 3, "max_detections": 20},
    "only good ones": {"nms_score_threshold": 0.6, "max_detections": 50},
    "little overlap": {"nms_iou_threshold": 0.2, "max_detections": 50},
    "class by class": {"use_regular_nms": True, "max_detections": 30},
    "few of a class": {"use_regular_nms": True, "detections_per_class": 2},
}


def goldens() -> dict[str, Any]:
    """Return heads of a file, and what is found in them: rows of ymin, xmin, ymax, xmax, score and label."""
    content = described("float32", "headless")
    heads = run(content, inputs_of(content)[0])
    location, score = heads["location"][0], heads["score"][0]
    # The file beside it, whose kernel decodes and suppresses.
    whole = run(described("float32"), inputs_of(content)[0])
    count = int(whole["output_0"][0])
    rows = [whole[name][0, :count] for name in ("output_3", "output_1", "output_2")]
    random = np.random.default_rng(5).normal(-1.0, 1.5, score.shape).astype(np.float32)
    cases = [_case("the file with post-processing", "file", {}, *rows)]
    for name, changes in VARIANTS.items():
        wanted = dataclasses.replace(DECODING.post_process, **changes)
        found = suppressed_heads(location, random, dataclasses.replace(DECODING, post_process=wanted))
        kept = [found[part][: int(found["count"])] for part in ("boxes", "scores", "classes")]
        cases.append(_case(name, "random", changes, *kept))
    return {
        "decoding": DECODING_FILE.encode(DECODING),
        "location": _numbers(location),
        "scores": {"file": _numbers(score), "random": _numbers(random)},
        "cases": cases,
    }


def _case(name: str, score: str, changes: dict[str, Any], *found: np.ndarray) -> dict[str, Any]:
    boxes, scores, labels = found
    rows = [[*box, value, label] for box, value, label in zip(boxes, scores, labels, strict=True)]
    found_rows = [[round(float(value), 6) for value in row] for row in rows]
    return {"name": name, "score": score, "post_process": changes, "found": found_rows}


def _numbers(values: np.ndarray) -> list[float]:
    return [float(f"{value:.9g}") for value in values.ravel()]


if __name__ == "__main__":
    tf.config.set_visible_devices([], "GPU")
    (FOLDER / "goldens.json").write_text(json.dumps(goldens()) + "\n")
