import numpy as np

from detection_core.evaluation.drawing import class_colour
from detection_core.validation.drawn_objects import Emphasis, box_of, draw_image, pixels_of
from tests.detection_core.validation.samples import LABELS, labelled


def test_an_example_is_drawn_and_the_box_that_is_meant_is_in_its_colour():
    image = labelled(boxes=((0.2, 0.2, 0.8, 0.8),))
    pixels = pixels_of(image)
    assert pixels.shape == (48, 64, 3)
    picture = draw_image(pixels, image, LABELS.names, sides=(240, 360))
    assert picture.size == (240, 180)
    bare = draw_image(pixels, labelled(boxes=()), LABELS.names, sides=(240, 360))
    unnamed = draw_image(pixels, image, LABELS.names, sides=(240, 360), emphasis=Emphasis(label=1))
    shown = [np.asarray(p) for p in (picture, bare, unnamed)]
    assert (shown[0] != shown[1]).any() and (shown[0] != shown[2]).any() and (shown[1] != shown[2]).any()
    assert pixels_of(labelled(data=b"no image")) is None
    assert box_of(np.array([0.0, 0.25, 0.5, 1.0], np.float32)) == (0.0, 0.25, 0.5, 1.0)
    # The others are grey and have no name, so that a finding's picture shows what it is about.
    image = labelled(boxes=((0.1, 0.1, 0.4, 0.4), (0.5, 0.5, 0.9, 0.9)), classes=("cat", "cat"))
    meant = Emphasis(box=[0.5, 0.5, 0.9, 0.9])
    assert not meant.names(0, image.boxes[0]) and meant.names(0, image.boxes[1])
    picture = np.asarray(draw_image(pixels_of(image), image, LABELS.names, sides=(640, 640), emphasis=meant))
    colour = np.asarray(class_colour(0))
    is_coloured = (np.abs(picture.astype(int) - colour).sum(axis=2) < 12).nonzero()
    assert len(is_coloured[0]) and is_coloured[0].min() > 0.4 * 480 and is_coloured[1].min() > 0.4 * 640
