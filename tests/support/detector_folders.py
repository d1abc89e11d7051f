"""Detector folders around any SavedModel, and folders that only look like one."""

from pathlib import Path

from detection_core.artifacts import detector as layout
from detection_core.storage import files


def save_as_detector(detector: object, folder: Path) -> str:
    """Write a module of `tests.support.blobs` as the folder of a detector."""
    from tests.support.blobs import save_folder

    return save_folder(detector, folder)


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
    files.write_text(str(serving / layout.EXTRA / layout.MODEL_INFO), layout.format_info(info))
    fake_checkpoint(serving / layout.EXTRA / "checkpoint", content)
    return str(folder)
