"""What a training begins with: its folder, the files of its first weights, and the parts of a batch."""

import contextlib
import dataclasses
import multiprocessing
import os
import threading
import time
from pathlib import Path

import pytest
import tensorflow as tf
from google.protobuf import text_format

from detection_core.artifacts.model_run import BATCH_PARTS, BatchParts
from detection_core.errors import ContractError, ModelError, StorageError
from detection_core.protos.pipeline_pb2 import TrainEvalPipelineConfig
from detection_core.storage import files, store_lock
from detection_core.tasks.fitting import work_folder as module
from detection_core.tasks.fitting.skipped_updates import fitting_parts, set_more_parts, settled_parts
from detection_core.tasks.fitting.starting_files import fingerprint_files, starting_files
from detection_core.tasks.fitting.work_folder import (
    FINISHED,
    code_versions,
    training_fingerprint,
    work_folder,
)
from detection_core.tasks.quantize import CalibrationOptions
from detection_core.training.loop_options import TrainOptions
from detection_core.training.trial_updates import BatchTooLargeError, TrialUpdates
from tests.support.archives import NAME, archive, fake_checkpoint, fake_detector
from tests.support.cases import cases, refused
from tests.support.object_store import s3_server
from tests.support.tiny_model import TinyModel, make_dataset
from tests.support.tiny_training import config_text

OPTIONS = TrainOptions(num_steps=1, gradient_accumulation_steps=0, batch_size=8)


def config(folder: Path, extra: str = "", content: bytes = b"records") -> TrainEvalPipelineConfig:
    folder.mkdir(exist_ok=True)
    (folder / "a.tfrecord").write_bytes(content)
    (folder / "label_map.pbtxt").write_text("item { id: 1 }")
    records = f"tf_record_input_reader {{ input_path: '{folder}/*.tfrecord' }}"
    text = f"train_input_reader {{ label_map_path: '{folder}/label_map.pbtxt' {records} }} {extra}"
    return text_format.Parse(text, TrainEvalPipelineConfig())


def test_the_name_depends_on_content_and_checkpoint_format_and_not_on_the_place(tmp_path, monkeypatch):
    here = training_fingerprint(config(tmp_path / "here"))
    assert training_fingerprint(config(tmp_path / "there")) == here
    assert training_fingerprint(config(tmp_path / "here", "eval_config { num_examples: 3 }")) == here
    others = [
        training_fingerprint(config(tmp_path / "b", content=b"Records")),
        training_fingerprint(config(tmp_path / "c", "train_config { num_steps: 3 }")),
        training_fingerprint(config(tmp_path / "e"), weights=[f"{tmp_path}/e/label_map.pbtxt"]),
        training_fingerprint(config(tmp_path / "f"), more=CalibrationOptions(examples=65).key),
    ]
    assert len({here, *others}) == 5
    assert training_fingerprint(config(tmp_path / "f"), more=CalibrationOptions(examples=64).key) == here
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


def test_config_and_data_are_told_apart_and_work_is_found_under_the_name_that_it_always_had(tmp_path):
    here = module.training_origin(config(tmp_path / "here"))
    assert module.training_origin(config(tmp_path / "there")) == here
    data = module.training_origin(config(tmp_path / "b", content=b"Records"))
    steps = module.training_origin(config(tmp_path / "c", "train_config { num_steps: 3 }"))
    assert data["config_hash"] == here["config_hash"] != steps["config_hash"]
    assert data["data_fingerprint"] != here["data_fingerprint"] == steps["data_fingerprint"]
    # Both names were computed by the code of the first layout, before builders listed what counts.
    extra = "graph_rewriter { quantization { delay: 1 weight_bits: 8 activation_bits: 8 } }"
    extra += " eval_config { num_examples: 3 } eval_input_reader { label_map_path: 'x' }"
    about = config(tmp_path / "a", config_text(4) + extra)
    about.train_config.fine_tune_checkpoint = "/zoo/ckpt-0"
    assert training_fingerprint(about) == "7f96e77d9aa7ab8b"
    assert training_fingerprint(about, weights=[f"{tmp_path}/a/label_map.pbtxt"]) == "56914423a8102c11"


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


def test_a_second_process_waits_for_the_first_and_a_lock_that_is_a_link_is_refused(tmp_path):
    process = multiprocessing.get_context("fork").Process(target=hold, args=(str(tmp_path), 0.2))
    process.start()
    while not (tmp_path / "same" / "held").exists():
        time.sleep(0.01)
    with work_folder(str(tmp_path), "same"):
        assert (tmp_path / "same" / FINISHED).exists()
    process.join()
    (tmp_path / "precious").write_text("precious")
    (tmp_path / "work" / "abc").mkdir(parents=True)
    (tmp_path / "work" / "abc" / "lock").symlink_to(tmp_path / "precious")
    with pytest.raises(StorageError, match="found a link"), work_folder(str(tmp_path / "work"), "abc"):
        pass
    assert (tmp_path / "precious").read_text() == "precious"


def test_on_an_object_store_a_second_process_waits_too_and_a_lost_lock_finishes_nothing(monkeypatch):
    monkeypatch.setattr(store_lock, "_WAIT_SECONDS", 0.02)
    seen = []

    def second(root: str) -> None:
        with work_folder(root, "same") as folder:
            seen.append(files.exists(f"{folder}/{FINISHED}"))

    with s3_server() as bucket:
        waiting = threading.Thread(target=second, args=(f"{bucket}/work",))
        with work_folder(f"{bucket}/work", "same"):
            waiting.start()
            time.sleep(0.2)
            assert not seen
        waiting.join()
        assert seen == [True]
        with (
            pytest.raises(StorageError, match="another writer took it over"),
            work_folder(f"{bucket}/work", "lost") as folder,
        ):
            files.write_text(f"{folder}/lock", "another")
        assert not files.exists(f"{folder}/{FINISHED}")


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
    assert "checkpoints" in leave(tmp_path, "two", finished=True) and not caplog.records
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
        refused(KeyboardInterrupt, "", leave, tmp_path, "two", finished=False)
    monkeypatch.setattr(files, "remove_tree", real)
    assert leave(tmp_path, "two", finished=False)[-1] == "lock"
    assert not (tmp_path / "same" / "history.jsonl").exists()
    assert "by-one" not in os.listdir(tmp_path / "same" / "checkpoints")


def fingerprint(warm_start: str = "", checkpoint: str = "") -> str:
    return fingerprint_files(starting_files(warm_start, checkpoint))


def test_a_detector_takes_the_place_of_the_checkpoint(tmp_path):
    assert starting_files("", "") == [] and fingerprint() == ""
    base, checkpoint = fake_detector(tmp_path / "base", "a"), fake_checkpoint(tmp_path / "zoo", "b")
    assert fingerprint(base, checkpoint) == fingerprint(base) != fingerprint("", checkpoint)
    assert starting_files(base, f"zoo:{NAME}") == starting_files(base, "")  # nothing is fetched


def test_the_content_counts_and_no_name_on_an_object_store_too(tmp_path):
    first = fingerprint("", fake_checkpoint(tmp_path / "a"))
    assert fingerprint("", fake_checkpoint(tmp_path / "b", name="model.ckpt-7")) == first
    assert fingerprint(fake_detector(tmp_path / "base")) == first
    # Trained again in place, with the same size and time.
    path = tmp_path / "a" / "ckpt-0.data-00000-of-00001"
    state = path.stat()
    path.write_text("WEIGHTS")
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))
    assert fingerprint("", str(tmp_path / "a" / "ckpt-0")) != first
    # A change in the middle of large weights.
    large = ["x" * 300_000 + middle + "x" * 300_000 for middle in "yz"]
    found = {fingerprint("", fake_checkpoint(tmp_path / text[300_000], text)) for text in large}
    assert len(found) == 2
    with s3_server() as bucket:
        found = []
        for name, content in (("a", "weights"), ("b", "weights"), ("a", "WEIGHTS")):
            files.copy_tree(fake_detector(tmp_path / name, content), f"{bucket}/{name}")
            found.append(fingerprint(f"{bucket}/{name}"))
    assert found[0] == found[1] != found[2]


def test_what_is_not_there_is_said(tmp_path):
    refused(ModelError, "expected a checkpoint", starting_files, "", str(tmp_path / "ckpt-0"))
    prefix = fake_checkpoint(tmp_path / "cut")
    Path(f"{prefix}.data-00000-of-00001").unlink()
    refused(ModelError, "expected 1 data file", starting_files, "", prefix)
    refused(ContractError, "expected a detector folder", starting_files, str(tmp_path), "")


def test_published_weights_are_fetched_and_count_by_content(tmp_path, monkeypatch):
    monkeypatch.setenv("DETFLOW_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("DETFLOW_WEIGHTS_MIRROR", raising=False)
    (tmp_path / "mirror").mkdir()
    (tmp_path / "mirror" / f"{NAME}.tar.gz").write_bytes(archive())
    found = starting_files("", f"zoo:{NAME}", mirror=str(tmp_path / "mirror"))
    folder = f"{tmp_path}/cache/zoo/{NAME}/checkpoint"
    assert found == [f"{folder}/ckpt-0.data-00000-of-00001", f"{folder}/ckpt-0.index"]
    assert starting_files("", f"zoo:{NAME}") == found
    same = tmp_path / "same"
    same.mkdir()
    for path in found:
        (same / os.path.basename(path)).write_bytes(Path(path).read_bytes())
    assert fingerprint("", str(same / "ckpt-0")) == fingerprint("", f"zoo:{NAME}")


def test_what_was_found_is_kept_as_far_as_it_divides_the_batch(tmp_path):
    assert settled_parts(OPTIONS, str(tmp_path)) == 1
    BATCH_PARTS.write(str(tmp_path), BatchParts(gradient_accumulation_steps=3))
    assert settled_parts(OPTIONS, str(tmp_path)) == 4
    asked = dataclasses.replace(OPTIONS, gradient_accumulation_steps=2)
    assert settled_parts(asked, str(tmp_path)) == 2
    # Two replicas have half of the eight images each.
    BATCH_PARTS.write(str(tmp_path), BatchParts(gradient_accumulation_steps=5))
    with tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"]).scope():
        assert settled_parts(OPTIONS, str(tmp_path)) == 4


def test_one_of_several_workers_notes_a_number_for_the_next_start(tmp_path):
    error = BatchTooLargeError("too large", where="here")
    for parts, found in ((1, 2), (2, 4), (4, 8)):
        set_more_parts(error, OPTIONS, parts, str(tmp_path))
        assert settled_parts(OPTIONS, str(tmp_path)) == found
    fixed = dataclasses.replace(OPTIONS, gradient_accumulation_steps=2)
    for options, parts in ((OPTIONS, 8), (fixed, 2)):
        refused(BatchTooLargeError, "here: too large", set_more_parts, error, options, parts, str(tmp_path))


def test_where_not_even_one_image_fits_it_is_said(tmp_path):
    class Nothing(TrialUpdates):
        """The memory holds no update: `least_parts` says 0 then."""

        def least_parts(self, above: int) -> int:
            return 0

    trial = Nothing(
        model=TinyModel(), make_dataset=make_dataset, optimization=lambda: None, options=OPTIONS,
        step=None, reset=lambda: None,
    )  # fmt: skip
    error = BatchTooLargeError("too large", where="here")
    for asked in (0, 1):
        with pytest.raises(BatchTooLargeError, match=r"here: too large\. Nor does it hold one image at a t"):
            fitting_parts(error, trial, 1, asked, str(tmp_path))
    assert not list(tmp_path.iterdir())
