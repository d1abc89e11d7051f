"""Weights & Biases, offline; `make test-trackers`."""

import json
import os
import struct
import time

import numpy as np
import pytest

from detection_core.loggers.base import EVAL, TRAIN, Histogram, RunIds
from detection_core.optional.wandb.wandb_run import WandbLogger

pytestmark = [
    pytest.mark.trackers,
    pytest.mark.skipif(
        not os.environ.get("DETFLOW_TRACKERS"), reason="DETFLOW_TRACKERS is not set: no wandb here"
    ),
]

BLOCK, FULL, LAST = 32768, 1, 4
SECONDS = 60


def records(folder):
    """Every record of the one file that `wandb sync` would upload.

    Its service writes the file after `finish` has returned, and the exit is the last record.
    """
    from wandb.proto import wandb_internal_pb2

    (path,) = folder.glob("wandb/offline-run-*/run-*.wandb")
    end = time.monotonic() + SECONDS
    while True:
        found = [wandb_internal_pb2.Record.FromString(data) for data in entries(path.read_bytes())]
        if found and found[-1].WhichOneof("record_type") == "exit":
            return found
        assert time.monotonic() < end, f"no record of the exit after {SECONDS} s"
        time.sleep(0.05)


def entries(data):
    """Entries of a log of LevelDB, as its doc/log_format.md describes it, behind 7 bytes of wandb's own."""
    at, whole = 7, b""
    while at + 7 <= len(data):
        left = BLOCK - at % BLOCK
        if left < 7:
            at += left  # no header fits, and zeros fill the block
            continue
        _, length, kind = struct.unpack_from("<IHB", data, at)
        if at + 7 + length > len(data):
            return  # is being written
        whole += data[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (FULL, LAST):
            yield whole
            whole = b""


def test_an_offline_run_has_what_was_logged(tmp_path, monkeypatch):
    monkeypatch.setenv("WANDB_MODE", "offline")
    ids = RunIds(str(tmp_path))
    logger = WandbLogger({"project": "digits", "entity": "", "run_name": "first"}, ids, str(tmp_path))
    logger.log_parameters({"train_config.batch_size": "8"})
    logger.log_scalars({"Loss/total_loss": 2.5}, 10, TRAIN)
    logger.log_scalars({"mAP@.50IOU": 0.5}, 10, EVAL)
    logger.log_scalars({"Loss/total_loss": 2.0}, 5, TRAIN)  # a resumed training goes back
    logger.log_images({"0": np.zeros([8, 8, 3], np.uint8)}, 10, EVAL)
    logger.log_histograms({"w": Histogram(edges=np.array([0.0, 1.0, 2.0]), counts=np.array([3, 4]))}, 10)
    logger.log_artifact("pipeline.config", b"model {}")
    logger.close("finished")

    found = records(tmp_path)
    (run,) = [r.run for r in found if r.WhichOneof("record_type") == "run"][:1]
    assert (run.run_id, run.project, run.display_name) == (ids.find("wandb"), "digits", "first")
    rows = [
        {item.key or ".".join(item.nested_key): json.loads(item.value_json) for item in r.history.item}
        for r in found
        if r.WhichOneof("record_type") == "history"
    ]
    losses = [(row["step"], row["Loss/total_loss"]) for row in rows if "Loss/total_loss" in row]
    assert losses == [(10, 2.5), (5, 2.0)]
    assert any(row.get("mAP@.50IOU") == 0.5 for row in rows)
    assert any("eval/0" in key for row in rows for key in row)
    assert any(key.startswith("w") for row in rows for key in row)
    (config,) = tmp_path.glob("wandb/offline-run-*/files/pipeline.config")
    assert config.read_bytes() == b"model {}"
