"""What the page says beside the detectors' quality: steps, training, data, quantization, files, push."""

from __future__ import annotations

from typing import Any

from pipeline.local.run_record import RunRecord
from pipeline.report.artifacts import RunArtifacts, read_json, read_lines, read_text
from pipeline.report.charts import ChartOptions, Line, line_chart
from pipeline.report.formats import seconds_between

TRAININGS = {
    "trainer": ("Training", "model_run"),
    "quantization_rewriter": ("Quantization-aware training", "quantized_run"),
}
_TOTAL_LOSS = "Loss/total_loss"
_QUARANTINE_ROWS = 50


def steps(record: RunRecord) -> dict[str, Any]:
    """Return the steps with their share of the longest, and how long everything took."""
    longest = max((s.seconds for s in record.steps), default=0.0) or 1.0
    rows = [
        {
            "id": s.id,
            "state": s.state,
            "seconds": s.seconds,
            "share": round(100 * s.seconds / longest),
            "error": s.error,
            "outputs": s.outputs,
        }
        for s in record.steps
    ]
    states = [s.state for s in record.steps]
    return {
        "rows": rows,
        "seconds": seconds_between(record.started, record.finished) or sum(s.seconds for s in record.steps),
        "executed": states.count("executed"),
        "cached": states.count("cached"),
        "failed": states.count("failed"),
    }


def trainings(artifacts: RunArtifacts) -> list[dict[str, Any]]:
    """Return the loss and learning-rate curves of every training of the run."""
    found = []
    for component, (title, output) in TRAININGS.items():
        folder = artifacts.folder(component, output)
        history = [line for line in read_lines(folder, "history.jsonl") if "step" in line and "loss" in line]
        report = read_json(folder, "train_report.json")
        if history or report:
            found.append(
                {
                    "title": title,
                    "report": report or {},
                    "loss_chart": _loss_chart(history, title) if history else "",
                    "rate_chart": _rate_chart(history, title) if history else "",
                    "last": history[-1] if history else {},
                    "config": read_text(folder, "pipeline.config") or "",
                }
            )
    return found


def _loss_chart(history: list[dict[str, Any]], title: str) -> str:
    steps_ = [line["step"] for line in history]
    lines = [Line(label="total", x=steps_, y=[line["loss"] for line in history], series=0, thick=True)]
    names = sorted({name for line in history for name in line.get("losses", {})} - {_TOTAL_LOSS})
    for i, name in enumerate(names, start=1):
        words = name.removeprefix("Loss/").removesuffix("_loss").replace("_", " ")
        values = [line.get("losses", {}).get(name) for line in history]
        if all(isinstance(v, int | float) for v in values):
            lines.append(Line(label=words, x=steps_, y=values, series=i))
    positive = [v for line in lines for v in line.y if v > 0]
    wide = bool(positive) and max(positive) > 30 * min(positive)
    return line_chart(lines, ChartOptions(title=f"{title}: loss", x_label="step", y_label="loss", log_y=wide))


def _rate_chart(history: list[dict[str, Any]], title: str) -> str:
    known = [line for line in history if isinstance(line.get("learning_rate"), int | float)]
    if not known:
        return ""
    line = Line(
        label="learning rate", x=[h["step"] for h in known], y=[h["learning_rate"] for h in known], series=4
    )
    return line_chart(
        [line], ChartOptions(title=f"{title}: learning rate", x_label="step", y_label="learning rate")
    )


def dataset(artifacts: RunArtifacts) -> dict[str, Any] | None:
    """Return the dataset card and the records in quarantine."""
    folder = artifacts.folder("example_gen", "examples")
    card = read_json(folder, "dataset_card.json")
    if card is None:
        return None
    quarantined = read_lines(folder, "quarantine.jsonl")
    classes = card.get("classes", [])
    return {
        "card": card,
        "splits": card.get("splits", {}),
        "classes": classes,
        "most_objects": max((c["objects"] for c in classes), default=0) or 1,
        "quarantined": quarantined[:_QUARANTINE_ROWS],
        "quarantined_more": max(0, len(quarantined) - _QUARANTINE_ROWS),
        "quarantine": card.get("quarantine", {}),
        "folder": folder,
    }


def quantization(artifacts: RunArtifacts) -> dict[str, Any] | None:
    """Return which layers are quantized and which are not."""
    found = artifacts.json_of("quantization_rewriter", "quantization", "quantization.json")
    if found is None:
        return None
    coverage = found.get("coverage")
    if not isinstance(coverage, dict):
        coverage = {"fraction": coverage}
    kinds: dict[str, int] = {}
    for layer in found.get("quantized", []):
        kinds[str(layer.get("kind", "layer"))] = kinds.get(str(layer.get("kind", "layer")), 0) + 1
    return {
        "settings": found.get("settings", {}),
        "coverage": coverage,
        "kinds": kinds,
        "quantized": len(found.get("quantized", [])),
        "not_quantized": found.get("not_quantized", []),
    }
