import importlib.util
import json
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from detection_core.datasets.encoding import make_example
from tests.support.input_data import read

SCRIPT = Path(__file__).parents[3] / "examples" / "digits" / "compose.py"


@pytest.fixture(scope="module")
def compose():
    spec = importlib.util.spec_from_file_location("compose_digits", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


COUNTS = {"train": 60, "eval": 20, "test": 20}


@pytest.fixture(scope="module")
def scenes(compose, tmp_path_factory):
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


def test_boxes_are_tight_on_the_ink(compose):
    scan = np.zeros((8, 8))
    scan[1:7, 3:5] = 16
    opacity = compose.opacity_of(np.random.default_rng(0), scan, 64)
    edges = (opacity[0], opacity[-1], opacity[:, 0], opacity[:, -1])
    assert all(edge.max() > compose.INK for edge in edges)


def test_no_scan_is_in_two_splits(compose):
    splits = compose.split_scans(7)
    assert sum(len(labels) for _, labels in splits.values()) == 1797
    seen = [{scan.tobytes() for scan in scans} for scans, _ in splits.values()]
    # Scans that the source holds twice may be on both sides; there are next to none.
    assert len(seen[0] & seen[2]) <= 1
    assert len(splits["train"][1]) > 1200 and set(splits["test"][1]) == set(range(10))


def test_the_same_seed_gives_the_same_bytes_and_another_seed_others(compose, scenes, tmp_path):
    compose.compose(tmp_path / "again", compose.SceneOptions(**COUNTS))
    assert _content(tmp_path / "again") == _content(scenes)
    compose.compose(tmp_path / "other", compose.SceneOptions(train=1, eval=1, test=20, seed=8))
    assert _content(tmp_path / "other")["test.json"] != _content(scenes)["test.json"]


def test_a_finished_folder_is_left_alone_and_an_unfinished_one_made_anew(compose, tmp_path):
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


def test_the_command_says_what_it_did(compose, tmp_path, capsys):
    for said in ("composed in", "already there"):
        compose.main([str(tmp_path / "out"), "--train", "2", "--eval", "1", "--test", "1"])
        assert said in capsys.readouterr().out
    assert Image.open(tmp_path / "out" / "images" / "train" / "000000.jpg").mode == "RGB"
