"""Resolve paths to checkpoint files, without TensorFlow."""

import re

from detection_core.errors import ModelError
from detection_core.storage import files


def find_prefix(path: str) -> str:
    """Find the checkpoint of a path: a prefix, one of its files, or a folder with a newest checkpoint.

    For the single-file format before 2017, that file is its prefix.

    Raises:
        ModelError: when there is none, or one of its files is missing.
    """
    prefix = _latest(path.rstrip("/")) if files.is_dir(path) else path
    prefix = re.sub(r"\.(index|data-\d{5}-of-\d{5})$", "", prefix)
    if prefix and files.exists(f"{prefix}.index"):
        check_shards(prefix)
        return prefix
    if prefix and files.exists(prefix) and not files.is_dir(prefix):
        _refuse_other_file(prefix)
        return prefix
    if files.is_dir(path):
        _refuse_other_folder(path)
    raise ModelError(
        "expected a checkpoint, PREFIX.index with PREFIX.data-*, found none; give the prefix, as in"
        " checkpoint/ckpt-0, or the folder",
        where=path,
    )


# First bytes of files that users mistake for checkpoints: offset, bytes, file type, remedy.
_OTHER_FILES = (
    (
        4,
        b"TFL3",
        "a TensorFlow Lite file",
        "it runs with `detflow predict` and `evaluate`; to train on, give the checkpoint that it was made of",
    ),
    (0, b"\x89HDF", "Keras weights (HDF5)", "give a TensorFlow checkpoint, or the word imagenet"),
    (0, b"PK\x03\x04", "a zip archive, as Keras and PyTorch write", "give a TensorFlow checkpoint"),
    (0, b"\x1f\x8b", "a compressed archive", "unpack it, and give the checkpoint in it"),
    (0, b"\x80", "a pickle, as PyTorch writes", "give a TensorFlow checkpoint"),
)
_SAVED_MODEL = "saved_model.pb"


def _refuse_other_file(path: str) -> None:
    """Raise a ModelError that names the type of a file that is no checkpoint, if it is known."""
    name = path.rpartition("/")[2]
    if name == _SAVED_MODEL:
        _refuse_other_folder(path.rpartition("/")[0] or ".")
    with files.open_regular(path) as file:
        begin = file.read(8)
    for offset, magic, kind, remedy in _OTHER_FILES:
        if begin[offset : offset + len(magic)] == magic:
            raise ModelError(f"expected a checkpoint, found {kind}; {remedy}", where=path)
    if name.endswith((".pb", ".onnx")):
        raise ModelError("expected a checkpoint, found a model's graph; give its checkpoint", where=path)


def _refuse_other_folder(folder: str) -> None:
    """Raise a ModelError for a SavedModel's folder, or for one with a checkpoint folder in it."""
    within = files.join(folder, "checkpoint")
    if files.is_dir(within):
        found = f"a folder with one in it; give {within}"
    elif files.exists(files.join(folder, _SAVED_MODEL)):
        found = (
            "a SavedModel; it runs with `detflow predict` and `evaluate`. To train on, give the checkpoint"
            " that it was made of. A folder that detflow wrote can be the detector to start from"
            " (`train.warm_start`, `--warm-start`)"
        )
    else:
        return
    raise ModelError(f"expected a checkpoint, found {found}", where=folder)


def _latest(folder: str) -> str:
    """Return the prefix that TensorFlow's `checkpoint` file calls the latest, or ""."""
    note = files.join(folder, "checkpoint")
    try:
        text = files.read_text(note) if files.exists(note) and not files.is_dir(note) else ""
    except UnicodeDecodeError:
        text = ""  # no `checkpoint` file
    latest = re.search(r'^model_checkpoint_path: "(.+)"', text)
    # The folder may have been moved since an absolute path was written to the file.
    return files.join(folder, latest[1].rpartition("/")[2]) if latest else ""


def check_shards(prefix: str) -> None:
    """Refuse a checkpoint with missing files; ModelError names the first missing data file."""
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
    """Return the sorted paths of a checkpoint's files, given the prefix from `find_prefix`."""
    if files.exists(prefix) and not files.is_dir(prefix):
        return [prefix]
    folder, _, name = prefix.rpartition("/")
    return files.list_matching(folder or ".", f"{files.escape(name)}.*")
