"""A detector that runs on tiles and on the whole image."""

import dataclasses

import numpy as np
import pytest

from detection_core.evaluation.tiled_runner import TiledRunner, with_tiles
from detection_core.ops.mask_runs import decode_mask, encode_masks
from detection_core.ops.tile_options import TileOptions
from detection_core.structures import Instances
from tests.support.blobs import BlobDetector, save_folder

OPTIONS = TileOptions(size=64, overlap=0.5)


class Painted:
    """Finds each colour's pixels: box, mask, and the two ends of its diagonal as keypoints."""

    path = "painted"

    def __init__(self, *, shapes=True):
        self.shapes, self.sizes = shapes, []

    def __call__(self, image, source_id=""):
        self.sizes.append(image.shape[:2])
        height, width = image.shape[:2]
        colours = [colour for colour in np.unique(image[..., 0]) if colour]
        masks = [image[..., 0] == colour for colour in colours]
        places = [np.argwhere(mask) for mask in masks]
        boxes = np.reshape([[*p.min(axis=0), *(p.max(axis=0) + 1)] for p in places], (-1, 4))
        boxes = (boxes / (height, width, height, width)).astype(np.float32)
        # What a tile shows as a whole has a higher score.
        scores = np.array([0.5 + mask.sum() / 100_000 for mask in masks], np.float32)
        order = np.argsort(-scores)
        found = Instances(
            source_id=source_id,
            height=height,
            width=width,
            boxes=boxes[order],
            classes=np.array(colours, np.int32)[order] - 1,
            scores=scores[order],
        )
        if not self.shapes:
            return found
        keypoints = found.boxes.reshape(-1, 2, 2)
        return dataclasses.replace(found, masks=encode_masks(masks)[order], keypoints=keypoints)


def painted(*boxes):
    """Return an image of 150 x 200 pixels with boxes (top, left, bottom, right), each of another colour."""
    image = np.zeros((150, 200, 3), np.uint8)
    for number, (top, left, bottom, right) in enumerate(boxes, start=1):
        image[top:bottom, left:right] = number
    return image


def test_small_and_large_objects_are_found_once_in_image_coordinates():
    boxes = [(5, 5, 15, 12), (60, 60, 68, 70), (140, 190, 150, 200), (20, 80, 120, 180), (30, 10, 62, 20)]
    image, runner = painted(*boxes), Painted()
    found = TiledRunner(runner, OPTIONS)(image, "a")
    # One pass over the whole image, then tiles from 0, 32, ... 136 and from 0, 32, 64, 86.
    assert runner.sizes == [(150, 200), *[(64, 64)] * 24]
    assert (found.source_id, found.height, found.width) == ("a", 150, 200)
    assert sorted(found.classes.tolist()) == [0, 1, 2, 3, 4]
    assert (np.diff(found.scores) <= 0).all()
    for row, label in enumerate(found.classes):
        corners = np.array(boxes[label], float)
        np.testing.assert_allclose(found.boxes[row] * (150, 200, 150, 200), corners, atol=1e-3)
        np.testing.assert_array_equal(decode_mask(found.masks[row], 150, 200), image[..., 0] == label + 1)
        np.testing.assert_allclose(found.keypoints[row] * (150, 200), corners.reshape(2, 2), atol=1e-3)


def test_the_masks_of_parts_are_joined():
    """Nothing is found in the whole image; the object is longer than a tile."""

    class OnlyTiles(Painted):
        def __call__(self, image, source_id=""):
            found = super().__call__(image, source_id)
            return found if image.shape[0] == 64 else found.take(np.zeros(len(found.classes), bool))

    image = painted((40, 10, 50, 190))
    found = TiledRunner(OnlyTiles(), OPTIONS)(image)
    np.testing.assert_allclose(found.boxes * (150, 200, 150, 200), [(40, 10, 50, 190)], atol=1e-3)
    np.testing.assert_array_equal(decode_mask(found.masks[0], 150, 200), image[..., 0] == 1)


def test_boxes_without_shapes_and_images_without_objects():
    found = TiledRunner(Painted(shapes=False), OPTIONS)(painted((1, 1, 9, 9)))
    assert found.masks.tolist() == [b""] and found.keypoints.shape == (1, 0, 2)
    for shapes in (True, False):
        nothing = TiledRunner(Painted(shapes=shapes), OPTIONS)(painted())
        assert nothing.boxes.shape == (0, 4) and nothing.classes.shape == nothing.scores.shape == (0,)


def test_an_image_no_larger_than_a_tile_is_detected_once():
    runner = Painted()
    found = TiledRunner(runner, TileOptions(size=200))(painted((1, 1, 9, 9)))
    assert runner.sizes == [(150, 200)] and len(found.classes) == 1
    assert with_tiles(runner, None) is runner


def test_a_saved_model_finds_in_tiles_what_it_cannot_tell_apart_in_the_whole(tmp_path):
    """`BlobDetector` finds one box of each colour in an image, around all of that colour."""
    pytest.importorskip("tensorflow")
    from detection_core.evaluation.runner import load_runner

    image = np.zeros((128, 128, 3), np.uint8)
    for top, left in ((10, 10), (100, 10), (10, 100), (90, 90)):
        image[top : top + 8, left : left + 8, 0] = 255
    runner = load_runner(save_folder(BlobDetector(), tmp_path))
    assert len(runner(image).classes) == 1
    found = TiledRunner(runner, TileOptions(size=64, overlap=0.2))(image)
    boxes = sorted((found.boxes * 128).round().astype(int).tolist())
    small = [[10, 10, 18, 18], [10, 100, 18, 108], [90, 90, 98, 98], [100, 10, 108, 18]]
    assert boxes == sorted([[10, 10, 108, 108], *small])
