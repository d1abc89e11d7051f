"""Hold the durable folder of one training, named by a fingerprint and locked by one process."""

import contextlib
import dataclasses
import hashlib
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping

from detection_core.artifacts.detector import PIPELINE_CONFIG
from detection_core.artifacts.model_run import CHECKPOINTS, HISTORY, LOGS, TRAIN_REPORT, VALIDATIONS
from detection_core.artifacts.pictures import FOLDER as PICTURES
from detection_core.builders.train_plan import TrainingIdentity, build_training_identity
from detection_core.config.load import write_as_run
from detection_core.config.pipeline_config import CheckedConfig
from detection_core.storage import files, local_lock
from detection_core.tasks.fitting.starting_files import fingerprint_files
from detection_core.training.checkpoints import CHECKPOINT_FORMAT
from detection_core.training.distribution import Worker
from detection_core.training.loop_options import CHECKPOINT_MINUTES

_logger = logging.getLogger(__name__)

FINISHED = "FINISHED"
CODE = "code_versions"
_LOCK = "lock"
_SAMPLE = 1 << 16


@dataclasses.dataclass(frozen=True, kw_only=True)
class ResumeOptions:
    """How a stopped training is resumed.

    Attributes:
        code_version: names the code. A training finished by other code is repeated; an unfinished one is
            resumed. "" to ignore the code.
        checkpoint_minutes: longest time between checkpoints, plus one step; 0: only step counts decide.
    """

    code_version: str = ""
    checkpoint_minutes: float = CHECKPOINT_MINUTES


DEFAULT_RESUME = ResumeOptions()


def training_fingerprint(config: CheckedConfig, *, weights: Iterable[str] = (), more: str = "") -> str:
    """Return a fingerprint of a training, independent of file paths and of the code.

    It covers the configuration, the content of the examples and of the starting weights, and the format of
    checkpoints. Evaluation settings count only if the training is validated, because validation then selects
    the weights.

    Args:
        config: as run.
        weights: paths of the starting weights' files.
        more: what else changes the result.

    Returns:
        Sixteen hexadecimal digits.
    """
    identity, digest = build_training_identity(config), hashlib.sha256()
    digest.update(f"{CHECKPOINT_FORMAT}\n{identity.text}".encode())
    digest.update(fingerprint_files(weights).encode())
    digest.update(_sampled_inputs(identity))
    digest.update(more.encode())
    return digest.hexdigest()[:16]


def training_origin(config: CheckedConfig) -> dict[str, str]:
    """Fingerprint the configuration and the data of a training separately, for the detector's folder.

    `config_hash` is without the config's paths, `data_fingerprint` of the content of the examples; each has
    sixteen hexadecimal digits.
    """
    identity = build_training_identity(config)
    return {
        "config_hash": hashlib.sha256(identity.text.encode()).hexdigest()[:16],
        "data_fingerprint": hashlib.sha256(_sampled_inputs(identity)).hexdigest()[:16],
    }


def _sampled_inputs(identity: TrainingIdentity) -> bytes:
    paths = [path for pattern in identity.inputs for path in files.glob(pattern)]
    return b"".join(b"\n" + _sampled_content(path) for path in paths)


def _sampled_content(path: str) -> bytes:
    """Digest of a file's size, beginning and end: tells files apart, and is quick on terabytes.

    A file on an object store counts by its size and ETag.
    """
    if files.is_remote(path):
        return files.content_state(path).encode()
    with files.open_regular(path) as f:
        head = f.read(_SAMPLE)
        f.seek(0, os.SEEK_END)
        size = f.tell()
        f.seek(max(0, size - _SAMPLE))
        tail = f.read(_SAMPLE)
    return hashlib.sha256(head + tail + str(size).encode()).digest()


@contextlib.contextmanager
def work_folder(
    root: str,
    fingerprint: str,
    *,
    code_version: str = "",
    keep_finished: int = 3,
    worker: Worker | None = None,
) -> Iterator[str]:
    """Hold the folder of a training for the length of a `with` block.

    A second process with the same training waits for the first, then finds it finished. If the block ends
    without an error, the folder is marked finished. It is kept, in case the caller is killed before it copies
    the results. The newest few finished folders are kept.

    An unfinished training is resumed by any code, with a line in the log. A bug fix must not cost the steps
    before it. A training finished by other code is not reused.

    Args:
        root: durable folder.
        fingerprint: from `training_fingerprint`.
        code_version: names the code that trains; "" to ignore it.
        keep_finished: number of finished folders to keep below `root`.
        worker: with several workers, the chief holds the folder for all.
    """
    folder = files.join(root, fingerprint)
    files.make_dirs(folder)
    if worker is not None and not worker.is_chief:
        yield folder
        return
    with _locked(folder) as check_held:
        _take_up(folder, code_version)
        yield folder
        if check_held is not None:
            check_held()
        files.write_text(files.join(folder, FINISHED), "")
        _prune(root, keep_finished, keep=fingerprint)


def code_versions(folder: str) -> list[str]:
    """Return the code versions that trained in a folder, in order; empty if none was named."""
    path = files.join(folder, CODE)
    return files.read_text(path).split() if files.exists(path) else []


def _take_up(folder: str, code_version: str) -> None:
    """Resume unfinished work of other code, remove its finished work, and note the present code."""
    before = code_versions(folder)
    if not code_version or before[-1:] == [code_version]:
        return
    if before and files.exists(files.join(folder, FINISHED)):
        _logger.info(
            "%s: this training was finished by other code (%s, now %s); it is trained again",
            folder,
            before[-1],
            code_version,
        )
        # The notes are deleted last, so that a kill changes nothing.
        for name in files.list_dir(folder):
            if name not in (_LOCK, FINISHED, CODE):
                files.remove_tree(files.join(folder, name))
        files.remove_tree(files.join(folder, FINISHED))
        before = []
    elif before:
        _logger.warning(
            "%s: going on with a training that other code began (%s, now %s); remove the folder to train from"
            " the start",
            folder,
            before[-1],
            code_version,
        )
    files.write_text(files.join(folder, CODE), "".join(f"{code}\n" for code in [*before, code_version]))


def _locked(folder: str) -> contextlib.AbstractContextManager[Callable[[], None] | None]:
    """Hold a lock that the operating system releases at process exit.

    The lock of an object store may be lost; the yielded function raises a StorageError then.
    """
    if files.is_remote(folder):
        return files.exclusive(files.join(folder, _LOCK))
    busy = "another process trains exactly this; waiting for it to end"
    return local_lock.lock(os.path.join(folder, _LOCK), busy)


def _prune(root: str, keep_finished: int, keep: str) -> None:
    """Remove all but the newest finished folders; unfinished or locked ones are never touched."""
    if files.is_remote(root):
        return
    marks = {name: os.path.join(root, name, FINISHED) for name in files.list_dir(root)}
    finished = [name for name, mark in marks.items() if os.path.exists(mark) and name != keep]
    finished.sort(key=lambda name: os.path.getmtime(marks[name]), reverse=True)
    for name in finished[max(0, keep_finished - 1) :]:
        path = os.path.join(root, name, _LOCK)
        with contextlib.suppress(BlockingIOError), local_lock.lock(path, BlockingIOError()):
            files.remove_tree(os.path.join(root, name))


def write_model_run(
    config: CheckedConfig,
    report: str,
    checkpoint: str,
    work_folder: str,
    model_run_dir: str,
    *,
    tables: Mapping[str, str] | None = None,
) -> None:
    """Write the record of a training atomically; quantization-aware training uses the same.

    Args:
        config: as run.
        report: text of train_report.json.
        checkpoint: prefix of the last checkpoint's files.
        work_folder: has `logs/`, `history.jsonl` and, if the training was validated, `validation.jsonl`.
        model_run_dir: folder to make.
        tables: further files to write, name to text.
    """
    with files.atomic_dir(model_run_dir) as folder:
        write_as_run(config, files.join(folder, PIPELINE_CONFIG))
        name = checkpoint.rpartition("/")[2]
        for path in files.glob(f"{files.escape(checkpoint)}.*"):
            files.copy_file(path, files.join(folder, CHECKPOINTS, path.rpartition("/")[2]))
        # TensorFlow's own note of the latest checkpoint, for its tools.
        files.write_text(files.join(folder, CHECKPOINTS, "checkpoint"), f'model_checkpoint_path: "{name}"\n')
        files.copy_tree(files.join(work_folder, LOGS), files.join(folder, LOGS))
        if files.is_dir(files.join(work_folder, PICTURES)):
            files.copy_tree(files.join(work_folder, PICTURES), files.join(folder, PICTURES))
        for lines in (HISTORY, VALIDATIONS):
            if files.exists(lines.path(work_folder)):
                files.copy_file(lines.path(work_folder), lines.path(folder))
        for file, text in {TRAIN_REPORT.name: report, **(tables or {})}.items():
            files.write_text(files.join(folder, file), text)
