"""Choose tiles for images whose objects are too small in the network's input."""

import dataclasses
import math

import numpy as np

from detection_core.datasets.survey import Survey
from detection_core.ops.tile_options import TileOptions
from detection_core.ops.tiles import tile_windows
from detection_core.zoo.fine_tuning import Choice
from detection_core.zoo.networks import Network
from pipeline.init.hardware import Hardware
from pipeline.init.network_choice import SMALL_SHARE, SMALLEST_OBJECT, wanted_side

_TOO_SMALL = SMALLEST_OBJECT / 2
"""Side of an object in the network's input, pixels, below which whole images do not do."""
_LEAST_GAIN = 1.5  # times that a tile enlarges objects
_MULTIPLE = 32
_OVERLAPS = (0.1, 0.3)
_SOURCE = "https://arxiv.org/abs/2202.06934"


@dataclasses.dataclass(frozen=True, kw_only=True)
class TileChoice:
    """Tiles for a data set.

    Attributes:
        options: how images are divided.
        records: training examples of an image: its tiles and itself.
        setting: the settings' entry, with the reason.
    """

    options: TileOptions
    records: int
    setting: Choice


def choose_tiles(seen: Survey, network: Network, hardware: Hardware) -> TileChoice | None:
    """Return tiles in which small objects keep enough pixels, or None if whole images do.

    The tiles are as large as the objects allow, because each costs as much time as a whole image.
    """
    if not len(seen.boxes) or not len(seen.sizes):
        return None
    side = wanted_side(seen, hardware)[0] if network.from_scratch else network.side
    height, width = np.median(seen.sizes, axis=0)
    own = math.sqrt(height * width)
    small = float(np.percentile(np.sqrt(np.prod(_sides_px(seen), axis=1)), SMALL_SHARE))
    tile = max(side, round(side * small / SMALLEST_OBJECT / _MULTIPLE) * _MULTIPLE)
    if small * side / own >= _TOO_SMALL or tile * _LEAST_GAIN > own:
        return None
    # Objects that the whole image shows too small should be whole in a tile.
    low, high = _OVERLAPS
    overlap = min(max(math.ceil(20 * SMALLEST_OBJECT * own / side / tile) / 20, low), high)
    options = TileOptions(size=tile, overlap=overlap)
    tiles = len(tile_windows(round(height), round(width), options))
    reason = (
        f"one object in ten is smaller than {small:.0f} pixels, and pictures of {width:.0f} x {height:.0f}"
        f" have to fit into {side} pixels a side, which leaves it {small * side / own:.0f}; in tiles it keeps"
        f" {small * side / tile:.0f}. A picture has {tiles} tiles, so training and detection take about that"
        " many times as long"
    )
    value = {"size": tile, "overlap": overlap}
    setting = Choice(path="data.tiles", value=value, reason=reason, source=_SOURCE)
    return TileChoice(options=options, records=tiles + 1, setting=setting)


def tiled(seen: Survey, tiles: TileChoice | None) -> Survey:
    """Return what the network sees: boxes in tiles instead of whole images, as far as they fit in one."""
    if tiles is None:
        return seen
    size = tiles.options.size
    sides = _sides_px(seen) / size
    inside = sides[(sides <= 1).all(axis=1)]
    boxes = np.concatenate([np.zeros_like(inside), inside], axis=1).astype(np.float32)
    return dataclasses.replace(seen, boxes=boxes, sizes=np.full_like(seen.sizes, size))


def _sides_px(seen: Survey) -> np.ndarray:
    """Return the boxes' heights and widths, float [N, 2], in pixels of an image of the median size."""
    return np.asarray((seen.boxes[:, 2:] - seen.boxes[:, :2]) * np.median(seen.sizes, axis=0))
