"""How images are divided into tiles."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from detection_core.allowed_values import DECAY, FRACTION, SIDE
from detection_core.errors import ConfigError


@dataclasses.dataclass(frozen=True, kw_only=True)
class TileOptions:
    """How images are divided.

    Attributes:
        size: side of a tile, pixels.
        overlap: fraction of `size` that neighbours share at least. Objects up to it are whole in some tile.
        min_visibility: fraction of a box inside a tile from which training keeps the object there.
    """

    size: int
    overlap: float = 0.2
    min_visibility: float = 0.3

    def __post_init__(self) -> None:
        """Check the values. Raises ConfigError if one is out of range."""
        for name, allowed in {"size": SIDE, "overlap": DECAY, "min_visibility": FRACTION}.items():
            value = getattr(self, name)
            known = int if name == "size" else (int, float)
            if isinstance(value, bool) or not isinstance(value, known) or not allowed.holds(value):
                raise ConfigError(f"expected {allowed.text}, found {value}", where=f"tiles.{name}")


def tile_options(values: Mapping[str, Any]) -> TileOptions | None:
    """Return options from a mapping of their fields, None from an empty one; ConfigError for unknown ones."""
    if not values:
        return None
    names = {field.name for field in dataclasses.fields(TileOptions)}
    if not {"size"} <= values.keys() <= names:
        raise ConfigError(f"expected size and any of {sorted(names)}, found {sorted(values)}", where="tiles")
    return TileOptions(**values)


def parse_tiles(text: str) -> dict[str, float]:
    """Return the fields of `SIZE[:OVERLAP]`, checked; "" gives none."""
    if not text:
        return {}
    size, colon, overlap = text.partition(":")
    try:
        found = {"size": int(size), **({"overlap": float(overlap)} if colon else {})}
    except ValueError as error:
        expected = "expected SIZE or SIZE:OVERLAP like 640:0.2"
        raise ConfigError(f"{expected}, found {text!r}", where="tiles") from error
    tile_options(found)
    return found
