import dataclasses

from detection_core.builders.detector import build_detector
from detection_core.config.load import parse_pipeline_config
from detection_core.detectors.ssd.description import describe_ssd
from tests.support.tiny_training import config_text


def test_levels_and_anchors_are_those_of_the_predictions():
    config = parse_pipeline_config(config_text())
    model = build_detector(config.model, seed=None)
    found = describe_ssd(config.model.ssd, model)
    assert found.summary() == "ssd_mobilenet_v2_fpn_keras (mobilenet_v2, fpn)"
    assert [(level.rows, level.columns) for level in found.levels] == [(8, 8), (4, 4), (2, 2)]
    assert found.anchors == model.network.output_shape[0][1] == sum(level.anchors for level in found.levels)
    assert found.rows()[:2] == [("anchors", f"{found.anchors}"), ("", "8 x 8 x 2")]
    assert set(dataclasses.asdict(found)["parts"]) == {"head", "losses"}
