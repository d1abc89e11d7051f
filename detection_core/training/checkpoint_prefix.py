"""Which files a path to a checkpoint means, resolved without TensorFlow."""

from __future__ import annotations

import re

from detection_core.errors import ModelError
from detection_core.storage import files


def find_prefix(path: str) -> str:
    """Find the checkpoint that a path means.

    Args:
        path: prefix of the checkpoint's files, one of them, or a folder whose newest checkpoint is meant.

    Returns:
        Its prefix; for a checkpoint in the format before 2017, which is one file, that file.

    Raises:
        ModelError: when there is none, or one of its files is missing.
    """
    prefix = _latest(path.rstrip("/")) if files.is_dir(path) else path
    prefix = re.sub(r"\.(index|data-\d{5}-of-\d{5})$", "", prefix)
    if prefix and files.exists(f"{prefix}.index"):
        _check_shards(prefix)
        return prefix
    if prefix and files.exists(prefix) and not files.is_dir(prefix):
        return prefix
    raise ModelError(
        "expected a checkpoint, PREFIX.index with PREFIX.data-*, found none; give the prefix, as in"
        " checkpoint/ckpt-0, or the folder",
        where=path,
    )


def _latest(folder: str) -> str:
    """Prefix of the checkpoint that TensorFlow's note in a folder calls the latest, or ""."""
    note = files.join(folder, "checkpoint")
    try:
        text = files.read_text(note) if files.exists(note) else ""
    except UnicodeDecodeError:
        text = ""  # no note of TensorFlow's
    latest = re.search(r'^model_checkpoint_path: "(.+)"', text)
    # The folder may have been moved since the note was written with a whole path.
    return files.join(folder, latest[1].rpartition("/")[2]) if latest else ""


def _check_shards(prefix: str) -> None:
    """Refuse a checkpoint whose files are not all there."""
    folder, _, name = prefix.rpartition("/")
    shard = re.compile(re.escape(name) + r"\.data-(\d{5})-of-(\d{5})")
    shards = [match.groups() for match in map(shard.fullmatch, files.list_dir(folder or ".")) if match]
    count = max((int(count) for _, count in shards), default=1)
    missing = sorted({f"{i:05d}" for i in range(count)} - {i for i, of in shards if int(of) == count})
    if missing:
        raise ModelError(
            f"expected {count} data file{'s' * (count > 1)} beside the checkpoint's index, found"
            f" {count - len(missing)}, without {name}.data-{missing[0]}-of-{count:05d}; copy the checkpoint"
            " again, with all of its files",
            where=prefix,
        )


def checkpoint_files(prefix: str) -> list[str]:
    """Return the paths of a checkpoint's files, sorted.

    Args:
        prefix: from `find_prefix`.
    """
    if files.exists(prefix) and not files.is_dir(prefix):
        return [prefix]
    folder, _, name = prefix.rpartition("/")
    return files.list_matching(folder or ".", f"{files.escape(name)}.*")
