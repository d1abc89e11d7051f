import operator

from detection_core.config.messages.extractors import EXTRACTORS
from detection_core.zoo.published_models import SPEEDS, find_model, list_models, nearest_model
from tests.support.cases import cases, config_refused, refused
from tests.support.zoo_configs import ZOO, golden_name, zoo_facts


def test_names_are_the_published_ones_and_others_are_refused_with_the_nearest():
    names = [model.name for model in list_models()]
    assert len(set(names)) == len(names) == 18
    assert {"ssd_mobilenet_v2_fpnlite_320x320_coco17_tpu-8", "efficientdet_d0_coco17_tpu-32"} <= set(names)
    for model in list_models():
        assert model.extractor in EXTRACTORS
        assert model.address.endswith(f"/20200711/{model.name}.tar.gz")
        assert model.licence == "Apache-2.0"
    model = find_model("efficientdet_d0_coco17_tpu-32.tar.gz")
    assert model.name == "efficientdet_d0_coco17_tpu-32"
    config_refused("did you mean efficientdet_d0_coco17_tpu-32", find_model, "efficientdet_d0")
    config_refused("zoo list", find_model, "x")
    assert len(str(config_refused("", find_model, "y" * 10_000))) < 500


def test_inputs_and_parameters_are_those_of_the_reference():
    goldens = {golden: model for model in list_models() if (golden := golden_name(model.name))}
    assert set(goldens) == set(ZOO)
    for golden, model in goldens.items():
        facts = zoo_facts(golden)
        assert facts.input_size == (model.input_side, model.input_side), golden
        # The reference counts the classifier's layers that no detector uses, too.
        counts = operator.gt if "efficientdet" in golden else operator.eq
        assert counts(facts.parameters, model.parameters), golden
    d0, in_classifier = "ssd_efficientdet_d0_512x512", 320 * 1280 + 4 * 1280 + 1281 * 1000
    assert zoo_facts(d0).parameters - goldens[d0].parameters == in_classifier


def test_every_published_fact_is_given_and_sizes_follow_the_parameters():
    for model in list_models():
        assert 20 < model.coco_map < 52 and 19 <= model.published_ms <= 325 and model.parameters > 2_000_000
        assert 16 * model.parameters < model.most_bytes < 2**31
    classes = {model.title.split()[1]: model.size_class for model in list_models() if "Effic" in model.title}
    assert [classes[name] for name in ("D0", "D3", "D7")] == ["small", "medium", "large"]
    assert {model.speed for model in list_models()} == set(SPEEDS)
    refused(ValueError, "fast", lambda: nearest_model((1, 1), speed="slow"))
    refused(ValueError, "size", nearest_model, (0, 1))


@cases(
    ((300, 300), "fast", "ssd_mobilenet_v2_320x320_coco17_tpu-8"),
    ((320, 320), "fast", "ssd_mobilenet_v2_fpnlite_320x320_coco17_tpu-8"),
    ((480, 860), "fast", "ssd_mobilenet_v2_fpnlite_640x640_coco17_tpu-8"),
    ((640, 640), "balanced", "efficientdet_d1_coco17_tpu-32"),
    ((100, 100), "accurate", "ssd_resnet101_v1_fpn_640x640_coco17_tpu-8"),
    ((4000, 6000), "accurate", "efficientdet_d7_coco17_tpu-32"),
)
def test_the_nearest_input_of_a_rung(*, size, speed, name):
    assert nearest_model(size, speed=speed).name == name
