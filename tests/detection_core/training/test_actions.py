"""What a run says and does on its way."""

import dataclasses
import itertools
import json
import math
import os
import signal
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from detection_core.artifacts.model_run import ValidationLine
from detection_core.artifacts.pictures import list_pictures
from detection_core.families.ssd.family import FAMILY
from detection_core.progress import format_progress
from detection_core.training import stop_signal
from detection_core.training.actions import (
    DataWait,
    HistoryFile,
    LoggedTraining,
    ProfileOptions,
    ProfilerTrace,
    ProgressLines,
    rates,
    reported_at,
)
from detection_core.training.distribution import Reproducibility
from detection_core.training.loop_options import StepReport, TrainOptions
from detection_core.training.stop_signal import StopSignal
from detection_core.training.validation import MOST_STEPS, PictureFiles, ValidationPicture, step_of
from tests.support.cases import cases
from tests.support.recording_logger import RecordingLogger

PARTS = {"classification": 1.22, "localization": 0.61, "regularization": 0.05, "total": 1.88}
LOSSES = {f"Loss/{part}_loss": value for part, value in PARTS.items()}


def report(step, **changes):
    known = {"learning_rate": 0.004, "steps_per_second": 8.4, "images_per_second": 67.2, "data_wait": 0.03}
    known |= {"scalars": {"gradient_norm/global": 3.0}, "memory_bytes": 1_900_000_000}
    return StepReport(**({"step": step, "steps": 40, "losses": LOSSES} | known | changes))


def test_memory_of_a_device_is_a_rate_where_there_is_one():
    assert "device_memory_bytes" not in rates(report(10))
    assert rates(report(10, device_memory_bytes=7))["device_memory_bytes"] == 7.0


def test_a_trace_that_cannot_be_written_is_lost_and_the_training_goes_on(tmp_path, monkeypatch, caplog):
    trace = ProfilerTrace(ProfileOptions(first_step=2, steps=1), str(tmp_path))
    monkeypatch.setattr(tf.profiler.experimental, "start", lambda folder: None)
    trace.start(0)
    trace.reached(2)

    def stop():
        raise OSError("the disk is full")

    monkeypatch.setattr(tf.profiler.experimental, "stop", stop)
    trace.reached(3)
    assert "the trace is lost: the disk is full" in caplog.text and trace.steps_until_due(3) == math.inf


def test_history_lines_have_the_contracts_fields(tmp_path):
    path = tmp_path / "history.jsonl"
    history = HistoryFile(str(path))
    history.start(0)
    history.report(report(10))
    (line,) = (json.loads(text) for text in path.read_text().splitlines())
    assert line.pop("time") > 1e9
    expected = {"step": 10, "steps": 40, "loss": 1.88, "losses": LOSSES, "learning_rate": 0.004}
    expected |= {"steps_per_second": 8.4, "images_per_second": 67.2, "data_wait": 0.03, "skipped_updates": 0}
    assert line == expected | {"memory_bytes": 1_900_000_000, "device_memory_bytes": 0}
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


def test_loggers_get_what_was_asked_for_and_the_files_at_both_ends(tmp_path):
    config, history = tmp_path / "pipeline.config", tmp_path / "history.jsonl"
    config.write_text("model {}")
    logger = RecordingLogger()
    logged = LoggedTraining([logger], {"batch_size": "8"}, [str(config), str(history)])
    logged.start(0)
    history.write_text("{}\n")
    logged.close()
    given = ("pipeline.config", b"model {}")
    assert logger.calls == [{"batch_size": "8"}, given, given, ("history.jsonl", b"{}\n"), "finished"]


def test_loggers_are_told_by_the_object_detection_apis_names_and_get_pictures():
    logger = RecordingLogger()
    logged = LoggedTraining([logger])
    logged.report(report(10))
    logged.validated(ValidationLine(step=10, score=0.5, metrics={"mAP": 0.5, "mAR": None}))
    logged.close()
    expected = LOSSES | {"learning_rate": 0.004, "steps_per_sec": 8.4, "gradient_norm/global": 3.0}
    expected |= {"images_per_sec": 67.2, "data_wait": 0.03, "memory_bytes": 1.9e9}
    assert logger.calls == [(expected, 10, "train"), ({"mAP": 0.5, "score": 0.5}, 10, "eval"), "finished"]
    logged.report(report(10, losses=LOSSES | {"Loss/total_loss": float("nan")}))
    assert logger.calls[-1][0] == {k: v for k, v in expected.items() if k != "Loss/total_loss"}
    logger, shown = RecordingLogger(), {}
    logged = LoggedTraining([logger], pictures=lambda: shown)
    logged.validated(ValidationLine(step=10, score=0.5))
    assert logger.calls == [({"score": 0.5}, 10, "eval")]
    shown["validation/0"] = np.zeros([2, 2, 3], np.uint8)
    logged.validated(ValidationLine(step=20, score=0.5))
    assert logger.calls[-1] == (["validation/0"], 20, "eval")


@cases((RuntimeError("no"), "failed"), (SystemExit(143), "stopped"), (KeyboardInterrupt(), "stopped"))
def test_loggers_learn_how_a_training_ended(*, error, status):
    logger = RecordingLogger()
    logged = LoggedTraining([logger])
    logged.failed(error)
    logged.close()
    assert logger.calls == [status]


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
    end = " | score 0.71 | lr 0.0040 | images/s 67.2 | data wait 3% | memory 1.90 GB | GPU memory 40.00 GB"
    assert format_progress(seen[0]).endswith(end)


def test_counts_are_at_least_one_and_times_zero():
    for name in ("num_steps", "log_every", "checkpoint_every", "steps_per_call"):
        assert getattr(TrainOptions(**({"num_steps": 1} | {name: 1})), name) == 1
        with pytest.raises(ValueError, match=f"{name} must be at least 1, found 0"):
            TrainOptions(**({"num_steps": 1} | {name: 0}))
    assert TrainOptions(num_steps=1, checkpoint_minutes=0.0).checkpoint_minutes == 0.0
    with pytest.raises(ValueError, match="checkpoint_minutes must be 0 or more"):
        TrainOptions(num_steps=1, checkpoint_minutes=-1.0)


BLACK = np.zeros([8, 16, 3], np.uint8)
PICTURES = [ValidationPicture(number=i, source_id=f"image {i}", image=BLACK) for i in range(2)]


def begun(folder, pictures, *steps):
    action = PictureFiles(str(folder), lambda: pictures)
    action.start(0)
    for step in steps:
        action.validated(ValidationLine(step=step))


def steps(folder):
    return sorted({step_of(Path(p.file).name) for p in list_pictures(str(folder))})


def files_there(folder):
    return sorted({step_of(path.name) for path in (folder / "pictures").glob("*.jpg")})


def test_each_picture_has_its_image_and_its_step_and_files_of_others_have_none(tmp_path):
    begun(tmp_path, PICTURES, 1200)
    found = list_pictures(str(tmp_path))
    assert [(p.source_id, p.caption) for p in found] == [("image 0", "step 1,200"), ("image 1", "step 1,200")]
    assert all(p.read().startswith(b"\xff\xd8\xff") for p in found)
    begun(tmp_path / "nothing", (), 10)
    assert not (tmp_path / "nothing").exists()
    names = ("side_by_side_00001.jpg", "step_x_1.jpg", "step_000000040_001.jpg")
    assert [step_of(name) for name in names] == [-1, -1, 40]
    assert [step_of(name) for name in ("step_²_a.jpg", "step_٢_a.jpg", "step_7x_a.jpg", "a.jpg")] == [-1] * 4


def test_a_resumed_training_draws_again_what_came_after_its_checkpoint(tmp_path):
    begun(tmp_path, PICTURES, 10, 20, 30)
    again = PictureFiles(str(tmp_path), lambda: PICTURES)
    again.start(20)
    assert steps(tmp_path) == files_there(tmp_path) == [10, 20]
    again.validated(ValidationLine(step=20))
    again.validated(ValidationLine(step=30))
    assert steps(tmp_path) == [10, 20, 30] and len(list_pictures(str(tmp_path))) == 6


def test_a_long_training_keeps_the_first_the_last_and_some_between(tmp_path):
    begun(tmp_path, PICTURES, *range(10, 1010, 10))
    kept = steps(tmp_path)
    assert kept == files_there(tmp_path)
    assert kept[0] == 10 and kept[-1] == 1000 and MOST_STEPS / 2 <= len(kept) <= MOST_STEPS
    assert max(b - a for a, b in itertools.pairwise(kept)) <= 300


@pytest.fixture
def default_handler():
    """Python's own handler: a shell starts what runs in the background with the signal ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("default_handler")
def test_the_second_signal_is_not_held_back_nor_the_first_where_nothing_is_to_be_saved():
    with StopSignal() as stop:
        os.kill(os.getpid(), signal.SIGINT)
        assert stop.received == signal.SIGINT
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    with StopSignal(at_once=True) as stop, pytest.raises(KeyboardInterrupt):
        assert stop_signal.active == [stop]
        os.kill(os.getpid(), signal.SIGINT)
    assert stop_signal.active == []


def test_sigterm_has_the_shell_s_exit_code_and_outside_the_main_thread_nothing_is_touched():
    before = signal.getsignal(signal.SIGTERM)
    with StopSignal() as stop:
        os.kill(os.getpid(), signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) is before
    with pytest.raises(SystemExit) as caught:
        stop.leave()
    assert caught.value.code == 143
    seen = []

    def work():
        with StopSignal() as stop:
            seen.append((stop.received, signal.getsignal(signal.SIGTERM)))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [(0, before)]


def first_weights(seed):
    Reproducibility(seed=seed, seeds_weights=True).set_up()
    layer = tf_keras.layers.Dense(8)
    layer.build((None, 8))
    return np.asarray(layer.kernel)


def test_the_first_weights_follow_the_seed_and_nothing_else_is_touched_unless_asked_for(monkeypatch):
    first, again, other = (first_weights(seed) for seed in (3, 3, 4))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)
    called: list[str] = []
    monkeypatch.setattr(tf_keras.utils, "set_random_seed", lambda seed: called.append(f"seed {seed}"))
    monkeypatch.setattr(tf.config.experimental, "enable_op_determinism", lambda: called.append("order"))
    Reproducibility(seed=3).set_up()
    assert not called
    Reproducibility(seed=3, seeds_weights=True, deterministic=True).set_up()
    assert called == ["seed 3", "order"]


def batches(seconds):
    """Batches that take a while each, none of which is made before it is asked for."""

    def slow(index):
        time.sleep(seconds)
        return index

    options = tf.data.Options()
    options.experimental_optimization.inject_prefetch = False
    made = tf.data.Dataset.range(1000).map(lambda i: tf.numpy_function(slow, [i], tf.int64))
    return made.with_options(options)


class Clock:
    """Passes when the test sets it, so that a loaded machine changes nothing."""

    now = 0.0

    def __call__(self):
        return self.now


def test_the_wait_is_the_readers_part_of_the_time_and_ready_batches_cost_none():
    for strategy in (tf.distribute.get_strategy(), tf.distribute.OneDeviceStrategy("/cpu:0")):
        with strategy.scope():
            wait = DataWait(clock := Clock())
            iterator = iter(strategy.experimental_distribute_dataset(batches(0.02)))
            step = tf.function(wait.draw)
            step(iterator)
            clock.now += 10
            wait.fraction()
            for _ in range(10):
                step(iterator)
        clock.now += 10
        # A loaded machine draws so late that most batches are ready.
        assert 0.001 <= wait.fraction() < 0.5
        clock.now += 10
        assert wait.fraction() == 0.0, "what was read is not counted again"
        assert wait.fraction() == 0.0, "no time passed"
    wait = DataWait(clock := Clock())
    iterator = iter(tf.data.Dataset.range(1000).cache().prefetch(100))
    step = tf.function(wait.draw)
    values = [int(step(iterator))]
    time.sleep(0.05)
    wait.fraction()
    for _ in range(5):
        values.append(int(step(iterator)))
        time.sleep(0.1)
    clock.now += 0.5
    assert values == list(range(6))
    assert wait.fraction() < 0.5, "what an update takes is no wait"
