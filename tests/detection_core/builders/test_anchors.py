import numpy as np

from detection_core.builders.anchors import ANCHOR_GENERATORS, build_anchor_generator
from detection_core.errors import ModelError
from detection_core.protos.anchor_generator_pb2 import AnchorGenerator
from tests.support.cases import cases, refused
from tests.support.configs import parsed
from tests.support.golden_cases import cases_of

CASES = cases_of("detection_core/detectors/parts/anchors", "anchor_generators")
BUILT = [case for case in CASES.values() if case.outputs]


def _build(text):
    return build_anchor_generator(parsed(AnchorGenerator, text))


@cases(*BUILT)
def test_golden(*, case):
    generator = _build(case.config)
    assert generator.num_anchors_per_location() == case.params["num_anchors_per_location"]
    shapes = [tuple(shape) for shape in case.params["feature_map_shape_list"]]
    anchors = generator.generate(shapes, case.params.get("im_height", 1), case.params.get("im_width", 1))
    assert len(anchors) == len(case.outputs)
    for index, boxes in enumerate(anchors):
        np.testing.assert_allclose(boxes, case.outputs[f"anchors_{index}"], rtol=1e-5, atol=1e-6)


def test_every_arm_has_a_golden_and_what_the_reference_refuses_is_refused():
    assert {case.config.split()[0] for case in BUILT} == set(ANCHOR_GENERATORS)
    assert CASES["multiscale_normalized_without_size"].error and CASES["wrong_number_of_maps"].error
    generator = _build("multiscale_anchor_generator { min_level: 3 max_level: 3 aspect_ratios: 1 }")
    refused(ValueError, "image size", generator.generate, [(4, 4)], 1, 1)
    for arm in ANCHOR_GENERATORS:
        ratios = "aspect_ratios: 1" if arm == "multiscale_anchor_generator" else ""
        refused(ModelError, "feature maps", _build(f"{arm} {{ {ratios} }}").generate, [(2, 2)] * 9, 32, 32)


def test_scales_and_layers_end_with_the_shorter_list():
    """As in `create_ssd_anchors` of the Object Detection API, which zips the two."""
    text = "ssd_anchor_generator { num_layers: %d scales: [0.1, 0.4, 0.9] aspect_ratios: 1 }"
    maps = [(4, 4), (2, 2), (1, 1)]
    whole = _build(text % 3).generate(maps, 32, 32)
    for layers in (2, 6):
        generator = _build(text % layers)
        assert generator.num_anchors_per_location() == [3, 2, 2][:layers]
        for laid, wanted in zip(generator.generate(maps[:layers], 32, 32), whole[:layers], strict=True):
            np.testing.assert_allclose(laid, wanted, rtol=1e-6)
