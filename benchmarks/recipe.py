"""What each part of the training recipe gains or costs: mAP of the test split, beside a training without it.

Example: `python -m benchmarks.recipe --work build/recipe --bccd bccd`, where bccd is a Pascal VOC folder. It
goes on where it was stopped; `--digits build/digits/scenes` takes scenes that `make demo` has composed, and
`--shard 0/3` trains the first of three seeds alone. What `recipe_results.jsonl` holds was measured before and
is taken as it is; `--afresh` measures it again.

The detector is that of the digits' example, small and from random weights, the schedule short, and both the
same in all rows. Rows of a data set differ in one part of the recipe; each is trained with every seed.
`--tasks bccd-large` trains a network of full width at 192 x 256, plainly, for `benchmarks.quantization`.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

DIGITS = Path("examples/digits")
MEASURED = Path(__file__).with_name("recipe_results.jsonl")
STEPS, BATCH = 1000, 8
RATE = "train_config.optimizer.momentum_optimizer.learning_rate.cosine_decay_learning_rate"
MAP = "DetectionBoxes_Precision/mAP"
SSD = "model.ssd"
FLIPS: tuple[dict[str, Any], ...] = ({"random_horizontal_flip": {}}, {"random_vertical_flip": {}})
COMMON: dict[str, Any] = {
    "train_config.num_steps": STEPS,
    "train_config.batch_size": BATCH,
    "train_config.max_number_of_boxes": 60,
    "eval_config.include_metrics_per_category": True,
    f"{RATE}.total_steps": STEPS,
    f"{RATE}.learning_rate_base": 0.04,
}


@dataclasses.dataclass(frozen=True)
class Task:
    """What is trained.

    Attributes:
        data: the data set.
        shape: (height, width) of the network's input.
        classes: of the data set.
        overrides: of the digits' config, in all rows.
        steps: of augmentation, in all rows.
    """

    data: str
    shape: tuple[int, int]
    classes: int
    overrides: dict[str, Any] = dataclasses.field(default_factory=dict)
    steps: tuple[dict[str, Any], ...] = ()


FULL_WIDTH: dict[str, Any] = {
    f"{SSD}.feature_extractor.depth_multiplier": 1.0,
    f"{SSD}.feature_extractor.fpn.additional_layer_depth": 128,
    f"{SSD}.box_predictor.weight_shared_convolutional_box_predictor.depth": 128,
}
LARGE = "bccd-large"
TASKS = {
    "digits": Task("digits", (128, 128), 10),
    "bccd": Task("bccd", (144, 192), 3, {}, FLIPS),
    LARGE: Task("bccd", (192, 256), 3, FULL_WIDTH, FLIPS),
}


def recipes(data: str) -> dict[str, dict[str, Any]]:
    """Return name to overrides of each row of a task; "plain" comes first."""
    if data == LARGE:
        return {"plain": {}}
    height, width = TASKS[data].shape
    frame = {"height": height, "width": width}
    # The rows' own steps come last, after those of all rows.
    mosaic = {"mosaic": {**frame, "fit": "KEEP_ASPECT_RATIO", "probability": 0.5}}
    closing = {"train_config.close_mosaic_steps": STEPS // 5}
    average = {
        "train_config.optimizer.use_moving_average": True,
        "train_config.optimizer.moving_average_decay": 0.998,
        "train_config.optimizer.moving_average_from_weights": True,
        "eval_config.use_moving_averages": True,
    }
    jitter = {"large_scale_jitter": {**frame, "scale_min": 0.5, "scale_max": 1.5}}
    rows: dict[str, dict[str, Any]] = {
        "plain": {},
        "mosaic, closed for the last fifth": {**closing, "steps": [mosaic]},
        "mixup": {**closing, "steps": [{"mixup": {"probability": 0.5}}]},
        "copy-paste": {**closing, "steps": [{"copy_paste": {"probability": 0.5}}]},
        "large-scale jitter, 0.5 to 1.5": {"steps": [jitter]},
        "multi-scale, 0.75 to 1.25": {"train_config.multi_scale": {}},
        "moving average of the weights": average,
        "precision BFLOAT16": {"train_config.precision": "BFLOAT16"},
    }
    if data == "bccd":
        start = {"warm_start": "digits"}
        rows |= {
            "repeat factors, threshold 0.9": {"train_input_reader.repeat_factor_threshold": 0.9},
            "class weights, power 0.5": {"train_config.class_weight_power": 0.5},
            "class weights, power 1": {"train_config.class_weight_power": 1.0},
            "from the digits' weights": start,
            "the same, two stages frozen": {**start, "train_config.freeze_backbone_stages": 2},
            "the same, rates falling by 0.8 a stage": {**start, "train_config.backbone_rate_decay": 0.8},
        }
    return rows


def configured(data: str, row: dict[str, Any], seed: int) -> Any:
    """Return the config of a row."""
    from google.protobuf import json_format

    import detection_core

    settings = {key: value for key, value in row.items() if "." in key}
    task = TASKS[data]
    size = f"{SSD}.image_resizer.fixed_shape_resizer"
    overrides: dict[str, Any] = {
        **COMMON,
        f"{size}.height": task.shape[0],
        f"{size}.width": task.shape[1],
        f"{SSD}.num_classes": task.classes,
        **task.overrides,
        "train_config.seed": seed,
        **settings,
    }
    config = detection_core.load_config(DIGITS / "pipeline.config", overrides)
    for step in [*task.steps, *row.get("steps", [])]:
        json_format.ParseDict(step, config.train_config.data_augmentation_options.add())
    return config


def make_examples(work: Path, data: str, source: Path) -> Path:
    """Return the examples of a data set, made where there are none."""
    from component_specs import ExampleGenJob
    from components.example_gen.run import run

    folder = examples_of(work, data)
    coco = {s: {"annotations": f"{s}.json", "images": f"images/{s}"} for s in ("train", "eval", "test")}
    sets = {"train": "trainval", "test": "test"}
    voc = {split: f"ImageSets/Main/{name}.txt" for split, name in sets.items()}
    if not folder.exists():
        splits: Any = coco if data == "digits" else voc
        run(ExampleGenJob(examples=str(folder), data_path=str(source.resolve()), splits=splits))
    return folder


def examples_of(work: Path, data: str) -> Path:
    """Return the folder of the examples of a task."""
    return work / f"{TASKS[data].data}-examples"


def measure(work: Path, data: str, name: str, row: dict[str, Any], seed: int) -> dict[str, Any]:
    """Train a row with one seed; return its metrics."""
    import tf_keras

    import detection_core
    from detection_core.artifacts.evaluation import category_metric

    tf_keras.backend.clear_session()
    output = work / "trained" / data / name.replace(" ", "-").replace(",", "") / str(seed)
    examples = examples_of(work, data)
    start = None
    if "warm_start" in row:
        start = work / "trained" / row["warm_start"] / "plain" / str(seed) / "model"
        if not start.exists():
            measure(work, row["warm_start"], "plain", {}, seed)
    began, cpu = time.monotonic(), time.process_time()
    trained = detection_core.train(
        configured(data, row, seed), output=output, examples=examples, warm_start=start, log_every=200
    )
    cpu, seconds = time.process_time() - cpu, time.monotonic() - began
    options = detection_core.EvaluateOptions(split="test")
    metrics = detection_core.evaluate(trained, examples=examples, options=options).metrics
    shutil.rmtree(output / "work", ignore_errors=True)
    by_class = category_metric("")
    classes = {name.removeprefix(by_class): ap for name, ap in metrics.items() if name.startswith(by_class)}
    found = {"mAP": metrics[MAP], "mAP@.50": metrics[f"{MAP}@.50IOU"], "classes": classes}
    return {
        "steps": STEPS,
        "data": data,
        "row": name,
        "seed": seed,
        **found,
        "cpu_s": round(cpu, 1),
        "seconds": round(seconds, 1),
    }


def table(lines: list[dict[str, Any]]) -> str:
    """Return Markdown: the mean of each row over the seeds, and how far it is from the plain training."""
    out = []
    for data in TASKS:
        found: dict[str, dict[int, dict[str, Any]]] = {}
        for line in lines:
            if line["data"] == data:
                found.setdefault(line["row"], {})[line["seed"]] = line
        plain = found.get("plain", {})
        if plain:
            out += [
                f"\n| {data} | mAP | seeds | gain | mAP@.50 | CPU time |",
                "| --- | --- | --- | --- | --- | --- |",
            ]
        for name, seeds in found.items():
            both = sorted(seeds.keys() & plain.keys())
            if not both:
                continue
            values = [100 * seeds[seed]["mAP"] for seed in both]
            gains = [value - 100 * plain[seed]["mAP"] for value, seed in zip(values, both, strict=True)]
            half = statistics.fmean(100 * seeds[seed]["mAP@.50"] for seed in both)
            # One that went on after a stop tells the time of its rest alone; the median leaves it out.
            cost = statistics.median(seeds[s]["cpu_s"] / plain[s]["cpu_s"] for s in both)
            each = " ".join(f"{value:.1f}" for value in values)
            gain = (
                ""
                if name == "plain"
                else f"{statistics.fmean(gains):+.1f} ({min(gains):+.1f} to {max(gains):+.1f})"
            )
            out.append(
                f"| {name} | {statistics.fmean(values):.1f} | {each} | {gain} | {half:.1f} | {cost:.2f} |"
            )
    return "\n".join(out)


def main() -> None:
    """Train what has not been trained, and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--work", type=Path, required=True, help="folder that is gone on with")
    parser.add_argument("--digits", type=Path, help="scenes; composed where none are given")
    parser.add_argument("--bccd", type=Path, help="Pascal VOC folder; the digits alone where none is given")
    parser.add_argument("--tasks", nargs="+", choices=TASKS, help="all but the large network")
    parser.add_argument("--rows", nargs="+", metavar="NAME", help="all")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--shard", default="0/1", help="which seeds: I/N, every Nth from the Ith")
    parser.add_argument("--afresh", action="store_true", help="leave out what was measured elsewhere")
    parser.add_argument("--threads", type=int, default=0, help="of TensorFlow; 0: all")
    arguments = parser.parse_args()
    tasks = arguments.tasks or ["digits", *(["bccd"] if arguments.bccd else [])]
    if not arguments.bccd and any(TASKS[name].data == "bccd" for name in tasks):
        parser.error("--tasks bccd and bccd-large need --bccd FOLDER")
    import tensorflow as tf

    if arguments.threads:
        tf.config.threading.set_intra_op_parallelism_threads(arguments.threads)
        tf.config.threading.set_inter_op_parallelism_threads(arguments.threads)
    arguments.work.mkdir(parents=True, exist_ok=True)
    scenes = arguments.digits or arguments.work / "scenes"
    if not scenes.exists():
        subprocess.run([sys.executable, str(DIGITS / "compose.py"), str(scenes)], check=True)
    sources = {"digits": scenes, **({"bccd": arguments.bccd} if arguments.bccd else {})}
    places = [*([] if arguments.afresh else [MEASURED]), *sorted(arguments.work.glob("results*.jsonl"))]
    found = (json.loads(line) for path in places for line in path.open())
    lines = [line for line in found if line.get("steps") == STEPS]
    done = {(line["data"], line["row"], line["seed"]) for line in lines}
    for data, source in sources.items():
        make_examples(arguments.work, data, source)
    shard, shards = map(int, arguments.shard.split("/"))
    for seed in range(1 + shard, arguments.seeds + 1, shards):
        for data in tasks:
            for name, row in recipes(data).items():
                if (data, name, seed) in done or name not in (arguments.rows or [name]):
                    continue
                lines.append(measure(arguments.work, data, name, row, seed))
                print(json.dumps(lines[-1]), flush=True)
                with (arguments.work / f"results-{shard}.jsonl").open("a") as file:
                    file.write(json.dumps(lines[-1]) + "\n")
    print(table(lines))


if __name__ == "__main__":
    main()
