"""What quantization costs: mAP of each TensorFlow Lite file of trained detectors, beside the float32 one.

Example: `python -m benchmarks.recipe --work build/recipe`, and then
`python -m benchmarks.quantization --work build/quantization --recipe build/recipe`. It goes on where it was
stopped, and takes those of the recipe's plain detectors that are there.

Each detector is trained on for a short while with quantization in its graph, at a low rate. All files are
made of it and of the float detector by the exporter, and measured by its gate as the Evaluator measures, in
LiteRT on the test split, beside the raw heads and the boxes that the gate looks at.
"""

from __future__ import annotations

import argparse
import json
import statistics
from pathlib import Path
from typing import Any

from benchmarks.recipe import MAP, RATE, TASKS, configured, examples_of

STEPS, PEAK_RATE = 300, 0.004
SHORT: dict[str, Any] = {
    "train_config.num_steps": STEPS,
    f"{RATE}.total_steps": STEPS,
    f"{RATE}.learning_rate_base": PEAK_RATE,
    f"{RATE}.warmup_learning_rate": PEAK_RATE / 4,
    f"{RATE}.warmup_steps": STEPS // 10,
    "graph_rewriter.quantization.delay": 0,
}
FORMATS = (
    "float32",
    "float16",
    "dynamic_range",
    "int8_weights",
    "int4_weights",
    "int16x8",
    "int8_post_training",
    "int8",
)
BASE = "float32"


def measure(work: Path, recipe: Path, data: str, seed: int, formats: tuple[str, ...]) -> list[dict[str, Any]]:
    """Return a line of each format of a detector; its training with quantization is done where it is not."""
    import tf_keras

    import detection_core

    tf_keras.backend.clear_session()
    trained = recipe / "trained" / data / "plain" / str(seed) / "model"
    examples, output = examples_of(recipe, data), work / data / str(seed)
    quantized = output / "quantized_model"
    if not quantized.exists():
        config = configured(data, SHORT, seed)
        detection_core.quantize(trained, output=output, examples=examples, config=config)
    options = detection_core.TFLiteExportOptions(
        max_map_drop=1.0, formats=formats, split="test", latency_runs=0
    )
    exported = detection_core.export(
        trained, quantized=quantized, examples=examples, output=output / "exported", options=options
    )
    reference = exported.report.reference
    lines = [_line("SavedModel", reference)]
    for file in exported.report.files:
        heads = file.network.heads if file.network else {}
        boxes = file.boxes.matched if file.boxes else None
        rest = {"quantization": file.quantization, "heads_db": dict(heads), "boxes": boxes}
        lines.append({**_line(file.format, file.metrics), **rest, "bytes": file.size_bytes})
    return [{"data": data, "seed": seed, **line} for line in lines]


def _line(name: str, metrics: Any) -> dict[str, Any]:
    return {"format": name, "mAP": metrics[MAP], "mAP@.50": metrics[f"{MAP}@.50IOU"]}


def table(lines: list[dict[str, Any]]) -> str:
    """Return Markdown: what each format loses against the float32 file of its seed, in points of 100."""
    out = []
    for data in TASKS:
        found: dict[str, dict[int, dict[str, Any]]] = {}
        for line in lines:
            if line["data"] == data:
                found.setdefault(line["format"], {})[line["seed"]] = line
        base = found.get(BASE, {})
        if base:
            out += [
                f"\n| {data} | mAP of each seed | loss | mAP@.50 | its loss | least head, dB | boxes found |",
                "| --- | --- | --- | --- | --- | --- | --- |",
            ]
            out += [_row(name, by_seed, base) for name, by_seed in found.items()]
    return "\n".join(out)


def _row(name: str, by_seed: dict[int, dict[str, Any]], base: dict[int, dict[str, Any]]) -> str:
    seeds = sorted(by_seed.keys() & base.keys())
    lost = {
        key: [100 * (base[seed][key] - by_seed[seed][key]) for seed in seeds] for key in ("mAP", "mAP@.50")
    }
    heads = [db for seed in seeds for db in by_seed[seed].get("heads_db", {}).values()]
    boxes = [by_seed[seed]["boxes"] for seed in seeds if by_seed[seed].get("boxes") is not None]
    cells = [
        name,
        " ".join(f"{100 * by_seed[seed]['mAP']:.1f}" for seed in seeds),
        "" if name == BASE else _spread(lost["mAP"]),
        f"{statistics.fmean(100 * by_seed[seed]['mAP@.50'] for seed in seeds):.1f}",
        "" if name == BASE else _spread(lost["mAP@.50"]),
        f"{min(heads):.1f}" if heads else "",
        f"{min(boxes):.3f}" if boxes else "",
    ]
    return f"| {' | '.join(cells)} |"


def _spread(values: list[float]) -> str:
    return f"{statistics.fmean(values):.2f} ({min(values):.2f} to {max(values):.2f})"


def main() -> None:
    """Measure what has not been measured, and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--work", type=Path, required=True, help="folder that is gone on with")
    parser.add_argument("--recipe", type=Path, required=True, help="folder of benchmarks.recipe")
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=TASKS, help="those of benchmarks.recipe")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--formats", nargs="+", default=FORMATS, help="of files")
    parser.add_argument("--threads", type=int, default=0, help="of TensorFlow; 0: all")
    arguments = parser.parse_args()
    import tensorflow as tf

    if arguments.threads:
        tf.config.threading.set_intra_op_parallelism_threads(arguments.threads)
        tf.config.threading.set_inter_op_parallelism_threads(arguments.threads)
    arguments.work.mkdir(parents=True, exist_ok=True)
    results = arguments.work / "results.jsonl"
    lines = [json.loads(line) for line in results.open()] if results.exists() else []
    done = {(line["data"], line["seed"], line["format"]) for line in lines}
    for data in arguments.tasks:
        for seed in range(1, arguments.seeds + 1):
            missing = tuple(name for name in arguments.formats if (data, seed, name) not in done)
            trained = arguments.recipe / "trained" / data / "plain" / str(seed) / "model"
            if not missing or not trained.exists():
                continue
            new = measure(arguments.work, arguments.recipe, data, seed, missing)
            lines += new
            with results.open("a") as file:
                file.writelines(json.dumps(line) + "\n" for line in new)
            print(table(lines), flush=True)
    print(table(lines))


if __name__ == "__main__":
    main()
