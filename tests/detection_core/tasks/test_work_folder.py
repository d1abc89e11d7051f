"""The folder of a training: its name, its lock, what is kept."""

import contextlib
import multiprocessing
import os
import time
from pathlib import Path

import pytest
from google.protobuf import text_format

from detection_core.errors import StorageError
from detection_core.protos.pipeline_pb2 import TrainEvalPipelineConfig
from detection_core.storage import files
from detection_core.tasks import work_folder as module
from detection_core.tasks.work_folder import (
    FINISHED,
    code_versions,
    training_fingerprint,
    training_origin,
    work_folder,
)
from tests.support.cases import cases
from tests.support.tiny_training import config_text


def config(folder: Path, extra: str = "", content: bytes = b"records") -> TrainEvalPipelineConfig:
    folder.mkdir(exist_ok=True)
    (folder / "a.tfrecord").write_bytes(content)
    (folder / "label_map.pbtxt").write_text("item { id: 1 }")
    text = (
        f"train_input_reader {{ label_map_path: '{folder}/label_map.pbtxt'"
        f" tf_record_input_reader {{ input_path: '{folder}/*.tfrecord' }} }} {extra}"
    )
    return text_format.Parse(text, TrainEvalPipelineConfig())


def test_the_name_depends_on_content_and_checkpoint_format_and_not_on_the_place(tmp_path, monkeypatch):
    here = training_fingerprint(config(tmp_path / "here"))
    assert training_fingerprint(config(tmp_path / "there")) == here
    assert training_fingerprint(config(tmp_path / "here", "eval_config { num_examples: 3 }")) == here
    others = [
        training_fingerprint(config(tmp_path / "b", content=b"Records")),
        training_fingerprint(config(tmp_path / "c", "train_config { num_steps: 3 }")),
        training_fingerprint(config(tmp_path / "e"), weights=[f"{tmp_path}/e/label_map.pbtxt"]),
    ]
    assert len({here, *others}) == 4
    # A change at the end of a large file.
    long = b"x" * 300_000
    assert len({training_fingerprint(config(tmp_path / c, content=long + c.encode())) for c in "xyz"}) == 3
    # Where the first weights lie.
    weights = [f"train_config {{ fine_tune_checkpoint: '{path}' }}" for path in ("/zoo/ckpt-0", "/x/ckpt-3")]
    assert len({training_fingerprint(config(tmp_path / "a", text)) for text in weights}) == 1
    with monkeypatch.context() as patch:
        patch.setattr(module, "CHECKPOINT_FORMAT", module.CHECKPOINT_FORMAT + 1)
        assert training_fingerprint(config(tmp_path / "here")) != here
    # A folder of any name.
    config(tmp_path / "a1")
    folder = tmp_path / "a[1]"
    about = config(folder)
    about.train_input_reader.tf_record_input_reader.input_path[:] = [f"{folder}/a.tfrecord"]
    before = training_fingerprint(about)
    (folder / "label_map.pbtxt").write_text("item { id: 2 }")
    between = training_fingerprint(about)
    (folder / "a.tfrecord").write_bytes(b"other records")
    assert len({before, between, training_fingerprint(about)}) == 3


def test_config_and_data_of_a_training_are_told_apart_wherever_they_lie(tmp_path):
    here = training_origin(config(tmp_path / "here"))
    assert training_origin(config(tmp_path / "there")) == here
    data = training_origin(config(tmp_path / "b", content=b"Records"))
    steps = training_origin(config(tmp_path / "c", "train_config { num_steps: 3 }"))
    assert data["config_hash"] == here["config_hash"] != steps["config_hash"]
    assert data["data_fingerprint"] != here["data_fingerprint"] == steps["data_fingerprint"]


def test_unfinished_work_is_found_under_the_name_that_it_always_had(tmp_path):
    # Both names were computed by the code of the first layout, before builders told what counts.
    extra = "graph_rewriter { quantization { delay: 1 weight_bits: 8 activation_bits: 8 } }"
    extra += " eval_config { num_examples: 3 } eval_input_reader { label_map_path: 'x' }"
    about = config(tmp_path / "a", config_text(4) + extra)
    about.train_config.fine_tune_checkpoint = "/zoo/ckpt-0"
    assert training_fingerprint(about) == "7f96e77d9aa7ab8b"
    weights = [f"{tmp_path}/a/label_map.pbtxt"]
    assert training_fingerprint(about, weights=weights) == "56914423a8102c11"


def test_the_newest_finished_folders_stay_and_unfinished_ones_too(tmp_path):
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


def test_a_second_process_waits_for_the_first(tmp_path):
    process = multiprocessing.get_context("fork").Process(target=hold, args=(str(tmp_path), 0.2))
    process.start()
    while not (tmp_path / "same" / "held").exists():
        time.sleep(0.01)
    with work_folder(str(tmp_path), "same"):
        assert (tmp_path / "same" / FINISHED).exists()
    process.join()


def test_a_lock_that_is_a_link_is_refused_and_its_target_left_alone(tmp_path):
    (tmp_path / "precious").write_text("precious")
    (tmp_path / "work" / "abc").mkdir(parents=True)
    (tmp_path / "work" / "abc" / "lock").symlink_to(tmp_path / "precious")
    with pytest.raises(StorageError, match="found a link"), work_folder(str(tmp_path / "work"), "abc"):
        pass
    assert (tmp_path / "precious").read_text() == "precious"


def leave(root: Path, code: str, *, finished: bool) -> list[str]:
    """Train with some code, to the end or not; returns what was found in the folder."""
    with contextlib.suppress(InterruptedError), work_folder(str(root), "same", code_version=code) as folder:
        found = sorted(os.listdir(folder))
        Path(folder, "checkpoints").mkdir(exist_ok=True)
        Path(folder, "checkpoints", f"by-{code}").touch()
        if not finished:
            raise InterruptedError
    return found


def test_other_code_goes_on_with_what_is_unfinished_and_does_anew_what_was_finished(tmp_path, caplog):
    assert leave(tmp_path, "one", finished=False) == ["code_versions", "lock"]
    assert not caplog.records and not (tmp_path / "same" / FINISHED).exists()
    assert "checkpoints" in leave(tmp_path, "two", finished=False)
    assert "other code began (one, now two)" in caplog.text
    assert code_versions(str(tmp_path / "same")) == ["one", "two"]
    caplog.clear()
    assert "checkpoints" in leave(tmp_path, "two", finished=True)
    assert not caplog.records
    assert sorted(os.listdir(tmp_path / "same" / "checkpoints")) == ["by-one", "by-two"]
    assert FINISHED in leave(tmp_path, "two", finished=True)
    assert "checkpoints" in leave(tmp_path, "", finished=True)  # who names no code
    assert code_versions(str(tmp_path / "same")) == ["one", "two"]
    assert leave(tmp_path, "three", finished=False) == ["code_versions", "lock"]
    assert code_versions(str(tmp_path / "same")) == ["three"]


@cases(0, 1, 2, 3)
def test_a_kill_while_finished_work_of_other_code_is_removed_changes_nothing(tmp_path, monkeypatch, *, at):
    leave(tmp_path, "one", finished=True)
    (tmp_path / "same" / "history.jsonl").touch()
    removed: list[str] = []

    def remove(path: str) -> None:
        if len(removed) == at:
            raise KeyboardInterrupt
        removed.append(path)
        real(path)

    real = files.remove_tree
    monkeypatch.setattr(files, "remove_tree", remove)
    if at < 3:
        with pytest.raises(KeyboardInterrupt):
            leave(tmp_path, "two", finished=False)
    monkeypatch.setattr(files, "remove_tree", real)
    assert leave(tmp_path, "two", finished=False)[-1] == "lock"
    assert not (tmp_path / "same" / "history.jsonl").exists()
    assert "by-one" not in os.listdir(tmp_path / "same" / "checkpoints")
