import json
import tracemalloc

import numpy as np
import pytest
from PIL import Image

from detection_core.artifacts.json_values import encode
from detection_core.artifacts.pictures import FALSE_POSITIVE, MISS
from detection_core.evaluation import pictures
from detection_core.evaluation.drawing import class_colour
from detection_core.evaluation.evaluated_split import EvaluatedSplit
from detection_core.evaluation.mistakes import Mistake, worst_false_positives
from detection_core.evaluation.pictures import PictureOptions, PicturePlan, write_pictures
from detection_core.evaluation.results import EvaluatedImage
from tests.support.blobs import scenes
from tests.support.cases import cases
from tests.support.evaluated_images import evaluated, make_detections, make_truth

NAMES = {0: "red", 1: "green"}


def test_boxes_are_labelled_and_bounded_and_pictures_spread_evenly():
    assert pictures.spread_evenly(10, 3) == (0, 4, 9)
    assert pictures.spread_evenly(2, 12) == (0, 1)
    assert pictures.spread_evenly(0, 12) == pictures.spread_evenly(5, 0) == ()
    found = make_detections([[0, 0, 0.3, 0.3]] * 3, [0.9, 0.8, 0.3], [1, 0, 1])
    assert [b.text for b in pictures.detection_boxes(found, NAMES, 0.5)] == ["green 0.90", "red 0.80"]
    for options, texts in (
        (PictureOptions(most_boxes=1), ["green 0.90"]),
        (PictureOptions(most_boxes=0), []),
        (PictureOptions(names=False), ["0.90", "0.80"]),
        (PictureOptions(scores=False), ["green", "red"]),
        (PictureOptions(names=False, scores=False), ["", ""]),
    ):
        assert [b.text for b in pictures.detection_boxes(found, NAMES, 0.5, options)] == texts
    (box,) = pictures.truth_boxes(make_truth([[0, 0, 1, 1]], [1]), NAMES, names=False, colour=(1, 2, 3))
    assert (box.text, box.drawn_colour) == ("", (1, 2, 3))


def test_files_and_index(tmp_path):
    pixels = scenes(6)
    found = make_detections([[0, 0, 0.3, 0.3], [0.5, 0.5, 0.9, 0.9]], [0.9, 0.6], [1, 0])
    images = tuple(EvaluatedImage(truth=truth, detections=found) for _, truth in pixels)
    split = EvaluatedSplit(images=images, class_names=NAMES)
    mistakes = tuple(worst_false_positives(split, 4))
    plan = PicturePlan(side_by_side=(0, 3), mistakes=mistakes, score_threshold=0.7)
    read = []

    def stream():
        for i, item in enumerate(pixels):
            read.append(i)
            yield item

    index = write_pictures(plan, stream(), split, str(tmp_path))
    assert encode(index) == json.loads((tmp_path / "index.json").read_text())
    assert [e.kind for e in index] == ["side_by_side"] * 2 + [FALSE_POSITIVE] * 4
    assert [e.source_id for e in index[:2]] == ["scene 0", "scene 3"]
    assert index[0].caption == "1 detections, 1 objects"
    assert max(read) == max(plan.images)  # no further than needed
    for entry in index:
        picture = Image.open(tmp_path / entry.file)
        assert picture.format == "JPEG" and max(picture.size) >= 190


@cases((None, False), ((255, 0, 255), True))
def test_ground_truth_is_drawn_onto_the_detections_where_asked(tmp_path, *, colour, left):
    grey = np.full((400, 400, 3), 128, np.uint8)
    image = evaluated([[0.2, 0.2, 0.8, 0.8]], [0], [], [], [], height=400, width=400)
    split = EvaluatedSplit(images=(image,), class_names=NAMES)
    plan = PicturePlan(side_by_side=(0,), mistakes=(), score_threshold=0.5)
    options = PictureOptions(truth_colour=colour)
    (entry,) = write_pictures(plan, [(grey, image.truth)], split, str(tmp_path), options)
    pixels = np.asarray(Image.open(tmp_path / entry.file), np.int32)[30:, :390]
    magenta = (np.abs(pixels - (255, 0, 255)).sum(-1) < 90).any()
    assert magenta == left


@cases(
    ([0.4, 0.4, 0.6, 0.6], [100, 100]),
    ([0, 0, 0.1, 0.05], [41.7, 41.7]),  # a window of 24 x 24 px, moved into the image
    ([0.9, 0.95, 1, 1], [158.3, 158.3]),
    ([0, 0, 1, 1], [100, 100]),
)
def test_a_crop_shows_its_box_and_the_image_around_it(*, box, centre):
    image = np.full((100, 200, 3), 255, np.uint8)
    one = evaluated([box], [1], [box], [0.5], [0])
    for kind, label in ((FALSE_POSITIVE, 0), (MISS, 1)):
        mistake = Mistake(kind=kind, image=0, row=0, weight=0, caption="")
        crop = np.asarray(pictures.draw_mistake(image, one, mistake, NAMES, PictureOptions(crop_px=200)))
        assert crop.shape == (200, 200, 3)
        line = np.argwhere((np.abs(crop.astype(int) - np.array(class_colour(label))) < 3).all(-1))
        np.testing.assert_allclose((line.min(0) + line.max(0)) / 2, centre, atol=2)
        black = (crop == 0).all(-1).mean()
        assert black == pytest.approx(0.5, abs=0.02) if box == [0, 0, 1, 1] else black == 0


def test_a_mistake_in_a_long_strip_takes_no_more_memory_than_its_picture():
    image = np.full((1, 60_000, 3), 255, np.uint8)  # a window of 60,000 px each way would be 10 GB
    one = evaluated([[0, 0, 1, 1]], [1], [[0, 0, 1, 1]], [0.5], [0])
    mistake = Mistake(kind=MISS, image=0, row=0, weight=0, caption="")
    tracemalloc.start()
    crop = pictures.draw_mistake(image, one, mistake, NAMES, PictureOptions(crop_px=200))
    assert (crop.size, tracemalloc.get_traced_memory()[1] < 10e6) == ((200, 200), True)
    tracemalloc.stop()
