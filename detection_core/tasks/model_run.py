"""The record of a training as a folder: config, checkpoint, logs, history, report."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from detection_core.config.load import write_as_run
from detection_core.config.pipeline_config import PipelineConfig
from detection_core.storage import files


def write_model_run(
    config: PipelineConfig,
    report: Any,
    checkpoint: str,
    work_folder: str,
    model_run_dir: str,
    *,
    tables: Mapping[str, str] | None = None,
) -> None:
    """Write the record of a training, whole or not at all; quantization-aware training has the same.

    Args:
        config: as run.
        report: a dataclass of plain values, written as `train_report.json`.
        checkpoint: prefix of the last checkpoint's files.
        work_folder: has `logs/` and `history.jsonl`.
        model_run_dir: folder to make.
        tables: further files to write, name to text.
    """
    with files.atomic_dir(model_run_dir) as folder:
        write_as_run(config, files.join(folder, "pipeline.config"))
        name = checkpoint.rpartition("/")[2]
        for path in files.glob(f"{files.escape(checkpoint)}.*"):
            files.copy_file(path, files.join(folder, "checkpoint", path.rpartition("/")[2]))
        # TensorFlow's own note of which checkpoint is the latest, so that its tools find it.
        files.write_text(files.join(folder, "checkpoint", "checkpoint"), f'model_checkpoint_path: "{name}"\n')
        files.copy_tree(files.join(work_folder, "logs"), files.join(folder, "logs"))
        files.copy_file(files.join(work_folder, "history.jsonl"), files.join(folder, "history.jsonl"))
        report_text = json.dumps(dataclasses.asdict(report), indent=2) + "\n"
        for file, text in {"train_report.json": report_text, **(tables or {})}.items():
            files.write_text(files.join(folder, file), text)
