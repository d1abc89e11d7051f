"""What goes wrong on the way, and what then happens: the table of docs/training.md, row by row."""

import json
import logging
import re
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import tensorflow as tf

from detection_core.builders.datasets import build_train_dataset, train_reader
from detection_core.config.input_paths import point_at_examples
from detection_core.config.label_map_file import load_label_map
from detection_core.config.load import parse_pipeline_config
from detection_core.data.records import naming_bad_records
from detection_core.errors import DataError, StorageError, as_user_error
from detection_core.training.trial_updates import BatchTooLargeError
from tests.detection_core.tasks.hungry_training import hungry_detectors, train_hungry
from tests.detection_core.training import runs
from tests.support.cases import refused
from tests.support.detectors import train_below
from tests.support.plain_backbone import PLAIN
from tests.support.record_files import example, write_records
from tests.support.tiny_model import TinyModel
from tests.support.tiny_training import config_text, write_examples

DOCUMENT = Path(__file__).parents[3] / "docs" / "training.md"


def run(folder, steps=4, **options):
    """Train with a checkpoint in each step, or go on."""
    return runs.train(TinyModel(), folder, **({"num_steps": steps, "checkpoint_every": 1} | options))


def checkpoint_unreadable(folder, caplog):
    run(folder)
    data, away = folder / "checkpoints" / "ckpt-4.data-00000-of-00001", folder / "away"
    data.rename(away)
    data.symlink_to("/proc/self/mem")  # whose first bytes give EIO
    refused(StorageError, "Input/output error", run, folder, 6)
    away.replace(data)
    assert run(folder).start_step == 4


def disk_full(folder, caplog):
    small = folder / "small"
    small.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=28k", "tmpfs", str(small)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("no right to mount a small file system")
    try:
        with pytest.raises(Exception) as caught:
            run(small, 40, checkpoints_to_keep=40)
        error = as_user_error(caught.value)
        assert isinstance(error, StorageError) and "No space left on device" in str(error)
        subprocess.run(["mount", "-o", "remount,size=10m", str(small)], check=True)
        assert 0 < run(small, 20, checkpoints_to_keep=40).start_step < 20
    finally:
        subprocess.run(["umount", "--lazy", str(small)], check=True)


def read_while(folder, change):
    """Read a shard of examples for many epochs, decoding each time; change it after the first batch."""
    examples = write_examples(folder / "examples")
    (shard,) = (examples / "Split-train").iterdir()
    config = point_at_examples(parse_pipeline_config(config_text(backbone=PLAIN)), str(examples))
    label_map = load_label_map(str(examples / "label_map.pbtxt"))
    batches = iter(build_train_dataset(config, label_map=label_map, batch_size=2, seed=0, cache_bytes=0))
    next(batches)
    reader = train_reader(config, label_map)
    with naming_bad_records(reader.paths, reader.decode):
        change(shard)
        for _ in range(200):
            next(batches)


def shard_gone(folder, caplog):
    refused(DataError, "examples-00000-of-00001", read_while, folder, Path.unlink)


def record_damaged(folder, caplog):
    refused(DataError, r"tfrecord, record \d", read_while, folder, runs.flip_a_byte)


def train_with(bad, folder, images):
    """Train for two updates with records between the others that are no images."""
    shard = next((write_examples(folder / "examples", images) / "Split-train").iterdir())
    records = list(tf.data.TFRecordDataset(str(shard)).as_numpy_iterator())
    write_records(shard, [*records[:50], *bad, *records[50:]])
    config = parse_pipeline_config(config_text(2, PLAIN))
    return train_below(folder, point_at_examples(config, str(folder / "examples")))


def image_that_does_not_decode(folder, caplog):
    bad = example({"image/encoded": [b"nothing"], "image/source_id": [b"17"]})
    clean, damaged = (train_with(bads, folder / str(len(bads)), 110) for bads in ([], [bad]))
    assert (clean.left_out, damaged.left_out, damaged.steps) == (0, 1, 2)
    assert damaged.losses == pytest.approx(clean.losses, rel=1e-5), "as if it had never been"
    assert "record 50, image '17': " in caplog.text and "1 of 111 training records" in caplog.text
    listed = json.loads((folder / "1" / "run" / "left_out.jsonl").read_text())
    assert (listed["index"], listed["image"]) == (50, "17")
    message = r"record 20: expected at most 1\.00% .*found 1 of 21; the first is the image '17'"
    refused(DataError, message, train_with, [bad], folder / "few", 20)


def clock_set_back(folder, caplog):
    now = iter(range(2_000_000_000, 0, -86_400))  # each look at it is a day before the last
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "time", lambda: float(next(now)))
        run(folder, checkpoint_every=2, keep_checkpoint_every_n_hours=1e-6, checkpoints_to_keep=1)
        assert runs.kept(folder) == [2, 4]
        assert run(folder, 6).start_step == 4


def batch_too_large(folder, caplog):
    with hungry_detectors(most=2), pytest.raises(BatchTooLargeError) as caught:
        train_hungry(folder)
    said = str(caught.value)
    assert "train_config.batch_size: expected a batch that fits into memory, found 4 images" in said
    assert "Updates in 2 parts went through: set train_config.gradient_accumulation_steps: 2" in said
    assert "or batch_size: 2;" in said


def batch_in_parts(folder, caplog):
    def kill(update):
        if update.done == 4:
            raise RuntimeError("killed")

    with hungry_detectors(most=2, after=2):
        with pytest.raises(RuntimeError, match="killed"):
            train_hungry(folder, steps=5, gradient_accumulation_steps=0, progress=kill)
        assert "OOM when allocating tensor" in caplog.text
        assert "4 images are computed in 2 parts" in caplog.text and "from step 2 to 5" in caplog.text
        caplog.clear()
        _, result = train_hungry(folder, steps=5, gradient_accumulation_steps=0)
    assert (result.gradient_accumulation_steps, result.start_step, result.step) == (2, 3, 5)
    assert "in 2 parts, as was found before" in caplog.text and "OOM" not in caplog.text


ELSEWHERE = {
    "last checkpoint damaged": "a_damaged_checkpoint_is_moved_and_gives_way_to_the_one_before",
    "last checkpoint half written": (
        "only_own_checkpoints_are_removed_and_what_else_lies_about_does_not_matter"
    ),
    "every checkpoint damaged": "the_start_the_last_few_and_what_cannot_be_gone_on_with",
    "loss or gradient not finite": "a_loss_that_is_no_number_stops_with_the_step_it_came_from",
    "the same, with max_skipped_updates": "an_update_that_is_no_number_may_be_left_out_and_counted",
}
"""Rows whose consequence `test_checkpoints.py` or `test_loop.py` tests."""
ROWS: dict[str, Callable[[Path, pytest.LogCaptureFixture], None]] = {
    "a checkpoint that cannot be read, as by a disk or store that fails, or without file descriptors": (
        checkpoint_unreadable
    ),
    "disk full": disk_full,
    "shard gone": shard_gone,
    "record damaged": record_damaged,
    "image that does not decode": image_that_does_not_decode,
    "batch larger than the memory": batch_too_large,
    "the same, with gradient_accumulation_steps: 0": batch_in_parts,
    "clock set back": clock_set_back,
}


SLOW = (batch_too_large, batch_in_parts)


@pytest.mark.parametrize(
    "row", [pytest.param(row, marks=[pytest.mark.slow] * (ROWS[row] in SLOW)) for row in ROWS]
)
def test_what_goes_wrong_has_the_consequence_that_the_table_tells(row, tmp_path, caplog):
    with caplog.at_level(logging.INFO):
        ROWS[row](tmp_path, caplog)


def test_the_table_has_these_rows():
    table = DOCUMENT.read_text().partition("| fault |")[2].partition("\n\n")[0]
    told = re.findall(r"^\| ([^|]+?) \|", table, re.MULTILINE)
    assert sorted(row for row in told if not row.startswith("--")) == sorted([*ELSEWHERE, *ROWS])
    tests = [Path(__file__).with_name(f"test_{name}.py").read_text() for name in ("checkpoints", "loop")]
    assert [name for name in ELSEWHERE.values() if f"def test_{name}(" not in "".join(tests)] == []
