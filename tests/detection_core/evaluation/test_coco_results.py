"""COCO results files: written as pycocotools reads them, read back, and refused where malformed."""

import json
import math

import numpy as np
import pytest
from pycocotools.coco import COCO

from detection_core.errors import DataError
from detection_core.evaluation.coco_results import CocoResults, ImageIds, write_coco_results
from detection_core.ops.mask_runs import decode_mask, encode_masks
from detection_core.structures import Instances
from tests.support.cases import cases, refused

HEIGHT, WIDTH, KEYPOINTS = 30, 40, 3
CLASSES = {1: 0, 2: 1, 3: 2}
ENTRY = {"image_id": 7, "category_id": 2, "bbox": [1.0, 2.0, 3.0, 4.0], "score": 0.5}


def random_instances(seed, count=5, *, masks=False, keypoints=False):
    random = np.random.default_rng(seed)
    corners = np.sort(random.uniform(size=(count, 2, 2)), axis=1)
    points = random.uniform(size=(count, KEYPOINTS, 2)).astype(np.float32)
    points[:, 0] = math.nan
    shapes = {"masks": encode_masks(random.integers(0, 2, (count, HEIGHT, WIDTH)))} if masks else {}
    shapes |= {"keypoints": points} if keypoints else {}
    boxes, classes = corners.reshape(count, 4).astype(np.float32), random.integers(0, 3, count)
    scores = np.sort(random.uniform(size=count).astype(np.float32))[::-1]
    found = {"boxes": boxes, "classes": classes.astype(np.int32), "scores": scores}
    return Instances(source_id="7", height=HEIGHT, width=WIDTH, **found, **shapes)


def written(path, found):
    write_coco_results(str(path), [(7, found)])
    return str(path)


def results_of(path, entries):
    path.write_text(json.dumps(entries))
    return CocoResults(str(path), CLASSES)


@pytest.mark.parametrize("seed", range(3))
@cases({}, {"masks": True}, {"keypoints": True}, {"masks": True, "keypoints": True})
def test_pycocotools_reads_what_is_written_and_so_does_the_reader(tmp_path, seed, *, shapes):
    found = random_instances(seed, **shapes)
    path = written(tmp_path / "results.json", found)
    truth = COCO()
    categories = [{"id": number} for number in (1, 2, 3)]
    truth.dataset = {"info": {}, "images": [{"id": 7, "height": HEIGHT, "width": WIDTH}]}
    truth.dataset |= {"categories": categories, "annotations": []}
    truth.createIndex()
    loaded = truth.loadRes(path)
    entries = loaded.loadAnns(loaded.getAnnIds(imgIds=[7]))
    assert len(entries) == len(found.classes)
    for n, entry in enumerate(entries):
        ymin, xmin, ymax, xmax = found.boxes[n] * [HEIGHT, WIDTH, HEIGHT, WIDTH]
        assert entry["bbox"] == pytest.approx([xmin, ymin, xmax - xmin, ymax - ymin], abs=1e-4)
        assert entry["category_id"] == found.classes[n] + 1 and entry["score"] == found.scores[n]
        if shapes.get("masks"):
            np.testing.assert_array_equal(loaded.annToMask(entry), decode_mask(found.masks[n], HEIGHT, WIDTH))
        if shapes.get("keypoints"):
            points = np.array(entry["keypoints"]).reshape(-1, 3)
            assert points[0].tolist() == [0, 0, 0] and (points[1:, 2] == 2).all()
            expected = found.keypoints[n, 1:, ::-1] * [WIDTH, HEIGHT]
            np.testing.assert_allclose(points[1:, :2], expected, atol=1e-4)
    back = CocoResults(path, CLASSES)(np.zeros((HEIGHT, WIDTH, 3), np.uint8), "7")
    for name in ("boxes", "keypoints"):
        np.testing.assert_allclose(getattr(back, name), getattr(found, name), atol=1e-6)
    for name in ("classes", "scores", "masks"):
        np.testing.assert_array_equal(getattr(back, name), getattr(found, name))


def test_detections_are_sorted_and_an_image_without_any_is_empty(tmp_path):
    scores = (0.25, 0.75, 0.5)
    results = results_of(tmp_path / "r.json", [{**ENTRY, "score": score} for score in scores])
    assert results.instances("7", 10, 10).scores.tolist() == sorted(scores, reverse=True)
    empty = results.instances("8", 10, 10)
    assert empty.boxes.shape == (0, 4) and empty.keypoints.shape == (0, 0, 2) and not empty.has_masks
    uncompressed = {**ENTRY, "segmentation": {"size": [2, 3], "counts": [1, 2, 3]}}
    (mask,) = results_of(tmp_path / "m.json", [uncompressed]).instances("7", 2, 3).masks
    assert decode_mask(mask, 2, 3).tolist() == [[False, True, False], [True, False, False]]


@cases(
    ({"score": None}, "score as a finite number, found"),
    ({"score": math.nan}, "score as a finite number, found"),
    ({"score": "high"}, "score as a finite number, found"),
    ({"bbox": [1, 2, 3]}, "bbox as 4 finite numbers, found"),
    ({"bbox": [1, 2, 3, 1e39]}, "bbox as 4 finite numbers, found"),
    ({"bbox": "1234"}, "bbox as 4 finite numbers, found"),
    ({"category_id": 0}, "category_id as an id of the ground truth's classes, found 0"),
    ({"bbox": []}, "image_id, category_id, score and one of bbox, segmentation and keypoints, found"),
    ({"image_id": [7]}, "image_id as a number, found"),
    ({"keypoints": [1, 2]}, "keypoints as x, y and v of each, found 2 numbers"),
    ({"keypoints": [1, 2, math.inf]}, "keypoints as x, y and v of each, found"),
)
def test_a_malformed_entry_is_one_error_that_names_it(tmp_path, *, change, message):
    path = tmp_path / "r.json"
    refused(DataError, rf"entry 1: expected {message}", results_of, path, [ENTRY, {**ENTRY, **change}])


def test_other_files_masks_and_images_are_refused(tmp_path):
    path = tmp_path / "r.json"
    refused(DataError, "expected COCO results as a JSON list", results_of, path, {"annotations": []})
    for entry in (5, {"image_id": 1}):
        message = "entry 0: expected image_id, category_id, score and one of bbox, segmentation and keypoints"
        refused(DataError, message, results_of, path, [entry])
    for mask in ({"size": [2, 3], "counts": [1]}, {"size": [9, 9], "counts": [81]}, {"counts": "\n"}, []):
        found = results_of(path, [{**ENTRY, "segmentation": mask}])
        refused(DataError, "entry 0: expected segmentation as the RLE", found.instances, "7", 2, 3)
    points = [{**ENTRY, "keypoints": [1, 2, 2] * count} for count in (1, 2)]
    found = results_of(path, points)
    refused(DataError, "entry 1: expected as many keypoints", found.instances, "7", 2, 3)
    found = results_of(path, [ENTRY, {**ENTRY, "image_id": 8}])
    found(np.zeros((2, 3, 3), np.uint8), "7")
    message = "entry 1: expected the id of an evaluated image as image_id, found '8'"
    refused(DataError, message, found.check_all_seen)


def test_image_ids_are_found_by_name_and_ambiguous_names_are_refused(tmp_path):
    path = tmp_path / "truth.json"
    names = ("a.jpg", "x/b.jpg", "y/b.jpg")
    path.write_text(json.dumps({"images": [{"id": n, "file_name": name} for n, name in enumerate(names)]}))
    ids = ImageIds(str(path))
    assert [ids.find(f"/data/{name}") for name in names] == [0, 1, 2]
    for name in ("b.jpg", "c.jpg"):
        refused(DataError, "expected one image of this name in", ids.find, name)
    for text, message in (('{"images": [{"id": 1}]}', "with id and file_name"), ("{}", "a list 'images'")):
        path.write_text(text)
        refused(DataError, message, ImageIds, str(path))
