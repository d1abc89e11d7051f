"""Find the files of a training's starting weights without TensorFlow, and fingerprint their content."""

import hashlib
from collections.abc import Iterable

from detection_core.artifacts import detector as layout
from detection_core.training.checkpoint_prefix import checkpoint_files, find_prefix
from detection_core.zoo.cache import content_state
from detection_core.zoo.starting_points import fetch_start


def starting_files(warm_start: str, fine_tune_checkpoint: str, *, mirror: str = "") -> list[str]:
    """Return the paths of the files with the starting weights; none for random weights.

    Args:
        warm_start: detector folder, which replaces the checkpoint; "" for none.
        fine_tune_checkpoint: of the train_config, as `config.starting_point` returns it; "" for none.
            Published weights are downloaded if not cached.
        mirror: location with copies of published weights; see `zoo.cache.fetch_file`.

    Raises:
        ConfigError: if nothing is published under the name.
        ContractError: if the folder is not a detector folder of this project.
        ModelError: if the checkpoint is missing or incomplete, or cannot be fetched.
    """
    if warm_start:
        layout.read_info(warm_start)  # raises for a folder of another tool
        fine_tune_checkpoint = layout.extra_file(warm_start, layout.CHECKPOINT)
    if not fine_tune_checkpoint:
        return []
    start = fetch_start(fine_tune_checkpoint, mirror=mirror)
    return [start.path] if start.backbone else checkpoint_files(find_prefix(start.path))


def fingerprint_files(paths: Iterable[str]) -> str:
    """Return a fingerprint of the files' content, independent of their names; "" without a file."""
    states = [content_state(path) for path in paths]
    return hashlib.sha256("\n".join(states).encode()).hexdigest()[:16] if states else ""
