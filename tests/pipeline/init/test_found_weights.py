from __future__ import annotations

import pytest

from detection_core.zoo.cache import CACHE_VARIABLE, MIRROR_VARIABLE
from detection_core.zoo.published_models import find_model
from pipeline.init import found_weights
from pipeline.init.found_weights import find_weights
from pipeline.init.ladder import SMALL, find_network

NAME = "ssd_mobilenet_v2_fpnlite_320x320_coco17_tpu-8"


@pytest.fixture(autouse=True)
def closed(tmp_path, monkeypatch):
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setenv(MIRROR_VARIABLE, str(tmp_path / "mirror"))


def test_where_nothing_is_published_or_wanted_nothing_is_fetched(monkeypatch):
    monkeypatch.setattr(found_weights, "fetch_model", None)
    assert not find_weights(find_network(SMALL), wanted=True).found
    theirs = find_weights(find_network("efficientdet-lite0"), wanted=True)
    assert not theirs.found and "fine_tune_checkpoint" in theirs.remedy
    old = find_weights(find_network("ssdlite_mobilenet_v3_large_320x320_coco"), wanted=True)
    assert not old.found and "fine_tune_checkpoint_version to V1" in old.remedy
    refused = find_weights(find_network(NAME), wanted=False)
    assert (refused.found, refused.remedy) == (False, "")


def test_weights_that_cannot_be_had_come_with_the_way_to_get_them(tmp_path):
    found = find_weights(find_network(NAME), wanted=True)
    assert not found.found
    assert find_model(NAME).archive in found.remedy and MIRROR_VARIABLE in found.remedy
