"""The artifacts of a run as its steps leave them, made without running them.

Run as a module to look at a report: `python -m tests.support.fixture_run FOLDER`.
"""

import json
import math
import sys
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

from detection_core.artifacts.blessing import write_blessing
from detection_core.artifacts.evaluation import CURVES, MAP, MAP_50, METRICS, EvalReport, finite
from detection_core.artifacts.run_info import RunInfo
from detection_core.evaluation.curves import make_curves
from detection_core.evaluation.drawing import text_font
from detection_core.evaluation.evaluated_split import EvaluatedSplit
from detection_core.evaluation.pictures import plan_pictures, write_pictures
from detection_core.evaluation.results import EvaluatedImage
from detection_core.evaluation.thresholds import judge, parse_thresholds, reasons_of
from tests.support.evaluated_images import make_detections, make_truth
from tests.support.run_records import record, step

NAMES = dict(enumerate(["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]))


def _scene(rng, number):
    """A page with scattered digits, and where they are."""
    width, height = int(rng.integers(220, 420)), int(rng.integers(200, 360))
    base = rng.integers(60, 235, 3)
    noise = rng.normal(0, 18, (height, width, 1)) + base + np.linspace(-25, 25, width)[None, :, None]
    picture = Image.fromarray(np.clip(noise, 0, 255).astype(np.uint8)).filter(ImageFilter.GaussianBlur(0.8))
    draw = ImageDraw.Draw(picture)
    boxes, labels = [], []
    for _ in range(0 if number % 9 == 4 else int(rng.integers(2, 8))):
        label, size = int(rng.integers(0, 10)), int(rng.integers(24, 90))
        font = text_font(size)
        left, top, right, bottom = draw.textbbox((0, 0), str(label), font=font)
        x, y = rng.integers(0, width - right), rng.integers(0, height - bottom)
        draw.text((x, y), str(label), font=font, fill=tuple(int(255 - c) for c in base))
        boxes.append([(y + top) / height, (x + left) / width, (y + bottom) / height, (x + right) / width])
        labels.append(label)
    truth = make_truth(boxes, labels, height=height, width=width, source_id=f"scenes/{number:06d}.jpg")
    return np.asarray(picture), truth


def _found(rng, truth, noise):
    """Detections of a detector that is mostly right."""
    boxes, scores, labels = [], [], []
    for box, label in zip(truth.boxes, truth.classes, strict=True):
        if rng.random() < 0.93:
            boxes.append(box + rng.normal(0, noise, 4) * (box[2] - box[0]))
            labels.append(int(label) if rng.random() < 0.92 else int(rng.integers(0, 10)))
            scores.append(float(np.clip(rng.normal(0.85, 0.12), 0.05, 1)))
    for _ in range(int(rng.integers(0, 4))):
        low = rng.uniform(0, 0.8, 2)
        boxes.append([*low, *(low + rng.uniform(0.05, 0.2, 2))])
        labels.append(int(rng.integers(0, 10)))
        scores.append(float(rng.uniform(0.02, 0.6) ** 1.5))
    return make_detections(np.clip(np.array(boxes).reshape(-1, 4), 0, 1), scores, labels, truth.source_id)


def write_evaluation(step, scenes, noise, thresholds, baseline):
    """What Evaluator leaves, from real matching of made-up detections."""
    folder = step / "evaluation"
    rng = np.random.default_rng(int(noise * 1000))
    images = tuple(EvaluatedImage(truth=t, detections=_found(rng, t, noise)) for _, t in scenes)
    split = EvaluatedSplit(images=images, class_names=NAMES, pixels=lambda: scenes)
    metrics = split.coco.metrics(per_category=True)
    verdicts = judge(parse_thresholds(thresholds, metrics), metrics, baseline)
    judged = {"thresholds": verdicts, "blessed": all(v.passed for v in verdicts)}
    judged |= {"reasons": reasons_of(verdicts), "baseline": baseline}
    measured = {"split": "test", "images": len(images), "metrics": finite(metrics)}
    report = EvalReport(**measured, **judged, seconds_per_image=0.031)
    plan = plan_pictures(split, 12, split.best_score)
    folder.mkdir(parents=True)
    write_pictures(plan, split, str(folder / "pictures"))
    METRICS.write(str(folder), report)
    CURVES.write(str(folder), make_curves(split, split.best_score))
    write_blessing(str(step / "blessing"), report.blessed, report.reasons)
    return metrics


def write_training(folder, steps, rate, start, **more):
    """What Trainer and QuantizationRewriter leave of a training."""
    folder.mkdir(parents=True)
    rng = np.random.default_rng(steps)
    lines = []
    for number in range(10, steps + 1, 10):
        part = 0.12 + start * math.exp(-5 * number / steps) * rng.uniform(0.9, 1.1)
        losses = {"classification": 0.6 * part, "localization": 0.35 * part, "regularization": 0.05}
        losses["total"] = sum(losses.values())
        now = rate * min(1, number / 100) * 0.5 * (1 + math.cos(math.pi * number / steps))
        line = {"step": number, "steps": steps, "loss": losses["total"], "learning_rate": now}
        line["losses"] = {f"Loss/{name}_loss": value for name, value in losses.items()}
        lines.append({**line, "steps_per_second": 8.1, "time": 1.0})
    (folder / "history.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    report = {"steps": steps, "seconds": steps / 8.1, "steps_per_second": 8.1, "parameters": 2_451_770}
    report |= {"peak_memory_bytes": 1_870_000_000, "started_from": "random weights", **more}
    (folder / "train_report.json").write_text(json.dumps(report))
    (folder / "pipeline.config").write_text("model {\n  ssd {\n    num_classes: 10\n  }\n}\n")


def _write_examples(folder):
    folder.mkdir(parents=True)
    rng = np.random.default_rng(3)
    splits = {}
    for name, images in {"train": 600, "eval": 100, "test": 100}.items():
        areas = {"small": 310, "medium": 2100, "large": 420}
        splits[name] = {"images": images, "empty_images": images // 9, "objects": images * 5, "crowd": 0}
        splits[name] |= {"box_areas_px": areas, "quarantined": {"inverted_box": 2} if name == "train" else {}}
    classes = [{"id": c + 1, "name": n, "objects": int(rng.integers(300, 480))} for c, n in NAMES.items()]
    card = {"format": "coco", "classes": classes, "splits": splits, "images_in_two_splits": 0}
    card["quarantine"] = {"records": 2, "fraction": 2 / 802, "reasons": {"inverted_box": 2}}
    (folder / "dataset_card.json").write_text(json.dumps(card))
    row = {"split": "train", "file": "train.json", "reason": "inverted_box"}
    row["detail"] = "expected xmin < xmax, found <310 and 298>"
    rows = [json.dumps({**row, "record": f"image {i}"}) for i in (17, 402)]
    (folder / "quarantine.jsonl").write_text("\n".join(rows) + "\n")


def _write_quantization(folder):
    folder.mkdir(parents=True)
    quantized = [{"layer": f"conv_{i}", "kind": "convolution"} for i in range(61)]
    quantized += [{"layer": f"add_{i}", "kind": "addition"} for i in range(12)]
    coverage = {"convolutions": 61, "weights": 1000, "fraction": 1.0}
    coverage |= {"quantized_convolutions": 61, "quantized_weights": 1000}
    left = {"layer": "box decoding and suppression", "reason": "runs in float after the network"}
    settings = {"delay": 50, "weight_bits": 8, "activation_bits": 8, "symmetric": False}
    record = {"settings": settings, "quantized": quantized, "not_quantized": [left], "coverage": coverage}
    (folder / "quantization.json").write_text(json.dumps(record))


def _write_parity(folder, metrics):
    folder.mkdir(parents=True)
    entries = []
    for name, drop, size, speed in (("float32", 0.0002, 9_830_112, 21.3), ("int8", 0.0061, 3_104_880, 12.9)):
        entry = {"file": f"model_{name}.tflite", "format": name, "quantization": "aware", "drop": drop}
        entry |= {"max_drop": 0.02, "size_bytes": size, "latency_ms": {"1": speed, "2": speed / 1.7}}
        boxes = {"detections": 431, "undecided": 7, "matched": 0.981, "least_matched": 0.5}
        entry |= {"drop_interval": [drop - 0.0112, drop + 0.0231], "boxes": boxes}
        layers = [{"layer": f"tower_{n}", "operation": "CONV_2D", "db": 41.5 - n} for n in range(12)]
        entry["network"] = {"images": 4, "least_db": 10.0, "heads": {"box_codes": 30.5}, "layers": layers}
        entry |= {"passed": True, "metrics": {k: v - drop if v > 0 else v for k, v in metrics.items()}}
        entries.append(entry)
    entries[0]["quantization"] = "none"
    parity = {"split": "test", "images": 100, "reference": metrics, "files": entries, "blessed": True}
    (folder / "parity.json").write_text(json.dumps({**parity, "reasons": ["every file is within its bound"]}))


def write_run(root: Path, images: int = 40) -> RunInfo:
    """Write the artifacts of a finished run with a quantized branch below `root`."""
    rng = np.random.default_rng(7)
    scenes = [_scene(rng, i) for i in range(images)]
    art = root / "artifacts"
    _write_examples(art / "example_gen" / "examples")
    write_training(art / "trainer" / "model_run", 1500, 0.08, 2.2)
    baseline = {MAP: 0.552, MAP_50: 0.871}
    thresholds = {MAP_50: {"lower_bound": 0.7, "min_change": -0.2}, MAP: {"upper_bound": 1.0}}
    metrics = write_evaluation(art / "evaluator", scenes, 0.05, thresholds, baseline)
    write_training(art / "quantization_rewriter" / "quantized_run", 150, 0.004, 0.2, quantized_steps=120)
    _write_quantization(art / "quantization_rewriter" / "quantization")
    write_evaluation(art / "quantized_evaluator", scenes, 0.055, {MAP_50: {"min_change": -0.02}}, metrics)
    _write_parity(art / "tflite_exporter" / "parity", metrics)
    (art / "pusher" / "pushed_model").mkdir(parents=True)
    pushed = {"pushed": True, "version": 3, "reasons": ["every gate blessed it"]}
    (art / "pusher" / "pushed_model" / "pushed.json").write_text(json.dumps(pushed))
    table = [
        ("example_gen", 0.0, ["examples"]),
        ("baseline_resolver", 0.2, ["baseline"]),
        ("trainer", 312.4, ["model", "model_run"]),
        ("evaluator", 14.7, ["evaluation", "blessing"]),
        ("quantization_rewriter", 121.0, ["quantized_model", "quantized_run", "quantization"]),
        ("quantized_evaluator", 15.2, ["evaluation", "blessing"]),
        ("tflite_exporter", 48.3, ["tflite", "parity", "blessing"]),
        ("pusher", 0.9, ["pushed_model"]),
    ]
    began = "2026-11-20T22:00:00+00:00"
    steps = []
    for id_, seconds, names in table:
        made = {"outputs": {name: str(art / id_ / name) for name in names}, "started": began}
        state = "executed" if seconds else "cached"
        steps.append(step(id_.removeprefix("quantized_"), state, id=id_, seconds=seconds, **made))
    fields = {"run_id": "20261120-220000-1a2b", "pipeline_name": "digits", "workspace": str(root)}
    fields |= {"settings_text": "name: digits\nworkspace: build\ndata:\n  path: scenes\n"}
    return record(*steps, started=began, finished="2026-11-20T22:08:41+00:00", **fields)


if __name__ == "__main__":
    from pipeline.report.writer import write_report

    target = Path(sys.argv[1])
    write_report(write_run(target), str(target / "report.html"))
