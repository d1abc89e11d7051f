import numpy as np

from detection_core.config.anchor_match import fit_anchors
from detection_core.config.load import load_pipeline_config, parse_pipeline_config
from detection_core.detectors.family import AnchorSupport, Family, register_family, unregister_family
from tests.support.cases import cases, config_refused
from tests.support.configs import PYRAMID, changed

BOXES = np.array([[0.1, 0.1, 0.15, 0.6], [0.3, 0.2, 0.35, 0.7]])


def test_a_config_is_changed_so_that_it_matches_more():
    fit = fit_anchors(load_pipeline_config(PYRAMID), BOXES)
    assert all(path.startswith("model.ssd.anchor_generator.") for path in fit.overrides)
    assert (fit.default, fit.fitted) == (0, 1)
    assert fit_anchors(changed(PYRAMID, fit.overrides), BOXES).default == 1


@cases(None, AnchorSupport(boxes=lambda message, where: BOXES))
def test_a_detector_without_anchors_that_may_be_chosen_has_none_to_fit(*, anchors):
    register_family(Family(name="blind", build=None, describe=None, loss_names={}, anchors=anchors))
    try:
        config = parse_pipeline_config('model { experimental_model { name: "blind" } }')
        assert fit_anchors(config, BOXES) is None
    finally:
        unregister_family("blind")
    config_refused("found blind", fit_anchors, config, BOXES)
