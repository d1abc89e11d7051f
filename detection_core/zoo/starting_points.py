"""Initial weights: `zoo:NAME`, `imagenet:BACKBONE`, or the path of a checkpoint."""

import dataclasses

from detection_core.errors import ConfigError, shorten
from detection_core.zoo.cache import FetchedModel, fetch_file, fetch_model
from detection_core.zoo.keras_backbones import IMAGENET, PUBLISHED_BACKBONES, PublishedBackbone
from detection_core.zoo.networks import find_model

ZOO = "zoo:"


@dataclasses.dataclass(frozen=True, kw_only=True)
class FetchedStart:
    """Initial weights, ready to read.

    Attributes:
        path: prefix of a checkpoint, or a file of a backbone's weights.
        backbone: the file's backbone; None for a checkpoint.
        model: the published detector of the checkpoint; None for another checkpoint.
    """

    path: str
    backbone: PublishedBackbone | None = None
    model: FetchedModel | None = None


def is_named(start: str) -> bool:
    """Tell whether a `fine_tune_checkpoint` names published weights rather than a path."""
    return start.startswith(ZOO) or start.partition(":")[0] == IMAGENET


def fetch_start(start: str, *, mirror: str = "") -> FetchedStart:
    """Return initial weights; fetch published ones if they are not cached.

    `start` is `zoo:NAME`, the name of a `PublishedBackbone`, or a path, which is returned unchanged. See
    `zoo.cache.fetch_file` for `mirror`.

    Raises:
        ConfigError: when the name is unknown.
        ModelError: when they cannot be fetched, or have changed.
        StorageError: when the cache cannot be written.
    """
    if not is_named(start):
        return FetchedStart(path=start)
    if start.startswith(ZOO):
        model = fetch_model(find_model(start.removeprefix(ZOO)), mirror=mirror)
        return FetchedStart(path=model.checkpoint, model=model)
    backbone = next((known for known in PUBLISHED_BACKBONES if known.name == start), None)
    if backbone is None:
        names = ", ".join(known.name for known in PUBLISHED_BACKBONES)
        raise ConfigError(
            f"expected one of {names}, found {shorten(start)}; correct the name", where=IMAGENET
        )
    return FetchedStart(path=fetch_file(backbone.file, mirror=mirror), backbone=backbone)
