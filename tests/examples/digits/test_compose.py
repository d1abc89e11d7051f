import io
import json

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from detection_core.datasets.classes import make_layout
from detection_core.datasets.encoding import make_example
from tests.support.input_data import read
from tests.support.scripts import load_script

compose = load_script("examples/digits/compose.py")
COUNTS = {"train": 60, "eval": 20, "test": 20}


@pytest.fixture(scope="module")
def scenes(tmp_path_factory):
    out = tmp_path_factory.mktemp("digits") / "out"
    assert compose.compose(out, compose.SceneOptions(**COUNTS))
    return out


def _content(folder):
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_the_scenes_are_a_sound_coco_data_set(scenes):
    splits = {s: {"annotations": f"{s}.json", "images": f"images/{s}"} for s in ("train", "eval", "test")}
    dataset = read(str(scenes), "coco", splits)
    assert {name: len(images) for name, images in dataset.splits.items()} == COUNTS
    assert not any(dataset.rejected.values())
    assert [item.name for item in dataset.label_map.items] == [str(digit) for digit in range(10)]
    examples = [make_example(r, dataset.label_map.ids_by_text) for r in dataset.splits["train"]]
    assert sum(e.clipped for e in examples) == 0 and any(not e.objects for e in examples)
    assert len({(e.image.height, e.image.width) for e in examples}) > 30
    assert len({o.name for e in examples for o in e.objects}) == 10
    # Most digits are large enough to be read.
    content = json.loads((scenes / "train.json").read_text())
    height = {image["id"]: image["height"] for image in content["images"]}
    fractions = [a["bbox"][3] / height[a["image_id"]] for a in content["annotations"]]
    assert np.mean(np.array(fractions) > 0.14) > 0.95


def test_boxes_are_tight_on_the_ink_masks_are_what_is_visible_of_it_and_keypoints_its_extremes():
    scan = np.zeros((8, 8))
    scan[1:7, 3:5] = 16
    opacity = compose.opacity_of(np.random.default_rng(0), scan, 64)
    edges = (opacity[0], opacity[-1], opacity[:, 0], opacity[:, -1])
    assert all(edge.max() > compose.INK for edge in edges)
    bar, dot = np.ones((40, 8), bool), np.ones((6, 6), bool)
    digits = [compose.Digit(1, (10, 20, 8, 40), bar), compose.Digit(0, (9, 18, 6, 6), dot)]
    masks = compose.visible_inks(digits, 80, 60)
    assert masks[0].sum() == 40 * 8 - 4 * 5 and masks[1].sum() == 36 and not (masks[0] & masks[1]).any()
    # x, y, visibility; the edges have 6 rows and 1 column.
    top, right, bottom, left = np.reshape(compose.keypoints_of(digits[0], masks[0]), (4, 3)).tolist()
    assert top == [14.0, 23.0, 2.0] and bottom == [14.0, 57.0, 2.0]
    assert right == [17.5, 40.0, 2.0] and left == [10.5, 40.0, 2.0]
    under = [digits[0], compose.Digit(0, (8, 16, 12, 12), np.ones((12, 12), bool))]
    assert compose.keypoints_of(under[0], compose.visible_inks(under, 80, 60)[0])[2] == 1


def test_scenes_with_shapes_are_the_same_pictures_of_one_class(scenes, tmp_path):
    out = tmp_path / "shapes"
    compose.compose(out, compose.SceneOptions(train=1, eval=1, test=20, shapes=True))
    assert _content(out)["images/test/000003.jpg"] == _content(scenes)["images/test/000003.jpg"]
    dataset = read(str(out), "coco", {"test": {"annotations": "test.json", "images": "images/test"}})
    assert not any(dataset.rejected.values()) and dataset.label_map.num_classes == 1
    layout = make_layout(dataset.keypoint_names)
    examples = [make_example(r, {"digit": 1}, keypoints=layout) for r in dataset.splits["test"]]
    known = [tf.train.Example.FromString(e.data).features.feature for e in examples if e.objects]
    assert len(known) > 10
    for features in known:
        count = len(features["image/object/class/label"].int64_list.value)
        pngs = features["image/object/mask"].bytes_list.value
        masks = [np.asarray(Image.open(io.BytesIO(png))) for png in pngs]
        areas = features["image/object/area"].float_list.value
        assert [mask.sum() for mask in masks] == list(areas) and len(masks) == count
        names = features["image/object/keypoint/text"].bytes_list.value
        assert list(names) == [b"top", b"right", b"bottom", b"left"] * count


def test_no_scan_is_in_two_splits():
    splits = compose.split_scans(7)
    assert sum(len(labels) for _, labels in splits.values()) == 1797
    seen = [{scan.tobytes() for scan in scans} for scans, _ in splits.values()]
    # Scans that the source holds twice may be on both sides; there are next to none.
    assert len(seen[0] & seen[2]) <= 1
    assert len(splits["train"][1]) > 1200 and set(splits["test"][1]) == set(range(10))


def test_the_same_seed_gives_the_same_bytes_and_another_seed_others(scenes, tmp_path):
    compose.compose(tmp_path / "again", compose.SceneOptions(**COUNTS))
    assert _content(tmp_path / "again") == _content(scenes)
    compose.compose(tmp_path / "other", compose.SceneOptions(train=1, eval=1, test=20, seed=8))
    assert _content(tmp_path / "other")["test.json"] != _content(scenes)["test.json"]


def test_a_finished_folder_is_left_alone_and_an_unfinished_one_made_anew(tmp_path):
    out, options = tmp_path / "out", compose.SceneOptions(train=3, eval=2, test=2)
    partial = tmp_path / ".out.partial"
    partial.mkdir()
    (partial / "train.json").write_text("half of")
    assert compose.compose(out, options) and not partial.exists()
    before, times = _content(out), {p: p.stat().st_mtime_ns for p in out.rglob("*")}
    assert not compose.compose(out, options) and {p: p.stat().st_mtime_ns for p in out.rglob("*")} == times
    (out / "manifest.json").unlink()
    (out / "eval.json").write_text("damaged")
    assert compose.compose(out, options) and _content(out) == before


def test_the_command_says_what_it_did(tmp_path, capsys):
    for said in ("composed in", "already there"):
        compose.main([str(tmp_path / "out"), "--train", "2", "--eval", "1", "--test", "1"])
        assert said in capsys.readouterr().out
    assert Image.open(tmp_path / "out" / "images" / "train" / "000000.jpg").mode == "RGB"
