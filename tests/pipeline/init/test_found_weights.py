from detection_core.zoo.cache import MIRROR_VARIABLE
from detection_core.zoo.published_models import find_model
from pipeline.init import found_weights
from pipeline.init.found_weights import find_weights
from pipeline.init.ladder import SMALL, find_network

NAME = "ssd_mobilenet_v2_fpnlite_320x320_coco17_tpu-8"


def test_weights_that_are_not_published_wanted_or_reachable(monkeypatch):
    monkeypatch.setattr(found_weights, "fetch_model", None)
    for name, wanted, remedy in (
        (SMALL, True, ""),
        ("efficientdet-lite0", True, "fine_tune_checkpoint"),
        ("ssdlite_mobilenet_v3_large_320x320_coco", True, "fine_tune_checkpoint_version to V1"),
        (NAME, False, ""),
    ):
        found = find_weights(find_network(name), wanted=wanted)
        assert not found.found and remedy in found.remedy
    assert found.remedy == ""
    monkeypatch.undo()
    found = find_weights(find_network(NAME), wanted=True)
    assert not found.found
    assert find_model(NAME).archive in found.remedy and MIRROR_VARIABLE in found.remedy
