"""Masks as annotation tools store them, to COCO's run lengths."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from detection_core.datasets.annotated_images import Rejected, RunLengths

if TYPE_CHECKING:  # settings that are read need no arrays
    import numpy as np
    import numpy.typing as npt

MOST_PIXELS = 1 << 27
"""Of a mask: as many as an image may have."""


def place_mask(patch: npt.NDArray[np.bool_], left: int, top: int, width: int, height: int) -> RunLengths:
    """Return the mask of an image that is a smaller one at some place.

    Args:
        patch: [h, w], which pixels are the object's; what leaves the image is cut off.
        left: column of its first pixel in the image.
        top: row likewise.
        width: of the image in pixels.
        height: likewise.

    Raises:
        Rejected: when the image is empty or too large for a mask.
    """
    import numpy as np

    if not 0 < width * height <= MOST_PIXELS or min(width, height) < 1:
        raise Rejected(
            "malformed_annotation", f"expected a mask of an image, found one of {width}x{height} pixels"
        )
    whole: npt.NDArray[np.bool_] = np.zeros((height, width), np.bool_)
    y, x = max(top, 0), max(left, 0)
    inside = patch[y - top : max(height - top, 0), x - left : max(width - left, 0)]
    if inside.size:
        whole[y : y + inside.shape[0], x : x + inside.shape[1]] = inside
    flat = whole.ravel(order="F")
    edges: npt.NDArray[np.intp] = np.flatnonzero(flat[1:] != flat[:-1]) + 1
    counts = np.diff([0, *edges, flat.size]).tolist()
    return RunLengths(height, width, [0, *counts] if flat[0] else counts)


def row_mask(counts: Sequence[int], width: int, height: int) -> npt.NDArray[np.bool_]:
    """Return a mask from runs along its rows, zeros first, as CVAT writes them.

    Raises:
        Rejected: when the runs are not as long as the mask.
    """
    import numpy as np

    if min(width, height, *counts, 0) < 0 or sum(counts) != width * height or sum(counts) > MOST_PIXELS:
        raise Rejected(
            "malformed_annotation", f"expected runs of {width}x{height} pixels, found {sum(counts)} in all"
        )
    return np.repeat(np.arange(len(counts)) % 2 == 1, counts).reshape(height, width)


def brush_mask(data: Sequence[int], width: int, height: int) -> npt.NDArray[np.bool_]:
    """Return a mask from Label Studio's run lengths: the bytes of an RGBA picture as a stream of bits.

    32 bits give the number of values, 5 the length of one (less one), 4 each the four lengths of runs (less
    one). Then follow runs: a bit that says whether all values are alike, 2 bits that choose the length, and
    the number of values (less one); then one value, or all of them. This is `thi.ng/rle-pack`.

    Args:
        data: the stream's bytes.
        width: of the image in pixels.
        height: likewise.

    Raises:
        Rejected: when the stream is no picture of this size.
    """
    import numpy as np

    total = width * height * 4
    if not 0 < total <= 4 * MOST_PIXELS:
        raise Rejected(
            "malformed_annotation", f"expected a mask of an image, found one of {width}x{height} pixels"
        )
    try:
        bits = _Bits(bytes(data))
        count, word = bits.take(32), bits.take(5) + 1
        lengths = [bits.take(4) + 1 for _ in range(4)]
        if count != total:
            raise ValueError(f"{count} values")
        values: npt.NDArray[np.uint8] = np.zeros(total, np.uint8)
        at = 0
        while at < total:
            alike = bits.take(1)
            run = bits.take(lengths[bits.take(2)]) + 1
            if alike:
                values[at : at + run] = min(bits.take(word), 255)
            else:
                for offset in range(min(run, total - at)):
                    values[at + offset] = min(bits.take(word), 255)
            at += run
    except (ValueError, TypeError) as e:
        raise Rejected(
            "malformed_annotation", f"expected run lengths of a mask of {width}x{height} pixels, found {e}"
        ) from e
    return values.reshape(height, width, 4)[..., 3] > 0


class _Bits:
    """Takes numbers from a stream of bits."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def take(self, length: int) -> int:
        begin, end = self._at, self._at + length
        if end > 8 * len(self._data):
            raise ValueError("a stream that ends too early")
        self._at = end
        part = int.from_bytes(self._data[begin // 8 : (end + 7) // 8], "big")
        return (part >> (-end % 8)) & ((1 << length) - 1)
