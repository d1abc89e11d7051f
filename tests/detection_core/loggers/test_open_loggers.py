"""Loggers that need no service."""

import datetime
import io
import logging
import re
import sys
import threading
import time

import numpy as np
import tensorflow as tf
from PIL import Image

from detection_core.errors import ConfigError
from detection_core.loggers import open_loggers
from detection_core.loggers.base import EVAL, TRAIN, Histogram, RunIds
from detection_core.loggers.open_loggers import (
    BackgroundLogger,
    LoggerOptions,
    MetricLines,
    check_loggers,
    metric_name,
)
from detection_core.loggers.tensorboard import TensorBoardLogger
from tests.support.cases import cases, refused
from tests.support.recording_logger import RecordingLogger

BOTH = LoggerOptions(trackers={"mlflow": {}, "wandb": {}}, metric_lines=True)


@cases("mlflow", "wandb")
def test_a_package_that_is_missing_is_told_with_its_remedy(monkeypatch, *, package):
    monkeypatch.setitem(sys.modules, package, None)
    remedy = rf"train_config.monitoring.{package}: .*package {package}.*pip install 'detflow\[{package}\]'"
    refused(ConfigError, remedy, check_loggers, LoggerOptions(trackers={package: {}}))


def test_servers_are_logged_to_in_the_background(tmp_path):
    assert open_loggers.open_loggers(LoggerOptions(), str(tmp_path)) == [], "nothing is missing"
    kinds = [type(logger) for logger in open_loggers.open_loggers(BOTH, str(tmp_path))]
    assert kinds == [MetricLines, BackgroundLogger, BackgroundLogger]


def test_everything_arrives_in_its_order():
    server = RecordingLogger()
    logger = BackgroundLogger(server, "test")
    logger.log_parameters({"a": "1"})
    logger.log_scalars({"loss": 1.5}, 1, TRAIN)
    logger.log_images({"x": np.zeros([2, 2, 3], np.uint8)}, 1, EVAL)
    logger.log_histograms({"w": Histogram(edges=np.zeros(2), counts=np.zeros(1))}, 1)
    logger.log_artifact("a.txt", b"text")
    logger.close("finished")
    assert server.calls == [
        {"a": "1"}, ({"loss": 1.5}, 1, "train"), (["x"], 1, "eval"), (["w"], 1), ("a.txt", b"text"),
        "finished",
    ]  # fmt: skip


def test_a_server_that_is_away_loses_nothing_but_what_it_refuses_for_good(caplog, monkeypatch):
    monkeypatch.setattr(open_loggers, "_WAITS", (0.0, 0.0, 0.0))
    server = RecordingLogger(refuses=2)
    logger = BackgroundLogger(server, "the server")
    with caplog.at_level(logging.WARNING):
        for step in range(3):
            logger.log_scalars({"loss": 1.0}, step, TRAIN)
        logger.close("finished")
    assert [entry[1] for entry in server.calls[:-1]] == [0, 1, 2]
    away = "the server cannot be reached, or refuses an entry; training goes on"
    assert caplog.messages == [f"{away}: ConnectionError: no route to host"]
    monkeypatch.setattr(open_loggers, "_WAITS", (0.0,))
    server = RecordingLogger(refuses=2)
    logger = BackgroundLogger(server, "the server")
    with caplog.at_level(logging.WARNING):
        logger.log_scalars({"loss": 1.0}, 1, TRAIN)
        logger.log_scalars({"loss": 1.0}, 2, TRAIN)
        logger.close("failed")
    assert server.calls == [({"loss": 1.0}, 2, "train"), "failed"]
    assert "1 entries were not delivered" in caplog.records[-1].message


def test_training_does_not_wait_for_a_slow_server(caplog, monkeypatch):
    monkeypatch.setattr(open_loggers, "_MOST_WAITING", 3)
    monkeypatch.setattr(open_loggers, "_CLOSE_SECONDS", 0.1)
    gate = threading.Event()
    server = RecordingLogger(gate=gate)
    logger = BackgroundLogger(server, "the server")
    began = time.monotonic()
    with caplog.at_level(logging.WARNING):
        for step in range(100):
            logger.log_scalars({"loss": 1.0}, step, TRAIN)
        logger.close("finished")
    assert time.monotonic() - began < 5
    # The one that is under way, 96 or 97 dropped ones, and the newest that still wait, the end among them.
    assert caplog.records[-1].message.startswith("the server: 101 entries were not delivered")
    gate.set()
    logger._thread.join(10)
    assert server.calls[-1] == "finished" and server.calls[-2][1] == 99


# The filters that Katib's collector uses where an Experiment gives none, an older one and one with exponents:
# DefaultFilter of kubeflow/katib, pkg/metricscollector/v1beta1/common/const.go.
KATIB = (
    re.compile(r"([\w|-]+)\s*=\s*((-?\d+)(\.\d+)?)"),
    re.compile(r"([\w|-]+)\s*=\s*([+-]?\d*(\.\d+)?([Ee][+-]?\d+)?)"),
)


@cases(*KATIB)
def test_katib_reads_every_metric_of_a_validation_with_its_time(capsys, *, katib):
    lines = MetricLines()
    lines.log_scalars({"Loss/total_loss": 1.0}, 10, TRAIN)
    metrics = {"score": 0.71234567, "DetectionBoxes_Precision/mAP@.50IOU": 1e-7, "gain": -0.5}
    lines.log_scalars(metrics, 10, EVAL)
    found = {}
    for line in capsys.readouterr().out.splitlines():
        # Its file parser takes what is in front of the first blank as the time, in Go's RFC3339Nano.
        time, _, rest = line.partition(" ")
        assert datetime.datetime.fromisoformat(time).tzinfo is not None and time.endswith("Z")
        (match,) = katib.finditer(rest)
        found[match[1]] = float(match[2])
    assert found == {"score": 0.71234567, "DetectionBoxes_Precision_mAP_50IOU": 1e-7, "gain": -0.5}
    assert metric_name("DetectionBoxes_Recall/AR@100 (large)") == "DetectionBoxes_Recall_AR_100_large"
    assert metric_name("f1-score") == "f1-score"


def events(folder):
    """Tag to step, plugin and tensor of the one event file of a folder."""
    (path,) = folder.glob("events.*")
    found = {}
    for event in tf.compat.v1.train.summary_iterator(str(path)):
        for value in event.summary.value:
            plugin = value.metadata.plugin_data.plugin_name
            found[value.tag] = (event.step, plugin, tf.make_ndarray(value.tensor))
    return found


def test_numbers_of_each_split_are_in_its_own_folder(tmp_path):
    logger = TensorBoardLogger(str(tmp_path))
    logger.log_scalars({"loss": 1.5}, 10, TRAIN)
    logger.log_scalars({"mAP": 0.25}, 20, EVAL)
    assert events(tmp_path / "train") == {"loss": (10, "scalars", 1.5)}, "what is logged shows at once"
    logger.close("finished")
    assert events(tmp_path / "eval") == {"mAP": (20, "scalars", 0.25)}


def test_a_picture_has_its_sides_and_a_histogram_rows_of_two_edges_and_a_count(tmp_path):
    logger = TensorBoardLogger(str(tmp_path))
    logger.log_images({"validation/0": np.full([6, 10, 3], 200, np.uint8)}, 3, EVAL)
    assert not (tmp_path / "train").exists()
    step, plugin, (width, height, encoded) = events(tmp_path / "eval")["validation/0"]
    assert (step, plugin, width, height) == (3, "images", b"10", b"6")
    picture = Image.open(io.BytesIO(encoded))
    assert picture.format == "JPEG"
    picture = np.asarray(picture)
    assert picture.shape == (6, 10, 3) and abs(picture.astype(int) - 200).max() <= 2
    logger.log_histograms({"w": Histogram(edges=np.array([0.0, 1.0, 3.0]), counts=np.array([4, 5]))}, 7)
    logger.close("finished")
    step, plugin, rows = events(tmp_path / "train")["w"]
    assert (step, plugin, rows.tolist()) == (7, "histograms", [[0.0, 1.0, 4.0], [1.0, 3.0, 5.0]])
    TensorBoardLogger(str(tmp_path / "nothing")).close("finished")
    assert not (tmp_path / "nothing").exists()


def test_ids_outlive_the_process_that_made_them(tmp_path):
    ids = RunIds(str(tmp_path))
    assert ids.find("mlflow") == ""
    ids.keep("mlflow", "abc")
    ids.keep("wandb", "def")
    again = RunIds(str(tmp_path))
    assert (again.find("mlflow"), again.find("wandb")) == ("abc", "def")
