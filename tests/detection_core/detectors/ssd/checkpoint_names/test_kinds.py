import pytest

from detection_core.builders.detector import build_detector
from detection_core.config.load import parse_pipeline_config
from detection_core.detectors.ssd.checkpoint_names.kinds import SSD_NAMES
from detection_core.training.checkpoint_names import FineTuneOptions
from tests.support.cases import cases
from tests.support.tiny_training import config_text

EXTRACTOR = "ssd_mobilenet_v2_fpn_keras"


@pytest.fixture(scope="module")
def model():
    return build_detector(parse_pipeline_config(config_text()).model, seed=None)


@cases(False, True)
def test_a_classifier_fills_less_than_a_detector_and_names_begin_as_said(model, *, named):
    naming = SSD_NAMES.naming(named=named)
    options = FineTuneOptions(kind="", named=named, extractor=EXTRACTOR, heads=True)
    found = {kind: variables(model, options) for kind, variables in naming.kinds.items()}
    counts = {kind: len(variables) for kind, variables in found.items()}
    assert 0 < counts["classification"] < counts["detection"] <= counts.get("full", 10_000)
    assert max(counts.values()) == len(model.variables)
    assert any(path.startswith(naming.classifier) for _, (path, *_) in found["classification"])
    assert any(path.startswith(naming.detector) for _, (path, *_) in found["detection"])
    everything = found["detection" if named else "full"]
    assert any(heads in path for heads in naming.heads for _, (path, *_) in everything)
