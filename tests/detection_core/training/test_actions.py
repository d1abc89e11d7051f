"""What the actions write."""

import dataclasses
import json

import numpy as np

from detection_core.artifacts.model_run import ValidationLine
from detection_core.detectors.ssd.family import FAMILY
from detection_core.progress import format_progress
from detection_core.training.actions import HistoryFile, LoggedTraining, ProgressLines, reported_at
from detection_core.training.loop_options import StepReport
from tests.support.cases import cases
from tests.support.recording_logger import RecordingLogger

LOSSES = {
    "Loss/classification_loss": 1.22,
    "Loss/localization_loss": 0.61,
    "Loss/regularization_loss": 0.05,
    "Loss/total_loss": 1.88,
}


def report(step, **changes):
    known = {"learning_rate": 0.004, "steps_per_second": 8.4, "images_per_second": 67.2, "data_wait": 0.03}
    known |= {"scalars": {"gradient_norm/global": 3.0}, "memory_bytes": 1_900_000_000}
    return StepReport(**({"step": step, "steps": 40, "losses": LOSSES} | known | changes))


def test_history_lines_have_the_contracts_fields(tmp_path):
    path = tmp_path / "history.jsonl"
    history = HistoryFile(str(path))
    history.start(0)
    history.report(report(10))
    (line,) = (json.loads(text) for text in path.read_text().splitlines())
    assert line.pop("time") > 1e9
    assert line == {
        "step": 10,
        "steps": 40,
        "loss": 1.88,
        "losses": LOSSES,
        "learning_rate": 0.004,
        "steps_per_second": 8.4,
        "images_per_second": 67.2,
        "data_wait": 0.03,
        "skipped_updates": 0,
        "memory_bytes": 1_900_000_000,
        "device_memory_bytes": 0,
    }
    whole = path.read_bytes()
    path.write_bytes(whole + b"\xff\xfe\xc3\n")  # a line that is no text is left out
    assert reported_at(str(path), 10) is not None
    HistoryFile(str(path)).start(10)
    assert path.read_bytes() == whole


def test_a_history_drops_what_a_resumed_training_writes_again_and_finds_what_was_reported(tmp_path):
    path = tmp_path / "history.jsonl"
    path.write_text('{"step": 10}\n{"step": 20}\n{"step": 30}\n{"step": 4')
    history = HistoryFile(str(path))
    history.start(20)
    history.report(report(30))
    assert [json.loads(text)["step"] for text in path.read_text().splitlines()] == [10, 20, 30]
    path.unlink()
    assert reported_at(str(path), 20) is None
    history = HistoryFile(str(path))
    history.start(0)
    for step in (10, 20):
        history.report(report(step))
    known = {"images_per_second": 0.0, "data_wait": 0.0, "memory_bytes": 0}
    assert reported_at(str(path), 20) == dataclasses.replace(report(20), scalars={}, **known)
    assert reported_at(str(path), 30) is None
    path.write_text('{"step": 20}\n{"step": 2')
    assert reported_at(str(path), 20) is None


def test_loggers_are_told_by_the_object_detection_apis_names():
    logger = RecordingLogger()
    logged = LoggedTraining([logger])
    logged.report(report(10))
    logged.validated(ValidationLine(step=10, score=0.5, metrics={"mAP": 0.5, "mAR": None}))
    logged.close()
    expected = LOSSES | {"learning_rate": 0.004, "steps_per_sec": 8.4, "gradient_norm/global": 3.0}
    expected |= {"images_per_sec": 67.2, "data_wait": 0.03, "memory_bytes": 1.9e9}
    assert logger.told == [(expected, 10, "train"), ({"mAP": 0.5, "score": 0.5}, 10, "eval"), "finished"]
    logged.report(report(10, losses=LOSSES | {"Loss/total_loss": float("nan")}))
    assert logger.told[-1][0] == {k: v for k, v in expected.items() if k != "Loss/total_loss"}


def test_loggers_get_what_was_asked_for_and_the_files_at_both_ends(tmp_path):
    config, history = tmp_path / "pipeline.config", tmp_path / "history.jsonl"
    config.write_text("model {}")
    logger = RecordingLogger()
    logged = LoggedTraining([logger], {"batch_size": "8"}, [str(config), str(history)])
    logged.start(0)
    history.write_text("{}\n")
    logged.close()
    given = ("pipeline.config", b"model {}")
    assert logger.told == [{"batch_size": "8"}, given, given, ("history.jsonl", b"{}\n"), "finished"]


def test_loggers_get_the_pictures_of_a_validation():
    logger, shown = RecordingLogger(), {}
    logged = LoggedTraining([logger], pictures=lambda: shown)
    logged.validated(ValidationLine(step=10, score=0.5))
    assert logger.told == [({"score": 0.5}, 10, "eval")]
    shown["validation/0"] = np.zeros([2, 2, 3], np.uint8)
    logged.validated(ValidationLine(step=20, score=0.5))
    assert logger.told[-1] == (["validation/0"], 20, "eval")


@cases((RuntimeError("no"), "failed"), (SystemExit(143), "stopped"), (KeyboardInterrupt(), "stopped"))
def test_loggers_learn_how_a_training_ended(*, error, status):
    logger = RecordingLogger()
    logged = LoggedTraining([logger])
    logged.failed(error)
    logged.close()
    assert logger.told == [status]


def test_progress_shows_the_losses_the_last_score_and_the_memory():
    seen = []
    ProgressLines("quantize", seen.append, FAMILY.loss_names).report(report(20))
    assert format_progress(seen[0]) == (
        "quantize | step 20/40 | 8.4 steps/s | ETA 0:02 | loss 1.88 | class 1.22 | box 0.61"
        " | reg 0.050 | lr 0.0040 | images/s 67.2 | data wait 3% | memory 1.90 GB"
    )
    seen = []
    lines = ProgressLines("train", seen.append)
    lines.validated(ValidationLine(step=10, score=0.7123))
    lines.report(dataclasses.replace(report(20), device_memory_bytes=40_000_000_000))
    assert format_progress(seen[0]).endswith(
        " | score 0.71 | lr 0.0040 | images/s 67.2 | data wait 3% | memory 1.90 GB | GPU memory 40.00 GB"
    )
