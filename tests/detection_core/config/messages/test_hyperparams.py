from detection_core.config.check import find_problems
from tests.support.configs import PYRAMID, assert_fine, changed

INITIALIZER = "model.ssd.feature_extractor.conv_hyperparams.initializer.keras_initializer_by_name"


def test_an_initializer_of_a_kernel_is_known_and_any_other_refused():
    for name in ("he_normal", "GlorotUniform", "zeros", "lecun_uniformV2"):
        assert_fine(PYRAMID, {INITIALIZER: name})
    for name in ("he_norml", "identity", "", "x" * 9000):
        (problem,) = find_problems(changed(PYRAMID, {INITIALIZER: f'"{name}"'}))
        assert problem.path == INITIALIZER and len(problem.message) < 300
        assert ("did you mean he_normal" in problem.message) == (name == "he_norml")
