"""ByteTrack: the numbers that objects keep."""

import numpy as np

from detection_core.optional.video.byte_track import ByteTracker
from detection_core.structures import Instances

HEIGHT, WIDTH = 100, 200


def frame(*rows):
    """Detections of (left, score) or (left, score, class): boxes of 20 by 20 pixels, best first."""
    rows = sorted(((*row, 0)[:3] for row in rows), key=lambda row: -row[1])
    boxes = [[0.4, left / WIDTH, 0.6, (left + 20) / WIDTH] for left, _, _ in rows]
    return Instances(
        source_id="",
        height=HEIGHT,
        width=WIDTH,
        boxes=np.array(boxes, np.float32).reshape(-1, 4),
        scores=np.array([score for _, score, _ in rows], np.float32),
        classes=np.array([label for _, _, label in rows], np.int32),
    )


def tracked(*frames, score=0.5):
    tracker = ByteTracker(score)
    return [tracker.update(found).tolist() for found in frames]


def test_the_pairs_with_the_largest_total_overlap_are_matched():
    # The first box overlaps the second track most, but then the second box would be left without one.
    before, after = frame((0, 0.9), (14, 0.8)), frame((11, 0.9), (25, 0.8))
    assert tracked(before, after) == [[1, 2], [1, 2]]


def test_objects_that_move_keep_their_numbers_and_new_ones_get_the_next():
    frames = [frame((4 * i, 0.9), (150 - 4 * i, 0.8)) for i in range(8)]
    assert tracked(*frames, frame((32, 0.9), (118, 0.8), (75, 0.7))) == [[1, 2]] * 8 + [[1, 2, 3]]


def test_objects_that_meet_keep_their_numbers_by_their_speed():
    paths = [(3 * i, 110 - 3 * i) for i in range(36)]  # they pass each other at frame 18
    for found, (left, right) in zip(
        tracked(*(frame((one, 0.9), (two, 0.8)) for one, two in paths)), paths, strict=True
    ):
        assert found == [1, 2], (left, right)


def test_an_uncertain_box_continues_a_track_and_begins_none():
    found = tracked(frame((10, 0.9)), frame((12, 0.2), (150, 0.3)), frame((14, 0.05)), frame((16, 0.9)))
    assert found == [[1], [0, 1], [0], [1]]


def test_a_lost_object_comes_back_under_its_number_but_not_after_thirty_frames():
    seen, nothing = frame((50, 0.9)), frame()
    for gap, number in ((0, 1), (29, 1), (30, 2)):
        assert tracked(seen, *[nothing] * gap, seen)[-1] == [number], gap
    # An uncertain box continues tracks of the last frame alone.
    assert tracked(seen, nothing, frame((50, 0.3)))[-1] == [0]


def test_a_track_is_of_one_class_and_far_boxes_are_others():
    assert tracked(frame((50, 0.9, 0)), frame((50, 0.9, 1)), frame((50, 0.9, 0))) == [[1], [2], [1]]
    assert tracked(frame((50, 0.9)), frame((90, 0.9))) == [[1], [2]]
    assert tracked(frame(), frame((90, 0.9))) == [[], [1]]


def test_the_speed_of_steady_motion_is_learned():
    tracker = ByteTracker(0.5)
    for i in range(20):
        tracker.update(frame((5 * i, 0.9)))
    (track,) = tracker._tracks
    np.testing.assert_allclose(track.state[1], [0, 5, 0, 0], atol=0.2)
    track.predict()
    np.testing.assert_allclose(track.box, [40, 100, 60, 120], atol=0.5)
