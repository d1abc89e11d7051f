import pytest

from tests.detection_core.config.configs import PYRAMID, assert_problems

QUANTIZATION = "graph_rewriter.quantization"

# Config, what is changed in it, and the paths of the problems that must be found, no more and no fewer.
WRONG = [
    (PYRAMID, {f"{QUANTIZATION}.weight_bits": 4}, {f"{QUANTIZATION}.weight_bits"}),
    (PYRAMID, {f"{QUANTIZATION}.activation_bits": 16}, {f"{QUANTIZATION}.activation_bits"}),
    (PYRAMID, {f"{QUANTIZATION}.delay": -1}, {f"{QUANTIZATION}.delay"}),
]


@pytest.mark.parametrize(("path", "changes", "expected"), WRONG)
def test_a_problem_is_found_where_it_is_and_nowhere_else(path, changes, expected):
    assert_problems(path, changes, expected)
