"""Masks on the host: pasted into the image, and as COCO's run lengths."""

import numpy as np
from pycocotools import mask as coco_mask

from detection_core.ops.mask_runs import as_coco, decode_mask, encode_masks, mask_areas, paste_masks


def read_cell(mask, y, x):
    """Return the mask at a place in units of its cells, linear between their centres."""
    y, x = (min(max(at - 0.5, 0.0), side - 1.0) for at, side in zip((y, x), mask.shape, strict=True))
    top, left = int(y), int(x)
    rows, columns = (top, min(top + 1, mask.shape[0] - 1)), (left, min(left + 1, mask.shape[1] - 1))
    return sum(
        mask[row, column] * wy * wx
        for row, wy in zip(rows, (1 - (y - top), y - top), strict=True)
        for column, wx in zip(columns, (1 - (x - left), x - left), strict=True)
    )


def pasted_slowly(mask, box, height, width):
    found = np.zeros((height, width), bool)
    top, left, bottom, right = box * np.array([height, width] * 2)
    for y, x in np.ndindex(height, width):
        if top <= y + 0.5 < bottom and left <= x + 0.5 < right:
            place = (y + 0.5 - top) / (bottom - top), (x + 0.5 - left) / (right - left)
            found[y, x] = read_cell(mask, *(np.array(place) * mask.shape)) > 0.5
    return found


def test_a_mask_is_stretched_to_its_box_as_by_a_slow_loop():
    rng = np.random.default_rng(0)
    # The last reaches beyond the image, the one before it covers no pixel's centre.
    boxes = [[0.1, 0.2, 0.55, 0.9], [0, 0, 1, 1], [0.31, 0.4, 0.32, 0.41], [-0.2, 0.5, 0.4, 1.3]]
    masks = rng.random((4, 5, 7)).astype(np.float32)
    found = paste_masks(masks, np.array(boxes, np.float32), 23, 31)
    for counts, mask, box in zip(found, masks, np.array(boxes, np.float32).astype(float), strict=True):
        expected = pasted_slowly(mask.astype(float), box, 23, 31)
        np.testing.assert_array_equal(decode_mask(counts, 23, 31), expected)
    assert mask_areas(found, 23, 31)[2] == 0 and paste_masks(masks[:0], np.zeros((0, 4)), 4, 4).shape == (0,)


def test_run_lengths_are_those_of_pycocotools_and_come_back():
    masks = (np.random.default_rng(1).random((3, 9, 4)) < 0.4).astype(np.uint8)
    found = encode_masks(masks * 7)
    assert found.dtype == object
    for counts, mask in zip(found, masks, strict=True):
        expected = coco_mask.encode(np.asfortranarray(mask))
        assert as_coco(counts, 9, 4) == {"size": expected["size"], "counts": expected["counts"].decode()}
        np.testing.assert_array_equal(decode_mask(counts, 9, 4), mask)
    np.testing.assert_array_equal(mask_areas(found, 9, 4), masks.sum((1, 2)))
    assert mask_areas([], 9, 4).shape == (0,)
