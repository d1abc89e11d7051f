"""The files that a training's first weights come from, and what they hold; found without TensorFlow."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from detection_core.artifacts import detector as layout
from detection_core.training.checkpoint_file import checkpoint_files, find_prefix
from detection_core.zoo.cache import content_state
from detection_core.zoo.starting_points import fetch_start


def starting_files(warm_start: str, fine_tune_checkpoint: str, *, mirror: str = "") -> list[str]:
    """Return the paths of the files that hold the first weights; none for random ones.

    Args:
        warm_start: detector folder, which takes the place of the checkpoint; "" for none.
        fine_tune_checkpoint: of the train_config, as `config.starting_point` gives it; "" for none. Published
            weights that it names are fetched where they are not on this machine.
        mirror: what has copies of published weights; see `zoo.cache.fetch_file`.

    Raises:
        ConfigError: when nothing is published under the name.
        ContractError: when the detector folder is none, or not one of this project.
        ModelError: when the checkpoint is not there, or a part of it is not, or cannot be fetched.
    """
    if warm_start:
        layout.read_info(warm_start)  # says so where it is none of ours
        fine_tune_checkpoint = layout.extra_file(warm_start, layout.CHECKPOINT)
    if not fine_tune_checkpoint:
        return []
    start = fetch_start(fine_tune_checkpoint, mirror=mirror)
    return [start.path] if start.backbone else checkpoint_files(find_prefix(start.path))


def fingerprint_files(paths: Iterable[str]) -> str:
    """Return a fingerprint of what files hold, whatever they are called; "" without a file."""
    states = [content_state(path) for path in paths]
    return hashlib.sha256("\n".join(states).encode()).hexdigest()[:16] if states else ""
