"""A server that is slow or away must cost a training nothing."""

import logging
import threading
import time

import numpy as np

from detection_core.loggers.background import BackgroundLogger
from detection_core.loggers.base import EVAL, TRAIN, Histogram
from tests.support.recording_logger import RecordingLogger


def test_everything_arrives_in_its_order():
    server = RecordingLogger()
    logger = BackgroundLogger(server, "test")
    logger.log_parameters({"a": "1"})
    logger.log_scalars({"loss": 1.5}, 1, TRAIN)
    logger.log_images({"x": np.zeros([2, 2, 3], np.uint8)}, 1, EVAL)
    logger.log_histograms({"w": Histogram(edges=np.zeros(2), counts=np.zeros(1))}, 1)
    logger.log_artifact("a.txt", b"text")
    logger.close("finished")
    assert server.told == [
        {"a": "1"},
        ({"loss": 1.5}, 1, "train"),
        (["x"], 1, "eval"),
        (["w"], 1),
        ("a.txt", b"text"),
        "finished",
    ]


def test_a_server_that_is_away_loses_nothing_but_what_it_refuses_for_good(caplog):
    server = RecordingLogger(refuses=2)
    logger = BackgroundLogger(server, "the server", waits=(0.0, 0.0, 0.0))
    with caplog.at_level(logging.WARNING):
        for step in range(3):
            logger.log_scalars({"loss": 1.0}, step, TRAIN)
        logger.close("finished")
    assert [entry[1] for entry in server.told[:-1]] == [0, 1, 2]
    away = "the server cannot be reached, or refuses an entry; training goes on"
    assert caplog.messages == [f"{away}: ConnectionError: no route to host"]
    server = RecordingLogger(refuses=2)
    logger = BackgroundLogger(server, "the server", waits=(0.0,))
    with caplog.at_level(logging.WARNING):
        logger.log_scalars({"loss": 1.0}, 1, TRAIN)
        logger.log_scalars({"loss": 1.0}, 2, TRAIN)
        logger.close("failed")
    assert server.told == [({"loss": 1.0}, 2, "train"), "failed"]
    assert "1 entries were not delivered" in caplog.records[-1].message


def test_training_does_not_wait_for_a_slow_server(caplog):
    gate = threading.Event()
    server = RecordingLogger(gate=gate)
    logger = BackgroundLogger(server, "the server", most_waiting=3, close_seconds=0.1)
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
    assert server.told[-1] == "finished" and server.told[-2][1] == 99
