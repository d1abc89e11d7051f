from __future__ import annotations

import os

from components.publishing.blessing import blessing_reasons, is_blessed, write_blessing


def test_a_blessing(tmp_path):
    write_blessing(str(tmp_path / "b"), True, ["mAP is 0.9"])
    assert sorted(os.listdir(tmp_path / "b")) == ["BLESSED", "reasons.json"]
    assert is_blessed(str(tmp_path / "b"))
    assert blessing_reasons(str(tmp_path / "b")) == ["mAP is 0.9"]


def test_a_refusal(tmp_path):
    write_blessing(str(tmp_path / "b"), False, ["mAP is 0.1"])
    assert not is_blessed(str(tmp_path / "b"))


def test_a_blessing_of_others_has_no_reasons(tmp_path):
    (tmp_path / "BLESSED").touch()
    assert is_blessed(str(tmp_path)) and blessing_reasons(str(tmp_path)) == []
