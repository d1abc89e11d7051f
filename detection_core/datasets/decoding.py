"""Which images are decoded during ingestion, and with which decoders."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

from detection_core.data.pixels import check_with_both, check_with_pillow
from detection_core.errors import ConfigError

SAMPLE_FRACTION, SAMPLE_LEAST = 0.001, 16
"""Default fraction of a split that is decoded, and minimum number of images."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Decoding:
    """How much of a data set is decoded.

    Attributes:
        fraction: of a split's images.
        least: images of a split, whatever the fraction.
        check: what is done to an image file's bytes.
        decoders: their names, for the dataset card.
    """

    fraction: float
    least: int
    check: Callable[[bytes], None]
    decoders: tuple[str, ...]

    def images_of(self, examples: int) -> int:
        """Return how many of a split's images are decoded."""
        return min(examples, max(self.least, math.ceil(self.fraction * examples)))

    def images_in(self, begin: int, end: int, examples: int) -> int:
        """Return how many images from `begin` to `end` of a split are decoded; shards add up to the split."""
        decoded = self.images_of(examples)
        return end * decoded // examples - begin * decoded // examples if examples else 0


DECODINGS = {
    "sample": Decoding(
        fraction=SAMPLE_FRACTION, least=SAMPLE_LEAST, check=check_with_pillow, decoders=("Pillow",)
    ),
    "all": Decoding(fraction=1.0, least=0, check=check_with_both, decoders=("Pillow", "TensorFlow")),
    "none": Decoding(fraction=0.0, least=0, check=check_with_pillow, decoders=()),
}


def find_decoding(name: str) -> Decoding:
    """Return what the `decode_images` parameter asks for.

    Raises:
        ConfigError: for another word.
    """
    if name not in DECODINGS:
        raise ConfigError(f"expected one of {sorted(DECODINGS)}, found {name!r}", where="decode_images")
    return DECODINGS[name]
