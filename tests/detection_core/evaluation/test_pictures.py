"""Pictures of detections, of ground truth and of the worst mistakes."""

import dataclasses
import time
import tracemalloc

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from detection_core.artifacts.pictures import FALSE_POSITIVE, MISS, PICTURES
from detection_core.evaluation import drawing, pictures
from detection_core.evaluation.drawing import (
    PALETTE,
    LabelledBox,
    class_colour,
    draw_boxes,
)
from detection_core.evaluation.evaluated_split import EvaluatedSplit
from detection_core.evaluation.mistakes import Mistake, largest_misses, worst_false_positives
from detection_core.evaluation.pictures import PictureOptions, PicturePlan, write_pictures
from detection_core.evaluation.results import EvaluatedImage
from detection_core.ops.mask_runs import encode_masks
from detection_core.ops.objects import new_truth
from tests.support.blobs import scenes
from tests.support.cases import cases
from tests.support.evaluated_images import evaluated, make_detections, make_truth, random_images

GREY = np.full((60, 80, 3), 100, np.uint8)
NAMES = {0: "cat", 1: "dog"}
LEFT, RIGHT = [0.0, 0.0, 0.5, 0.5], [0.5, 0.5, 1.0, 1.0]
COLOURS = {0: "red", 1: "green"}


def contrast(a, b):
    """Contrast ratio of WCAG 2."""

    def luminance(colour):
        parts = [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in np.array(colour) / 255]
        return float(np.dot(parts, (0.2126, 0.7152, 0.0722)))

    light, dark = sorted((luminance(a), luminance(b)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_the_outline_lies_on_the_box_in_colours_on_which_text_can_be_read():
    picture = Image.new("RGB", (200, 100), (255, 255, 255))
    drawn = np.asarray(draw_boxes(picture, [LabelledBox(box=(0.2, 0.25, 0.8, 0.75), label=1)]))
    changed = np.argwhere((drawn != 255).any(-1))
    assert changed.min(0).tolist() == [20, 50] and changed.max(0).tolist() == [80, 150]
    assert (drawn[40:60, 70:130] == 255).all()  # the object itself stays visible
    assert (np.asarray(picture) == 255).all() and (drawn == np.array(class_colour(1))).all(-1).sum() > 300
    assert len(set(PALETTE)) == len(PALETTE)
    assert min(contrast(colour, drawing.readable_on(colour)) for colour in PALETTE) >= 3.9
    assert class_colour(3) == class_colour(3 + len(PALETTE))
    assert drawing.fit(np.zeros((100, 50, 3), np.uint8), longest=400).size == (50, 100)
    assert drawing.fit(np.zeros((100, 50, 3), np.uint8), longest=400, smallest=200).size == (100, 200)
    assert drawing.fit(np.zeros((1000, 3, 3), np.uint8), longest=100).size == (1, 100)
    sheet = drawing.side_by_side({"a": Image.new("RGB", (30, 40)), "b": Image.new("RGB", (50, 20))}, gap=5)
    assert sheet.size == (85, 64)


@cases((0, 0, 0.1, 0.1), (0.9, 0.9, 1, 1), (-0.5, -0.5, 1.5, 1.5), (0.5, 0.5, 0.5, 0.5), (0, 0, 1, 1))
def test_labels_stay_inside_the_picture(*, box):
    picture, colour = Image.new("RGB", (200, 150)), np.array(class_colour(0))
    for dashed in (True, False):
        bare = draw_boxes(picture, [LabelledBox(box=box, label=0, dashed=dashed)])
        text = draw_boxes(picture, [LabelledBox(box=box, label=0, text="kässe 0.93", dashed=dashed)])
        assert (np.asarray(text) == colour).all(-1).sum() - (np.asarray(bare) == colour).all(-1).sum() > 300


@cases(
    *[((0.1, 0.1, end, 0.5), "cat") for end in (1e30, float("inf"), float("nan"))],
    *[((end,) * 4, "cat") for end in (1e30, float("inf"), float("nan"))],
    ((0.1, 0.1, 0.5, 0.5), "n\n" * 1_000_000),
)
def test_boxes_and_names_without_an_end_are_drawn_to_the_picture_s(*, box, text):
    started = time.process_time()
    drawn = draw_boxes(Image.new("RGB", (40, 30)), [LabelledBox(box=box, label=0, text=text)])
    assert drawn.size == (40, 30) and time.process_time() - started < 5


def drawn(**fields):
    truth = new_truth(tf.constant([[0.25, 0.25, 0.75, 0.75]]), tf.constant([1]), **fields)
    truth = pictures.host_truth(truth)
    return np.asarray(pictures.draw_truth(GREY, truth, ["cat", "dog"], longest=320)).astype(int)


def is_colour(pixel, colour):
    return np.abs(pixel - colour).sum() < 12


def test_boxes_masks_and_keypoints_are_drawn_where_they_are_there():
    picture = drawn()
    assert picture.shape == (240, 320, 3)
    edge = picture[60:65, 150]
    assert any(is_colour(pixel, class_colour(1)) for pixel in edge)
    assert is_colour(picture[120, 160], (100, 100, 100))
    picture = drawn(valid=tf.constant([False]))
    assert (picture == 100).all()
    full, dashed = drawn(), drawn(is_crowd=tf.constant([True]))
    colour = class_colour(1)

    def count(picture):
        return sum(is_colour(pixel, colour) for pixel in picture[58:66].reshape(-1, 3))

    assert 0 < count(dashed) < 0.8 * count(full)
    mask = np.zeros((1, 60, 80), np.uint8)
    mask[0, 20:40, 20:40] = 1
    picture = drawn(masks=tf.constant(mask))
    expected = 0.55 * 100 + 0.45 * np.array(class_colour(1))
    assert is_colour(picture[120, 120], expected) and is_colour(picture[120, 200], (100, 100, 100))
    picture = drawn(masks=tf.constant(np.array([[[0, 1], [0, 1]]], np.uint8)))
    assert is_colour(picture[200, 20], (100, 100, 100)) and not is_colour(picture[200, 300], (100, 100, 100))
    points = tf.constant([[[0.5, 0.5], [np.nan, np.nan], [0.9, 0.1]]])
    picture = drawn(keypoints=points, keypoint_weights=tf.ones([1, 3]))
    assert is_colour(picture[120, 160], class_colour(0)) and is_colour(picture[216, 32], class_colour(2))
    assert is_colour(picture[10, 10], (100, 100, 100))


def test_masks_keypoints_and_the_lines_between_them_are_drawn_at_detections_and_truth():
    mask = np.zeros((1, 60, 80), np.uint8)
    mask[0, 20:40, 20:40] = 1
    keypoints = np.array([[[0.4, 0.3], [0.6, 0.3], [np.nan, np.nan], [0.1, 0.9]]], np.float32)
    objects = make_truth([[0.25, 0.25, 0.75, 0.75]], [1], height=60, width=80)
    objects = dataclasses.replace(objects, masks=encode_masks(mask), keypoints=keypoints)
    edges = ((0, 1), (1, 2), (0, 9))  # a point that is not there has no line
    found = pictures.detection_boxes(objects, COLOURS, 0.5, PictureOptions(names=False, keypoint_edges=edges))
    true = pictures.truth_boxes(objects, COLOURS, names=False, edges=edges)
    picture = Image.new("RGB", (320, 240), (100, 100, 100))
    grey, colour = (100, 100, 100), np.array(class_colour(1))
    for objects_to_draw in (found, true):
        pixels = np.asarray(draw_boxes(picture, objects_to_draw)).astype(int)
        assert is_colour(pixels[120, 140], 0.55 * 100 + 0.45 * colour), "translucent"
        assert is_colour(pixels[120, 158], colour) and is_colour(pixels[120, 161], grey), "the outline"
        assert is_colour(pixels[96, 96], class_colour(0)), "each keypoint has a colour of its number"
        assert is_colour(pixels[24, 288], class_colour(3))
        assert is_colour(pixels[120, 96], colour), "the line between two keypoints"
        assert is_colour(pixels[90, 200], grey)
    without = pictures.detection_boxes(objects, COLOURS, 0.5, PictureOptions(names=False))
    inside = np.asarray(draw_boxes(picture, without)).astype(int)[120, 96]
    assert is_colour(inside, 0.55 * 100 + 0.45 * colour), "no line where no edges are known"
    no_keypoints = [dataclasses.replace(box, keypoints=((np.nan, np.nan),) * 4) for box in found]
    assert is_colour(np.asarray(draw_boxes(picture, no_keypoints))[0, 0], grey), "a class without keypoints"
    covered = dataclasses.replace(found[0], text="cat", keypoints=((0.22, 0.3),))
    assert is_colour(np.asarray(draw_boxes(picture, [covered]))[53, 96], class_colour(0)), "over the label"


def of_one(objects, found, **fields):
    split = EvaluatedSplit(images=(evaluated(*objects, *found, **fields),), class_names=NAMES)
    return worst_false_positives(split, 10), largest_misses(split, 0.5, 10)


@cases(
    (LEFT, 1, "dog 0.80: it is cat (overlap 1.00)"),
    (LEFT, 0, "cat 0.80: a second detection of the same object"),
    ([0, 0, 0.25, 0.4], 0, "cat 0.80: badly placed (overlap 0.40)"),
    ([0, 0, 0.25, 0.4], 1, "dog 0.80: badly placed, and it is cat (overlap 0.40)"),
    (RIGHT, 0, "cat 0.80: nothing is there"),
)
def test_why_a_detection_is_wrong(*, box, label, caption):
    (wrong,), misses = of_one(([LEFT], [0]), ([LEFT, box], [0.9, 0.8], [0, label]))
    assert (wrong.caption, wrong.row, wrong.weight) == (caption, 1, pytest.approx(0.8)) and misses == []


def test_why_an_object_was_missed():
    # Each has 100 x 50 px.
    _, misses = of_one(([LEFT, RIGHT], [0, 1]), ([LEFT, LEFT], [0.7, 0.3], [1, 0]))
    told = ["cat, 100 x 50 px: the best there was dog 0.70", "dog, 100 x 50 px: nothing was found there"]
    assert [m.caption for m in misses] == told and of_one(([LEFT], [0]), ([], [], []), crowd=[True])[1] == []


def test_labels_are_drawn_with_pillows_font_where_matplotlib_is_not_installed(monkeypatch):
    monkeypatch.setattr(drawing.importlib.util, "find_spec", lambda name: None)
    plain, found = drawing.text_font.__wrapped__(14), drawing.text_font(14)
    assert found.getname()[0] == "DejaVu Sans" != plain.getname()[0]


def test_the_worst_come_first_and_few_of_an_image():
    images = random_images(3, classes=2)
    images = [i for i in images if (i.truth.classes < 2).all() and (i.detections.classes < 2).all()]
    split = EvaluatedSplit(images=tuple(images), class_names=NAMES)
    wrong = worst_false_positives(split, 12)
    weights = [m.weight for m in wrong]
    assert weights == sorted(weights, reverse=True) and len(wrong) == 12
    assert max(np.bincount([m.image for m in wrong])) <= 3
    pairs = zip(images, split.matches, strict=True)
    assert weights[0] == max(np.concatenate([i.detections.scores[m.found_by == -1] for i, m in pairs]))


def test_boxes_are_labelled_and_bounded_and_pictures_spread_evenly():
    assert pictures.spread_evenly(10, 3) == (0, 4, 9) and pictures.spread_evenly(2, 12) == (0, 1)
    assert pictures.spread_evenly(0, 12) == pictures.spread_evenly(5, 0) == ()
    found = make_detections([[0, 0, 0.3, 0.3]] * 3, [0.9, 0.8, 0.3], [1, 0, 1])
    drawn_boxes = pictures.detection_boxes(found, COLOURS, 0.5)
    assert [b.text for b in drawn_boxes] == ["green 0.90", "red 0.80"]
    for options, texts in (
        ({"most_boxes": 1}, ["green 0.90"]), ({"most_boxes": 0}, []), ({"names": False}, ["0.90", "0.80"]),
        ({"scores": False}, ["green", "red"]), ({"names": False, "scores": False}, ["", ""]),
    ):  # fmt: skip
        drawn_boxes = pictures.detection_boxes(found, COLOURS, 0.5, PictureOptions(**options))
        assert [b.text for b in drawn_boxes] == texts
    (box,) = pictures.truth_boxes(make_truth([[0, 0, 1, 1]], [1]), COLOURS, names=False, colour=(1, 2, 3))
    assert (box.text, box.drawn_colour) == ("", (1, 2, 3))


def test_files_and_index(tmp_path):
    pixels = scenes(6)
    found = make_detections([[0, 0, 0.3, 0.3], [0.5, 0.5, 0.9, 0.9]], [0.9, 0.6], [1, 0])
    images = tuple(EvaluatedImage(truth=truth, detections=found) for _, truth in pixels)
    read = []

    def stream():
        for i, item in enumerate(pixels):
            read.append(i)
            yield item

    split = EvaluatedSplit(images=images, class_names=COLOURS, pixels=stream)
    mistakes = tuple(worst_false_positives(split, 4))
    plan = PicturePlan(side_by_side=(0, 3), mistakes=mistakes, score_threshold=0.7)
    index = write_pictures(plan, split, str(tmp_path))
    assert index == PICTURES.read(str(tmp_path))
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
    pixels = [(grey, image.truth)]
    split = EvaluatedSplit(images=(image,), class_names=COLOURS, pixels=lambda: pixels)
    plan = PicturePlan(side_by_side=(0,), mistakes=(), score_threshold=0.5)
    options = PictureOptions(truth_colour=colour)
    (entry,) = write_pictures(plan, split, str(tmp_path), options)
    pixels = np.asarray(Image.open(tmp_path / entry.file), np.int32)[30:, :390]
    assert (np.abs(pixels - (255, 0, 255)).sum(-1) < 90).any() == left


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
        crop = np.asarray(pictures.draw_mistake(image, one, mistake, COLOURS, PictureOptions(crop_px=200)))
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
    crop = pictures.draw_mistake(image, one, mistake, COLOURS, PictureOptions(crop_px=200))
    assert (crop.size, tracemalloc.get_traced_memory()[1] < 10e6) == ((200, 200), True)
    tracemalloc.stop()
