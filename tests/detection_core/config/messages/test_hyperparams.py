from detection_core.config.check import find_problems
from detection_core.config.load import load_pipeline_config
from detection_core.config.paths.overrides import apply_overrides
from tests.support.cases import cases
from tests.support.configs import PYRAMID, assert_fine, assert_problems

INITIALIZER = "model.ssd.feature_extractor.conv_hyperparams.initializer.keras_initializer_by_name"


@cases("he_normal", "GlorotUniform", "zeros", "lecun_uniformV2")
def test_an_initializer_of_a_kernel_is_known(*, name):
    assert_fine(PYRAMID, {INITIALIZER: name})


@cases("he_norml", "identity", "", "x" * 9000)
def test_any_other_is_refused(*, name):
    changes = {INITIALIZER: f'"{name}"'}
    assert_problems(PYRAMID, changes, {INITIALIZER})
    (problem,) = find_problems(apply_overrides(load_pipeline_config(PYRAMID), changes))
    assert ("did you mean he_normal" in problem.message) == (name == "he_norml")
    assert len(problem.message) < 300
