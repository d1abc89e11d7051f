import time

import numpy as np
from PIL import Image

from detection_core.evaluation import drawing
from detection_core.evaluation.drawing import PALETTE, LabelledBox, class_colour, draw_boxes
from tests.support.cases import cases, refused


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
    assert changed.min(0).tolist() == [20, 50]
    assert changed.max(0).tolist() == [80, 150]
    assert (drawn[40:60, 70:130] == 255).all()  # the object itself stays visible
    assert (np.asarray(picture) == 255).all()
    assert (drawn == np.array(class_colour(1))).all(-1).sum() > 300
    assert len(set(PALETTE)) == len(PALETTE)
    assert min(contrast(colour, drawing.readable_on(colour)) for colour in PALETTE) >= 3.9
    assert class_colour(3) == class_colour(3 + len(PALETTE))
    assert drawing.named_colour("black") == (0, 0, 0)
    assert drawing.named_colour("AliceBlue") == (240, 248, 255)
    refused(ValueError, "unknown color", drawing.named_colour, "blak")
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
        plate = (np.asarray(text) == colour).all(-1).sum()
        assert plate - (np.asarray(bare) == colour).all(-1).sum() > 300


@cases(
    *[((0.1, 0.1, end, 0.5), "cat") for end in (1e30, float("inf"), float("nan"))],
    *[((end,) * 4, "cat") for end in (1e30, float("inf"), float("nan"))],
    ((0.1, 0.1, 0.5, 0.5), "n\n" * 1_000_000),
)
def test_boxes_and_names_without_an_end_are_drawn_to_the_picture_s(*, box, text):
    started = time.process_time()
    drawn = draw_boxes(Image.new("RGB", (40, 30)), [LabelledBox(box=box, label=0, text=text)])
    assert drawn.size == (40, 30) and time.process_time() - started < 5
