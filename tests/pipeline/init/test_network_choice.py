import numpy as np

from detection_core.config.anchor_match import fit_anchors
from detection_core.config.check import check_pipeline_config
from detection_core.detectors.family import model_message
from pipeline.init.ladder import SMALL, find_network, list_networks
from pipeline.init.network_choice import choose_network, fit_network, from_scratch, input_size, wanted_side
from tests.pipeline.init.looked_at import LAPTOP, WITH_GPU, seen


def test_small_objects_ask_for_a_larger_input_of_the_shape_of_the_pictures():
    for data, hardware, sides, word in (
        (seen(side=0.1), LAPTOP, range(255, 290), "should keep 24 pixels"),
        (seen(side=0.8), LAPTOP, [224], "224 at least"),
        (seen(side=0.02), LAPTOP, [320], "worth their time on 2 processors"),
        (seen(side=0.02), WITH_GPU, range(554, 556), "but the pictures have 554"),
        (seen(side=0.02, size=(2000, 3000)), WITH_GPU, [640], "worth their time on H100"),
        (seen(side=0.5, size=(100, 100)), LAPTOP, [100], "24 pixels"),
    ):
        found, reason = wanted_side(data, hardware)
        assert found in sides and word in reason
    sizes = {(480, 640): (192, 256), (640, 480): (256, 192), (500, 500): (224, 224), (100, 2000): (128, 384)}
    assert {size: input_size(seen(size=size), 224)[0] for size in sizes} == sizes
    mixed = seen(sizes=np.array([(480, 640)] * 60 + [(640, 480)] * 40))
    size, reason = input_size(mixed, 224)
    assert size == (192, 256) and reason.startswith("60% of the pictures")


def test_the_rung_follows_the_machine_unless_somebody_asks():
    assert choose_network(seen(), LAPTOP, name="", speed=None)[0].speed == "fast"
    assert choose_network(seen(), WITH_GPU, name="", speed=None)[0].speed == "balanced"
    assert choose_network(seen(), LAPTOP, name="", speed="accurate")[0].speed == "accurate"
    network, why = choose_network(seen(), LAPTOP, name=SMALL, speed=None)
    assert network.name == SMALL and "--model" in why
    assert from_scratch("no weights")[0].published is None


def test_every_network_of_the_ladder_is_fitted_to_any_data():
    data = seen(side=0.15, shape=3.0, objects=150)
    for network in list_networks():
        chosen = fit_network(network, "for the test", data, LAPTOP)
        check_pipeline_config(chosen.config)
        resizer = model_message(chosen.config.model)[0].image_resizer
        assert resizer.WhichOneof("image_resizer_oneof") == "fixed_shape_resizer"  # TensorFlow Lite needs it
        assert chosen.size == (resizer.fixed_shape_resizer.height, resizer.fixed_shape_resizer.width)
        anchors = chosen.anchors
        assert fit_anchors(chosen.config, data.boxes, keep_count=True).default == anchors.fitted, network.name
        assert anchors.fitted >= anchors.default - 0.005 and anchors.fitted > 0.7, network.name


def test_anchors_are_fitted_on_other_levels_and_not_to_a_few_boxes():
    chosen = fit_network(list_networks()[0], "", seen(side=0.9, shape=1.3), LAPTOP)
    pyramid = chosen.config.model.ssd.feature_extractor.fpn
    assert chosen.anchors.fitted > 0.95
    assert pyramid.max_level == chosen.config.model.ssd.anchor_generator.multiscale_anchor_generator.max_level
    chosen = fit_network(list_networks()[0], "", seen(objects=20), LAPTOP)
    assert chosen.anchors is None
    assert not any("anchor" in choice.path for choice in chosen.choices)


def test_the_input_of_google_automls_networks_is_as_large_as_published():
    chosen = fit_network(find_network("efficientdet-lite1"), "", seen(side=0.2, size=(480, 640)), LAPTOP)
    rows, columns = chosen.size
    assert abs(rows * columns - 384**2) < 0.1 * 384**2 and columns > rows
    message = chosen.config.model.efficientdet
    # Heads of a checkpoint fit where as many anchors lie at each place.
    assert (message.num_scales or 3) * (len(message.aspect_ratios) or 3) == 9
    assert {choice.path for choice in chosen.choices} >= {"model", "model.efficientdet.image_resizer"}
    assert any("an anchor matches" in choice.reason for choice in chosen.choices)
