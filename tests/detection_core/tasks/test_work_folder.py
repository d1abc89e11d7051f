"""The folder of a training: its name, its lock, what is kept."""

from __future__ import annotations

import multiprocessing
import os
import time
from pathlib import Path

import pytest
from google.protobuf import text_format

from detection_core.errors import StorageError
from detection_core.protos.pipeline_pb2 import TrainEvalPipelineConfig
from detection_core.tasks.work_folder import FINISHED, training_fingerprint, work_folder


def config(folder: Path, extra: str = "", content: bytes = b"records") -> TrainEvalPipelineConfig:
    folder.mkdir(exist_ok=True)
    (folder / "a.tfrecord").write_bytes(content)
    (folder / "label_map.pbtxt").write_text("item { id: 1 }")
    text = (
        f"train_input_reader {{ label_map_path: '{folder}/label_map.pbtxt'"
        f" tf_record_input_reader {{ input_path: '{folder}/*.tfrecord' }} }} {extra}"
    )
    return text_format.Parse(text, TrainEvalPipelineConfig())


def test_the_name_depends_on_the_content_and_not_on_the_place(tmp_path: Path) -> None:
    here = training_fingerprint(config(tmp_path / "here"))
    assert training_fingerprint(config(tmp_path / "there")) == here
    assert training_fingerprint(config(tmp_path / "here", "eval_config { num_examples: 3 }")) == here
    others = [
        training_fingerprint(config(tmp_path / "b", content=b"Records")),
        training_fingerprint(config(tmp_path / "c", "train_config { num_steps: 3 }")),
        training_fingerprint(config(tmp_path / "d"), version="2"),
        training_fingerprint(config(tmp_path / "e"), inputs=[f"{tmp_path}/e/*.pbtxt"]),
    ]
    assert len({here, *others}) == 5


def test_a_change_at_the_end_of_a_large_file_counts(tmp_path: Path) -> None:
    long = b"x" * 300_000
    names = {training_fingerprint(config(tmp_path / c, content=long + c.encode())) for c in "abc"}
    assert len(names) == 3


def test_an_error_leaves_the_folder_unfinished(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), work_folder(str(tmp_path), "a") as folder:
        Path(folder, "checkpoint").touch()
        raise RuntimeError
    assert (tmp_path / "a" / "checkpoint").exists()
    assert not (tmp_path / "a" / FINISHED).exists()


def test_the_newest_finished_folders_stay_and_unfinished_ones_too(tmp_path: Path) -> None:
    (tmp_path / "unfinished").mkdir()
    for age, name in enumerate(["new", "old", "older", "oldest"]):
        with work_folder(str(tmp_path), name, keep_finished=9):
            pass
        os.utime(tmp_path / name / FINISHED, (1e9 - age, 1e9 - age))
    with work_folder(str(tmp_path), "newest", keep_finished=3):
        pass
    assert sorted(p.name for p in tmp_path.iterdir()) == ["new", "newest", "old", "unfinished"]


def hold(root: str, seconds: float) -> None:
    with work_folder(root, "same") as folder:
        Path(folder, "held").touch()
        time.sleep(seconds)


def test_a_second_process_waits_for_the_first(tmp_path: Path) -> None:
    process = multiprocessing.get_context("fork").Process(target=hold, args=(str(tmp_path), 1.0))
    process.start()
    while not (tmp_path / "same" / "held").exists():
        time.sleep(0.01)
    with work_folder(str(tmp_path), "same"):
        assert (tmp_path / "same" / FINISHED).exists()
    process.join()


def test_what_lies_in_a_folder_of_any_name_counts(tmp_path: Path) -> None:
    config(tmp_path / "a1")
    folder = tmp_path / "a[1]"
    about = config(folder)
    about.train_input_reader.tf_record_input_reader.input_path[:] = [f"{folder}/a.tfrecord"]
    before = training_fingerprint(about)
    (folder / "label_map.pbtxt").write_text("item { id: 2 }")
    between = training_fingerprint(about)
    (folder / "a.tfrecord").write_bytes(b"other records")
    assert len({before, between, training_fingerprint(about)}) == 3


def test_a_lock_that_is_a_link_is_refused_and_its_target_left_alone(tmp_path):
    (tmp_path / "precious").write_text("precious")
    (tmp_path / "work" / "abc").mkdir(parents=True)
    (tmp_path / "work" / "abc" / "lock").symlink_to(tmp_path / "precious")
    with pytest.raises(StorageError, match="found a link"), work_folder(str(tmp_path / "work"), "abc"):
        pass
    assert (tmp_path / "precious").read_text() == "precious"
