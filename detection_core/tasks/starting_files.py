"""The files that a training's first weights come from, and what they hold; found without TensorFlow."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from detection_core.artifacts import detector as layout
from detection_core.storage import files
from detection_core.training.checkpoint_prefix import checkpoint_files, find_prefix


def starting_files(warm_start: str, fine_tune_checkpoint: str) -> list[str]:
    """Return the paths of the files that hold the first weights; none for random ones.

    Args:
        warm_start: detector folder, which takes the place of the checkpoint; "" for none.
        fine_tune_checkpoint: of the train_config; "" for none.

    Raises:
        ContractError: when the detector folder is none, or not one of this project.
        ModelError: when the checkpoint is not there, or a part of it is not.
    """
    if warm_start:
        layout.read_info(warm_start)  # says so where it is none of ours
        fine_tune_checkpoint = layout.extra_file(warm_start, layout.CHECKPOINT)
    return checkpoint_files(find_prefix(fine_tune_checkpoint)) if fine_tune_checkpoint else []


def fingerprint_files(paths: Iterable[str]) -> str:
    """Return a fingerprint of what files hold, whatever they are called; "" without a file."""
    states = [files.content_state(path) for path in paths]
    return hashlib.sha256("\n".join(states).encode()).hexdigest()[:16] if states else ""
