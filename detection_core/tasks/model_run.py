"""The record of a training as a folder: config, checkpoint, logs, history, report."""

from __future__ import annotations

from collections.abc import Mapping

from detection_core.artifacts.detector import PIPELINE_CONFIG
from detection_core.artifacts.model_run import CHECKPOINTS, HISTORY, LOGS, TRAIN_REPORT, VALIDATIONS
from detection_core.artifacts.pictures import FOLDER as PICTURES
from detection_core.config.load import write_as_run
from detection_core.config.pipeline_config import CheckedConfig
from detection_core.storage import files


def write_model_run(
    config: CheckedConfig,
    report: str,
    checkpoint: str,
    work_folder: str,
    model_run_dir: str,
    *,
    tables: Mapping[str, str] | None = None,
) -> None:
    """Write the record of a training, whole or not at all; quantization-aware training has the same.

    Args:
        config: as run.
        report: text of train_report.json.
        checkpoint: prefix of the last checkpoint's files.
        work_folder: has `logs/`, `history.jsonl` and, of a validated training, `validation.jsonl`.
        model_run_dir: folder to make.
        tables: further files to write, name to text.
    """
    with files.atomic_dir(model_run_dir) as folder:
        write_as_run(config, files.join(folder, PIPELINE_CONFIG))
        name = checkpoint.rpartition("/")[2]
        for path in files.glob(f"{files.escape(checkpoint)}.*"):
            files.copy_file(path, files.join(folder, CHECKPOINTS, path.rpartition("/")[2]))
        # TensorFlow's own note of which checkpoint is the latest, so that its tools find it.
        files.write_text(files.join(folder, CHECKPOINTS, "checkpoint"), f'model_checkpoint_path: "{name}"\n')
        files.copy_tree(files.join(work_folder, LOGS), files.join(folder, LOGS))
        if files.is_dir(files.join(work_folder, PICTURES)):
            files.copy_tree(files.join(work_folder, PICTURES), files.join(folder, PICTURES))
        for lines in (HISTORY, VALIDATIONS):
            if files.exists(lines.path(work_folder)):
                files.copy_file(lines.path(work_folder), lines.path(folder))
        for file, text in {TRAIN_REPORT.name: report, **(tables or {})}.items():
            files.write_text(files.join(folder, file), text)
