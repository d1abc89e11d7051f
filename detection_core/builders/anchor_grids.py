"""Build the grids of anchors in pixels, without TensorFlow."""

from collections.abc import Sequence

from detection_core.parts.anchors.choice import AnchorGrid, Size, size_of
from detection_core.protos import flexible_grid_anchor_generator_pb2 as flexible
from detection_core.protos.grid_anchor_generator_pb2 import GridAnchorGenerator


def grid_of_pairs(message: GridAnchorGenerator) -> AnchorGrid:
    """Return the grid of a `GridAnchorGenerator` message, with every pair of scale and aspect ratio.

    Faster R-CNN, https://arxiv.org/abs/1506.01497.
    """
    pairs = [size_of(scale, ratio) for ratio in message.aspect_ratios for scale in message.scales]
    return _in_pixels(message, [(height * message.height, width * message.width) for height, width in pairs])


def listed_grid(message: flexible.AnchorGrid) -> AnchorGrid:
    """Return the grid of an `AnchorGrid` message, which lists its anchors."""
    pairs = zip(message.base_sizes, message.aspect_ratios, strict=True)
    return _in_pixels(message, [size_of(base, ratio) for base, ratio in pairs])


def _in_pixels(message: GridAnchorGenerator | flexible.AnchorGrid, sizes: Sequence[Size]) -> AnchorGrid:
    return AnchorGrid(
        stride=(float(message.height_stride), float(message.width_stride)),
        offset=(float(message.height_offset), float(message.width_offset)),
        sizes=sizes,
    )
