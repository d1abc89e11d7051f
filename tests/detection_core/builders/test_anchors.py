import numpy as np
import pytest
from google.protobuf import text_format

from detection_core.builders.anchors import ANCHOR_GENERATORS, build_anchor_generator
from detection_core.errors import ConfigError, ModelError
from detection_core.protos import anchor_generator_pb2
from tests.detection_core.detectors.parts.anchors import test_ssd_anchors
from tests.support.cases import cases
from tests.support.golden_cases import GoldenCase, load_cases

CASES = load_cases(test_ssd_anchors.__file__, "anchor_generators")
BUILT = [case for case in CASES.values() if case.outputs]


def _build(text: str):
    return build_anchor_generator(text_format.Parse(text, anchor_generator_pb2.AnchorGenerator()))


@cases(*BUILT)
def test_golden(*, case: GoldenCase):
    generator = _build(case.config)
    assert generator.num_anchors_per_location() == case.params["num_anchors_per_location"]
    shapes = [tuple(shape) for shape in case.params["feature_map_shape_list"]]
    anchors = generator.generate(shapes, case.params.get("im_height", 1), case.params.get("im_width", 1))
    assert len(anchors) == len(case.outputs)
    for index, boxes in enumerate(anchors):
        np.testing.assert_allclose(boxes, case.outputs[f"anchors_{index}"], rtol=1e-5, atol=1e-6)


def test_every_arm_has_a_golden():
    assert {case.config.split()[0] for case in BUILT} == set(ANCHOR_GENERATORS)


def test_normalised_multiscale_needs_the_image_size():
    assert CASES["multiscale_normalized_without_size"].error
    generator = _build("multiscale_anchor_generator { min_level: 3 max_level: 3 aspect_ratios: 1 }")
    with pytest.raises(ValueError, match="image size"):
        generator.generate([(4, 4)], 1, 1)


@cases(*sorted(ANCHOR_GENERATORS))
def test_wrong_number_of_maps(*, arm):
    assert CASES["wrong_number_of_maps"].error
    ratios = "aspect_ratios: 1" if arm == "multiscale_anchor_generator" else ""
    with pytest.raises(ModelError, match="feature maps"):
        _build(f"{arm} {{ {ratios} }}").generate([(2, 2)] * 9, 32, 32)


@cases(
    ("", "ssd_anchor_generator"),
    ("ssd_anchor_generator { num_layers: 0 }", "num_layers"),
    ("ssd_anchor_generator { num_layers: 2 height_stride: 8 }", "height_stride"),
    ("ssd_anchor_generator { aspect_ratios: -1 }", "aspect_ratios"),
    ("multiscale_anchor_generator { aspect_ratios: 1 min_level: 5 max_level: 3 }", "max_level"),
    ("multiscale_anchor_generator { aspect_ratios: 1 scales_per_octave: 0 }", "scales_per_octave"),
    ("flexible_grid_anchor_generator { anchor_grid { base_sizes: 3 } }", "base_sizes"),
    ("grid_anchor_generator { aspect_ratios: 0 }", "aspect_ratios"),
)
def test_contradictions_are_refused(*, text, words):
    with pytest.raises(ConfigError, match=words):
        _build(text)


@cases(2, 6)
def test_scales_and_layers_end_with_the_shorter_list(*, layers):
    """As in `create_ssd_anchors` of the Object Detection API, which zips the two."""
    text = f"ssd_anchor_generator {{ num_layers: {layers} scales: [0.1, 0.4, 0.9] aspect_ratios: 1 }}"
    generator = _build(text)
    assert generator.num_anchors_per_location() == [3, 2, 2][:layers]
    maps = [(4, 4), (2, 2), (1, 1)][:layers]
    for laid, case in zip(generator.generate(maps, 32, 32), _three(maps), strict=False):
        np.testing.assert_allclose(laid, case, rtol=1e-6)


def _three(maps):
    text = "ssd_anchor_generator { num_layers: 3 scales: [0.1, 0.4, 0.9] aspect_ratios: 1 }"
    return _build(text).generate([(4, 4), (2, 2), (1, 1)], 32, 32)[: len(maps)]
