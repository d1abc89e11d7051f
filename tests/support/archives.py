"""Archives, checkpoints and detectors of a few bytes, and broken ones."""

import io
import tarfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from detection_core.artifacts import detector as layout
from detection_core.storage import files

NAME = "efficientdet_d0_coco17_tpu-32"
FILES: Mapping[str, bytes] = {
    "checkpoint/checkpoint": b'model_checkpoint_path: "ckpt-0"\n',
    "checkpoint/ckpt-0.index": b"index",
    "checkpoint/ckpt-0.data-00000-of-00001": bytes(range(256)) * 400,
    "saved_model/saved_model.pb": b"a graph that nobody needs",
    "pipeline.config": b"model { }\n",
}


def archive(
    files: Mapping[str, bytes] = FILES, *, name: str = NAME, more: tuple[tarfile.TarInfo, ...] = ()
) -> bytes:
    """Pack files below a folder, and members without content after them."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz", compresslevel=1) as tar:
        folder = tarfile.TarInfo(name)
        folder.type = tarfile.DIRTYPE
        tar.addfile(folder)
        for path, content in files.items():
            member = tarfile.TarInfo(f"{name}/{path}")
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
        for member in more:
            tar.addfile(member)
    return buffer.getvalue()


def use_cache_below(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep fetched files in a folder of the test, and know no mirror; return where they are."""
    monkeypatch.setenv("DETFLOW_CACHE", str(folder / "cache"))
    monkeypatch.delenv("DETFLOW_WEIGHTS_MIRROR", raising=False)
    return folder / "cache" / "zoo"


def member(path: str, kind: bytes = tarfile.REGTYPE, target: str = "") -> tarfile.TarInfo:
    """A member without content."""
    info = tarfile.TarInfo(path)
    info.type, info.linkname = kind, target
    return info


def fake_checkpoint(folder: Path, content: str = "weights", name: str = "ckpt-0") -> str:
    """Write the files of a checkpoint that nobody reads; return its prefix."""
    files.write_text(str(folder / f"{name}.index"), "index")
    files.write_text(str(folder / f"{name}.data-00000-of-00001"), content)
    return str(folder / name)


def fake_detector(folder: Path, content: str = "weights") -> str:
    """Write a detector's folder as far as checks before a run look at it."""
    serving = folder / layout.SERVING
    info = layout.DetectorInfo(
        kind="float", name="ssd", parameters=1, num_classes=1, input_size=(1, 1), extra={}
    )
    files.write_text(str(serving / layout.SAVED_MODEL), "graph")
    files.write_text(str(serving / layout.EXTRA / layout.MODEL_INFO), layout.MODEL.format(info))
    fake_checkpoint(serving / layout.EXTRA / "checkpoint", content)
    return str(folder)
