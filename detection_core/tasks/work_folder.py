"""The durable folder of one training: named by what was asked for, used by one process at a time."""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
from collections.abc import Iterable, Iterator

from detection_core import files, local_files
from detection_core.config.load import format_pipeline_config
from detection_core.protos.pipeline_pb2 import TrainEvalPipelineConfig
from detection_core.training.distribution import Worker

_logger = logging.getLogger(__name__)

FINISHED = "FINISHED"
_SAMPLE = 1 << 16


def training_fingerprint(
    config: TrainEvalPipelineConfig, *, inputs: Iterable[str] = (), version: str = ""
) -> str:
    """Name what a training was asked to do, wherever its files lie.

    Where the examples lie and how the result is evaluated do not count; the content of the examples does.

    Args:
        config: as run.
        inputs: patterns of further files that the result depends on (a warm start's weights).
        version: anything else that the result depends on.

    Returns:
        Sixteen hexadecimal digits.
    """
    about = TrainEvalPipelineConfig()
    about.CopyFrom(config)
    reader = about.train_input_reader
    patterns = [files.escape(reader.label_map_path), *reader.tf_record_input_reader.input_path, *inputs]
    reader.ClearField("label_map_path")
    reader.tf_record_input_reader.ClearField("input_path")
    for field in ("eval_config", "eval_input_reader"):
        about.ClearField(field)
    digest = hashlib.sha256()
    digest.update(f"{version}\n{format_pipeline_config(about)}".encode())
    for pattern in patterns:
        for path in files.glob(pattern):
            digest.update(f"\n{os.path.basename(path)} ".encode())
            digest.update(_sampled_content(path))
    return digest.hexdigest()[:16]


def _sampled_content(path: str) -> bytes:
    """Digest of a file's size, beginning and end: enough to tell files apart, quick on terabytes."""
    with files.open_file(path, "rb") as f:
        head = f.read(_SAMPLE)
        f.seek(0, os.SEEK_END)
        size = f.tell()
        f.seek(max(0, size - _SAMPLE))
        tail = f.read(_SAMPLE)
    return hashlib.sha256(head + tail + str(size).encode()).digest()


@contextlib.contextmanager
def work_folder(
    root: str, fingerprint: str, *, keep_finished: int = 3, worker: Worker | None = None
) -> Iterator[str]:
    """Hold the folder of a training for the length of a `with` block.

    A second process that wants the same training waits for the first, then finds it done. When the block ends
    without an error the folder is marked finished and stays, so that a kill between here and whoever takes
    the results costs nothing; of finished ones the newest few are kept.

    Args:
        root: durable folder.
        fingerprint: from `training_fingerprint`.
        keep_finished: how many finished folders stay below `root`.
        worker: of several workers the chief holds the folder for all.
    """
    folder = files.join(root, fingerprint)
    files.make_dirs(folder)
    if worker is not None and not worker.is_chief:
        yield folder
        return
    with _locked(folder):
        yield folder
        files.write_text(files.join(folder, FINISHED), "")
        _prune(root, keep_finished, keep=fingerprint)


@contextlib.contextmanager
def _locked(folder: str) -> Iterator[None]:
    """Hold a lock that the operating system releases when the process dies; object stores have none."""
    if files.is_remote(folder):
        yield
        return
    with contextlib.ExitStack() as held:
        path = os.path.join(folder, "lock")
        try:
            held.enter_context(local_files.lock(path, wait=False))
        except BlockingIOError:
            _logger.warning("%s: another process trains exactly this; waiting for it to end", folder)
            while True:
                try:
                    held.enter_context(local_files.lock(path))
                    break
                except FileNotFoundError:
                    files.make_dirs(folder)  # pruned by the one that was waited for
        yield


def _prune(root: str, keep_finished: int, keep: str) -> None:
    """Remove all but the newest finished folders; one unfinished or in use is never touched."""
    if files.is_remote(root):
        return
    marks = {name: os.path.join(root, name, FINISHED) for name in files.list_dir(root)}
    finished = [name for name, mark in marks.items() if os.path.exists(mark) and name != keep]
    finished.sort(key=lambda name: os.path.getmtime(marks[name]), reverse=True)
    for name in finished[max(0, keep_finished - 1) :]:
        path = os.path.join(root, name, "lock")
        with contextlib.suppress(BlockingIOError), local_files.lock(path, wait=False):
            files.remove_tree(os.path.join(root, name))
