"""Choose images that are worth labelling, in two stages: first what is uncertain, then what is different.

Two stages are those of Yang, Huang and Crowley, "Plug and Play Active Learning for Object Detection" (2022,
https://arxiv.org/abs/2211.11612). The parts are simpler than theirs, so that any detector will do:

- Uncertainty is the entropy of each detection's score, summed over the image. The sum and the weights against
  rare classes are those of Brust, Käding and Denzler, "Active Learning for Deep Object Detection" (2018,
  https://arxiv.org/abs/1809.09875).
- Difference is k-center-greedy of Sener and Savarese, "Active Learning for Convolutional Neural Networks: A
  Core-Set Approach" (2017, https://arxiv.org/abs/1708.00489). Theirs is a distance of a network's features,
  which exported detectors do not output. Here it is that of detected objects and of a small grey picture. It
  is multiplied by the uncertainty, as in the weighted problem of Dyer and Frieze, "A Simple Heuristic for the
  p-Centre Problem" (1985), so that an image of which the detector is sure is not chosen for its look.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

CANDIDATES = 4
"""Number of uncertain images from which one is chosen for its difference, as in Yang et al."""

HASH_BYTES = 32
"""Length of an image's hash."""

_SIZES = (0.1, 0.3)
"""Square roots of a box's part of the image, which part small, medium and large objects."""
_CELLS = 8
"""Rows and columns of the grey picture."""
_LEAST_BITS = 1e-3
"""Added to an uncertainty, so that the distance decides between images without detections."""
_CHUNK = 1024


class Objects(NamedTuple):
    """Objects of an image: class in [0, C), score in [0, 1] and size, the root of its part of the image."""

    classes: Sequence[int]
    scores: Sequence[float]
    sizes: Sequence[float]


def class_weights(counts: np.ndarray) -> np.ndarray:
    """Return a weight for each class, float64 [C], from its number of labels; 1 for equally frequent ones."""
    return (counts.mean() + 1) / (counts + 1)


def uncertainty(objects: Objects, weights: np.ndarray) -> np.ndarray:
    """Return the weighted entropy that each class adds to the image's, float64 [C], in bits."""
    scores = np.clip(np.asarray(objects.scores, np.float64), 1e-9, 1 - 1e-9)
    bits = -(scores * np.log2(scores) + (1 - scores) * np.log2(1 - scores))
    classes = np.asarray(objects.classes, np.int64)
    return weights * np.bincount(classes, weights=bits, minlength=len(weights))


def embed(objects: Objects, num_classes: int, grey: np.ndarray) -> np.ndarray:
    """Describe an image by its objects and its look, float32 [D]; distances are Euclidean.

    The first part has the square root of each class's share of objects by size. Scores weigh objects, so
    that labels (score 1) and detections compare. Its distance is Hellinger's, in [0, 1]. That of the second
    part is the root mean square difference of 8 x 8 grey levels, likewise.

    Args:
        objects: of the image.
        num_classes: C.
        grey: levels from 0 to 255, [S, S], with S a multiple of 8.
    """
    sizes = np.digitize(objects.sizes, _SIZES) if len(objects.sizes) else np.zeros(0, np.int64)
    places = np.asarray(objects.classes, np.int64) * (len(_SIZES) + 1) + sizes
    shares = np.bincount(places, weights=objects.scores, minlength=num_classes * (len(_SIZES) + 1))
    mixture = np.sqrt(shares / max(shares.sum(), 1e-9) / 2)
    side = len(grey) // _CELLS
    look = grey.reshape(_CELLS, side, _CELLS, side).mean(axis=(1, 3)).ravel() / (255 * _CELLS)
    return np.concatenate([mixture, look]).astype(np.float32)


def find_distinct(
    order: Sequence[int], hashes: Sequence[bytes], known: Sequence[bytes], number: int, max_bits: int
) -> tuple[list[int], dict[int, int]]:
    """Return the first images of an order of which no two look alike, nor one like a known image.

    Args:
        order: indices of images, best first; the walk ends when `number` are found.
        hashes: hash of each image, 32 bytes.
        known: likewise of images that none may look like.
        number: of images to return, or fewer.
        max_bits: largest distance of the hashes of images that look alike.

    Returns:
        The indices, and for each left-out image the one that it looks like: an index of `hashes`, or of
        `known` as -1 - index.
    """
    kept: list[int] = []
    alike: dict[int, int] = {}
    names = [-1 - place for place in range(len(known))]
    room = bytes(HASH_BYTES * number)
    table = np.frombuffer(bytearray(b"".join([*known, room])), np.uint64).reshape(-1, HASH_BYTES // 8)
    for index in order:
        if len(kept) == number:
            break
        own = np.frombuffer(hashes[index], np.uint64)
        bits = np.bitwise_count(table[: len(names)] ^ own).sum(axis=1)
        if len(bits) and bits.min() <= max_bits:
            alike[index] = names[int(bits.argmin())]
            continue
        table[len(names)] = own
        names.append(index)
        kept.append(index)
    return kept, alike


def spread(
    embeddings: np.ndarray, known: np.ndarray, bits: np.ndarray, number: int
) -> list[tuple[int, float]]:
    """Choose images by weighted k-center-greedy.

    Each has the largest product of its uncertainty and its distance to the nearest known or earlier one.

    Args:
        embeddings: float32 [K, D].
        known: float32 [L, D], may be empty; the most uncertain image is then chosen first.
        bits: float64 [K], uncertainty of each image.
        number: of images to choose, or fewer.

    Returns:
        Index of each image, and its distance to the nearest known or earlier one; inf for the first of all.
    """
    nearest: np.ndarray = np.full(len(embeddings), np.inf)
    for begin in range(0, len(known), _CHUNK):
        others = known[begin : begin + _CHUNK]
        squares = (embeddings**2).sum(1)[:, None] + (others**2).sum(1) - 2 * embeddings @ others.T
        nearest = np.minimum(nearest, np.sqrt(np.maximum(squares, 0).min(axis=1)))
    weights = bits + _LEAST_BITS
    left: np.ndarray = np.ones(len(embeddings), bool)
    chosen: list[tuple[int, float]] = []
    for _ in range(min(number, len(embeddings))):
        gains = weights * nearest if np.isfinite(nearest).all() else weights
        index = int(np.where(left, gains, -1).argmax())
        chosen.append((index, float(nearest[index])))
        nearest = np.minimum(nearest, np.linalg.norm(embeddings - embeddings[index], axis=1))
        left[index] = False
    return chosen
