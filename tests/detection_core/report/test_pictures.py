import base64
import json

import pytest

from detection_core.report.pictures import PictureBudget

LIMITS = {"side_by_side": 2, "miss": 9}


def picture(number):
    return b"\xff\xd8\xff" + bytes([number]) * 297


@pytest.fixture
def evaluation(tmp_path):
    folder = tmp_path / "pictures"
    folder.mkdir()
    index = []
    for i, kind in enumerate(["side_by_side"] * 3 + ["miss"] * 2 + ["false_positive", "other"]):
        (folder / f"{i}.jpg").write_bytes(picture(i))
        index.append({"kind": kind, "source_id": f"s{i}", "caption": f"c{i}", "file": f"{i}.jpg"})
    (folder / "index.json").write_text(json.dumps(index))
    return tmp_path


def test_pictures_are_limited_by_kind_and_by_a_budget_for_all(evaluation, tmp_path):
    found = PictureBudget().embed(str(evaluation), LIMITS)
    sources = {kind: [p.source_id for p in pictures] for kind, pictures in found.items()}
    assert sources == {"side_by_side": ["s0", "s1"], "false_positive": [], "miss": ["s3", "s4"]}
    kind, _, text = found["miss"][0].data.partition(",")
    assert kind == "data:image/jpeg;base64"
    assert base64.b64decode(text) == picture(3)
    (evaluation / "pictures" / "3.jpg").unlink()
    assert [p.source_id for p in PictureBudget().embed(str(evaluation), LIMITS)["miss"]] == ["s4"]
    assert PictureBudget().embed(str(tmp_path / "nowhere"), LIMITS)["miss"] == []
    budget = PictureBudget(left=1200)  # three pictures of 400 characters
    first = budget.embed(str(evaluation), {"side_by_side": 2})
    second = budget.embed(str(evaluation), LIMITS)
    assert [len(first["side_by_side"]), len(second["side_by_side"]), len(second["miss"])] == [2, 1, 0]
