"""Weights to start from count by what they are, not by where they lie."""

import os
from pathlib import Path

import pytest

from detection_core.errors import ContractError, ModelError
from detection_core.storage import files
from detection_core.tasks.starting_files import fingerprint_files, starting_files
from tests.support.archives import NAME, archive
from tests.support.detector_folders import fake_checkpoint, fake_detector
from tests.support.object_store import s3_server


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
    # Trained anew in place, the same size and the same time.
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
    with pytest.raises(ModelError, match="expected a checkpoint"):
        starting_files("", str(tmp_path / "ckpt-0"))
    prefix = fake_checkpoint(tmp_path / "cut")
    Path(f"{prefix}.data-00000-of-00001").unlink()
    with pytest.raises(ModelError, match="expected 1 data file"):
        starting_files("", prefix)
    with pytest.raises(ContractError, match="expected a detector folder"):
        starting_files(str(tmp_path), "")


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
