from __future__ import annotations

import pytest

from detection_core.zoo.cache import CACHE_VARIABLE, MIRROR_VARIABLE
from pipeline.init.plan import Request, make_plan
from pipeline.init.summary import summary_rows
from tests.detection_core.datasets.dataset_files import Coco
from tests.pipeline.init.looked_at import LAPTOP


@pytest.fixture
def rows(tmp_path, monkeypatch):
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setenv(MIRROR_VARIABLE, str(tmp_path / "mirror"))
    data = Coco(tmp_path / "data", images=60)
    (tmp_path / "data" / "images" / "7.jpg").unlink()
    data.add_box(999, [1, 1, 5, 5])
    return dict(summary_rows(make_plan(Request(data=data.write(), folder="mine"), LAPTOP)))


def test_what_was_found_is_said_in_ten_lines(rows):
    assert len(rows) == 10 and all(rows.values())
    assert rows["format"].startswith("coco: ")
    assert rows["images"].startswith("60, 20 without objects; 40 x 30 pixels")
    assert rows["objects"] == "40, at most 1 an image: cat 40, dog 0"
    assert "million parameters" in rows["network"] and "multiply-adds" in rows["network"]
    assert rows["weights"].endswith("settings.yaml says how to get them")
    assert "40 boxes are too few" in rows["anchors"]


def test_what_is_wrong_is_said(rows):
    assert rows["problems"].startswith("1 unknown_image; 1 of 60 image files that were opened cannot be read")
    assert "7.jpg" in rows["problems"]
