"""Images of one size are detected together, and the results keep the images' order."""

import numpy as np

from detection_core.data.label_map import label_map_from_names
from detection_core.errors import DataError
from detection_core.evaluation.measure import Measurement, join_measurements, measure
from detection_core.evaluation.signature_runner import SignatureRunner
from tests.support.cases import refused
from tests.support.evaluated_images import make_truth

LABELS = label_map_from_names(["any"])
SIZES = [(4, 6), (5, 5), (4, 6), (6, 4), (5, 5), (4, 6), (4, 6), (3, 3), (2, 2), (7, 7), (8, 8), (5, 5)]


def _images(sizes):
    """Images whose value is their place, which the detector below returns as the score in hundredths."""
    for place, (height, width) in enumerate(sizes):
        image = np.full((height, width, 3), place, np.uint8)
        yield image, make_truth([], [], height=height, width=width, source_id=str(place))


class Batches(SignatureRunner):
    """Finds one box an image, and keeps the shapes of what it gets."""

    takes_batches = True

    def __init__(self):
        super().__init__(self._found, "any")
        self.shapes = []

    def _found(self, images):
        self.shapes.append(tuple(images.shape[:3]))
        count = len(images)
        return {
            "detection_boxes": np.tile(np.array([0, 0, 1, 1], np.float32), (count, 1, 1)),
            "detection_scores": images.numpy()[:, 0, 0, :1] / np.float32(100),
            "detection_classes": np.ones((count, 1), np.float32),
            "num_detections": np.ones(count, np.float32),
        }


def _measured(batch_size, sizes=SIZES, **options):
    runner = Batches()
    found = measure({"any": runner}, _images(sizes), LABELS, batch_size=batch_size, **options)["any"]
    for place, image in enumerate(found.images):
        assert image.truth.source_id == image.detections.source_id == str(place)
        np.testing.assert_allclose(image.detections.scores, [place / 100], rtol=1e-6)
    assert len(found.images) == len(sizes)
    return runner.shapes, found


def test_images_of_one_size_share_calls_and_few_images_wait():
    alone, _ = _measured(1)
    assert alone == [(1, *size) for size in SIZES]
    threes, _ = _measured(3)
    # At most four sizes wait: the oldest gives way to a fifth.
    assert threes[:4] == [(3, 4, 6), (2, 5, 5), (1, 6, 4), (1, 4, 6)]
    assert sorted(shape[1:] for shape in threes for _ in range(shape[0])) == sorted(SIZES)


def test_a_part_may_be_empty_and_a_split_may_not():
    _, found = _measured(2, sizes=[], partial=True)
    assert not found.images and found.seconds_per_image == 0.0
    refused(DataError, "expected images to measure any on, found none", _measured, 2, sizes=[])


def test_parts_are_joined_in_order_with_the_mean_time_of_an_image():
    _, whole = _measured(1)
    cut = [whole.images[:3], [], whole.images[3:]]
    parts = [
        {"any": Measurement(images=images, seconds_per_image=seconds)}
        for images, seconds in zip(cut, (2.0, 0.0, 6.0), strict=True)
    ]
    joined = join_measurements(iter(parts))["any"]
    assert list(joined.images) == list(whole.images)
    assert joined.seconds_per_image == (3 * 2.0 + 9 * 6.0) / 12
    assert join_measurements([parts[1]])["any"].seconds_per_image == 0.0


def test_an_image_of_a_rare_size_waits_for_a_limited_number_of_others(monkeypatch):
    monkeypatch.setattr("detection_core.evaluation.measure._LATER", 4)
    shapes, _ = _measured(3, [(9, 9), *[(4, 6)] * 9, (9, 9)])
    assert shapes == [(3, 4, 6), (1, 9, 9), (3, 4, 6), (3, 4, 6), (1, 9, 9)]
