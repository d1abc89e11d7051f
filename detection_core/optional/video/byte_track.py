"""ByteTrack: follows objects from frame to frame by their boxes.

Zhang et al., ECCV 2022, https://arxiv.org/abs/2110.06864. Confident boxes are matched with all tracks first,
then the other boxes with the remaining tracks of the last frame: an occluded object keeps its track. Boxes
are matched within a class. A confident box without a match begins a track at once.
"""

import itertools
from collections.abc import Sequence

import numpy as np
import scipy.optimize

from detection_core.evaluation.results import iou_px
from detection_core.structures import Instances

LOWEST_SCORE = 0.1
"""Boxes with a lower score are never matched."""

_LOST_FRAMES = 30
# Least overlaps of matches with confident boxes, and with the others.
_FIRST_IOU, _SECOND_IOU = 0.2, 0.5
# Standard deviations of a position and of a speed per frame, relative to the box, as in Wojke et al., 2017,
# https://arxiv.org/abs/1703.07402.
_POSITION_STD, _SPEED_STD = 1 / 20, 1 / 160
_NO_MATCH = 1e3
_MOVE = np.array([[1.0, 1.0], [0.0, 1.0]])


class _Track:
    """A box and its speed, estimated by a Kalman filter of constant speed, as in Bewley et al., 2016.

    Centre and size, in pixels, are four independent states [position, speed].
    """

    def __init__(self, number: int, label: int, box: np.ndarray) -> None:
        self.number, self.label, self.age = number, label, 0
        self.state = np.stack([_measured(box), np.zeros(4)])
        self.covariance = np.zeros((4, 2, 2))
        self.covariance[:, 0, 0], self.covariance[:, 1, 1] = self._noise(2 * _POSITION_STD, 10 * _SPEED_STD)

    def _noise(self, *ratios: float) -> np.ndarray:
        """Return variances for standard deviations relative to the box's height and width, [R, 4]."""
        sides = np.tile(np.maximum(self.state[0, 2:], 1.0), 2)
        return np.square(np.outer(ratios, sides))

    @property
    def box(self) -> np.ndarray:
        """Estimated box, float64 [4]."""
        centre, size = self.state[0, :2], np.maximum(self.state[0, 2:], 0)
        return np.concatenate([centre - size / 2, centre + size / 2])

    def predict(self) -> None:
        """Move to the next frame."""
        noise = self._noise(_POSITION_STD, _SPEED_STD)
        self.age += 1
        self.state = _MOVE @ self.state
        self.covariance = _MOVE @ self.covariance @ _MOVE.T + noise.T[:, :, np.newaxis] * np.eye(2)

    def update(self, box: np.ndarray) -> None:
        """Correct the estimate by a detected box, float64 [4]."""
        variance = self.covariance[:, 0, 0] + self._noise(_POSITION_STD)[0]
        gain = self.covariance[:, :, 0] / variance[:, np.newaxis]
        self.age = 0
        self.state = self.state + gain.T * (_measured(box) - self.state[0])
        self.covariance = self.covariance - gain[:, :, np.newaxis] * self.covariance[:, :1]


def _measured(box: np.ndarray) -> np.ndarray:
    """Return centre y, x, height and width of a box."""
    return np.concatenate([(box[:2] + box[2:]) / 2, box[2:] - box[:2]])


class ByteTracker:
    """Gives the objects of successive frames the numbers of their tracks."""

    def __init__(self, score: float) -> None:
        """Take the score from which boxes are confident: matched first, and able to begin a track."""
        self._score = score
        self._tracks: list[_Track] = []
        self._numbers = itertools.count(1)

    def update(self, found: Instances) -> np.ndarray:
        """Return the track of each detection of the next frame, int64 [N], from 1; 0 for none."""
        numbers: np.ndarray = np.zeros(len(found.scores), np.int64)
        boxes = found.boxes.astype(np.float64) * np.tile([found.height, found.width], 2)
        confident = np.flatnonzero(found.scores >= self._score)
        others = np.flatnonzero((found.scores < self._score) & (found.scores >= LOWEST_SCORE))
        self._tracks = [track for track in self._tracks if track.age < _LOST_FRAMES]
        for track in self._tracks:
            track.predict()
        matched = _match(boxes, found.classes, confident, self._tracks, _FIRST_IOU)
        left = [track for track in self._tracks if track.age == 1 and track not in matched.values()]
        matched |= _match(boxes, found.classes, others, left, _SECOND_IOU)
        for row in confident.tolist():
            if row not in matched:
                matched[row] = _Track(next(self._numbers), int(found.classes[row]), boxes[row])
                self._tracks.append(matched[row])
        for row, track in matched.items():
            track.update(boxes[row])
            numbers[row] = track.number
        return numbers


def _match(
    boxes: np.ndarray, classes: np.ndarray, rows: np.ndarray, tracks: Sequence[_Track], least: float
) -> dict[int, _Track]:
    """Return row to track of boxes [N, 4] with the largest overlaps in total, each of at least `least`."""
    tracked: np.ndarray = np.reshape([track.box for track in tracks], (-1, 4))
    overlaps = iou_px(boxes[rows], tracked, np.zeros(len(tracks), bool))
    same = classes[rows, np.newaxis] == np.array([track.label for track in tracks], int)
    cost = np.where(same & (overlaps >= least), 1 - overlaps, _NO_MATCH)
    pairs = zip(*scipy.optimize.linear_sum_assignment(cost), strict=True)
    return {int(rows[i]): tracks[j] for i, j in pairs if cost[i, j] < _NO_MATCH}
