"""What is chosen for a data set: network, training, settings, weights."""

import dataclasses
import itertools
import re

import numpy as np
import pytest

from detection_core.config.check import check_pipeline_config
from detection_core.config.load import parse_pipeline_config
from detection_core.config.model_fields import fit_anchors
from detection_core.config.paths.overrides import apply_overrides
from detection_core.datasets.layouts import Layout
from detection_core.detectors.family import family_of, model_message
from detection_core.errors import DataError
from detection_core.tasks.describe import describe
from detection_core.zoo.cache import MIRROR_VARIABLE
from detection_core.zoo.fine_tuning import Choice
from detection_core.zoo.networks import PublishedModel, find_model, find_network, list_networks
from pipeline.init import plan
from pipeline.init import settings_choice as sets
from pipeline.init import training_choice as training
from pipeline.init.hardware import GIB, Hardware, look_at_hardware, measure
from pipeline.init.network_choice import (
    check_shapes,
    choose_flips,
    choose_network,
    fit_network,
    found_shapes,
    from_scratch,
    input_size,
    wanted_side,
)
from pipeline.init.plan import find_weights
from pipeline.init.tile_choice import choose_tiles, tiled
from tests.pipeline.init.looked_at import LAPTOP, WITH_GPU, seen
from tests.support.cases import config_refused, refused
from tests.support.plain_backbone import PLAIN
from tests.support.tiny_training import config_text


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
    assert {size: input_size(seen(size=size), 224, 32)[0] for size in sizes} == sizes
    assert input_size(seen(), 512, 128)[0] == (384, 640)
    size, reason = input_size(seen(sizes=np.array([(480, 640)] * 60 + [(640, 480)] * 40)), 224, 32)
    assert size == (192, 256) and reason.startswith("60% of the pictures")


def test_images_too_large_for_their_objects_are_cut_into_tiles():
    small, _ = from_scratch("no weights are here")
    for data, hardware, expected, words in (
        (seen(side=0.02, size=(2000, 3000)), LAPTOP, (576, 0.3), "leaves it 6; in tiles it keeps 24"),
        (seen(side=0.02, size=(2000, 3000)), WITH_GPU, (1152, 0.1), "A picture has 6 tiles"),
        # No smaller tile than the input: it would only enlarge pixels.
        (seen(side=0.005, size=(3000, 4000)), WITH_GPU, (640, 0.25), "smaller than 15 pixels"),
        (seen(side=0.05, size=(2000, 3000)), LAPTOP, None, ""),
        (seen(side=0.02, size=(480, 640)), WITH_GPU, None, ""),
        (seen(side=0.02, boxes=np.zeros((0, 4), np.float32)), LAPTOP, None, ""),
    ):
        found = choose_tiles(data, small, hardware)
        assert (found and (found.options.size, found.options.overlap)) == expected
        if found is None:
            assert tiled(data, found) is data
            continue
        assert found.setting.value == {"size": expected[0], "overlap": expected[1]}
        assert words in found.setting.reason
        # The network is fitted to square tiles, in which a box takes more of a side.
        shown = tiled(data, found)
        assert input_size(shown, 320, 32)[0] == (320, 320)
        pixels = np.median(data.boxes[:, 3] - data.boxes[:, 1]) * data.sizes[0, 1]
        assert np.median(shown.boxes[:, 3] - shown.boxes[:, 1]) == pytest.approx(
            pixels / expected[0], rel=1e-4
        )
    large = seen(
        boxes=np.array([[0, 0, 0.5, 0.9]] + [[0.1, 0.1, 0.11, 0.11]] * 20, np.float32), size=(2000, 3000)
    )
    assert len(tiled(large, choose_tiles(large, small, LAPTOP)).boxes) == 20


def test_the_rung_follows_the_machine_unless_somebody_asks():
    assert choose_network(seen(), LAPTOP, name="", speed=None)[0].speed == "fast"
    assert choose_network(seen(), WITH_GPU, name="", speed=None)[0].speed == "balanced"
    assert choose_network(seen(), LAPTOP, name="", speed="accurate")[0].speed == "accurate"
    small = from_scratch("no weights")[0]
    network, why = choose_network(seen(), LAPTOP, name=small.name, speed=None)
    assert network == small and "--model" in why and not isinstance(small, PublishedModel)


def test_every_network_of_the_ladder_is_fitted_to_any_data():
    data = seen(side=0.15, shape=3.0, objects=150, **SHAPES)
    for network in list_networks():
        chosen = fit_network(network, "for the test", data, LAPTOP)
        check_pipeline_config(chosen.config)
        resizer = model_message(chosen.config.model)[0].image_resizer
        assert resizer.WhichOneof("image_resizer_oneof") == "fixed_shape_resizer"  # TensorFlow Lite needs it
        assert chosen.size == (resizer.fixed_shape_resizer.height, resizer.fixed_shape_resizer.width)
        assert not any(side % network.multiple for side in chosen.size), network.name
        pyramid = network.name == "faster_rcnn_resnet50_v1_fpn_640x640_coco17_tpu-8"
        if family_of(chosen.config.model).anchors is None or pyramid:
            assert chosen.anchors is None, network.name
            continue
        anchors = chosen.anchors
        assert fit_anchors(chosen.config, data.boxes, keep_count=True).default == anchors.fitted, network.name
        assert anchors.fitted >= anchors.default - 0.005 and anchors.fitted > 0.7, network.name


NAMES = {"cat": ("left_ear", "right_ear", "nose")}
SHAPES = {"masks": 149, "keypoints": {"cat": 149}, "keypoint_names": NAMES}


def test_objects_with_keypoints_or_masks_get_a_detector_that_finds_them():
    keypoints = {"keypoints": {"cat": 1_900, "dog": 1}, "keypoint_names": {"cat": ("a",), "dog": ("b",)}}
    for data, finds, fetched, scratch in (
        (seen(masks=1_000), "boxes", "ssd_mobilenet_v2_fpnlite_320x320", "ssd_mobilenet_v2_fpnlite_half"),
        (seen(masks=1_001), "masks", "mask_rcnn_inception_resnet_v2", "mask_rcnn_inception_v2"),
        (seen(masks=2_000, **keypoints), "keypoints", "centernet_mobilenetv2fpn_512x512_coco17_kpts",
         "centernet_mobilenetv2fpn_half_kpts"),
    ):  # fmt: skip
        assert found_shapes(data)[0] == finds
        network, why = choose_network(data, LAPTOP, name="", speed=None)
        assert network.name.startswith(fetched) and (finds == "boxes" or f"it finds {finds}, as" in why)
        assert from_scratch("", finds)[0].name == scratch
    assert from_scratch("", "masks", "balanced")[0].name == "mask_rcnn_resnet50_v1"
    assert from_scratch("", "keypoints", "accurate")[0].name == "centernet_mobilenetv2fpn_half_kpts"
    kpts = find_network("centernet_mobilenetv2fpn_half_kpts")
    for lacking in (kpts, find_network("mask_rcnn_resnet50_v1")):
        config_refused(f"expected objects with {lacking.kind.finds}", check_shapes, lacking, seen())
    chosen = fit_network(kpts, "", seen(**keypoints), LAPTOP)
    (task,) = chosen.config.model.center_net.keypoint_estimation_task
    assert task.keypoint_class_name == "cat" and not task.keypoint_label_to_std
    readers = chosen.config.train_input_reader, *chosen.config.eval_input_reader
    assert [reader.num_keypoints for reader in readers] == [2, 2]
    # Persons of COCO keep the deviations of their annotations.
    (task,) = parse_pipeline_config(kpts.text()).model.center_net.keypoint_estimation_task
    names = tuple(task.keypoint_label_to_std)
    data = seen(keypoints={"cat": 9}, keypoint_names={"cat": names})
    (task,) = fit_network(kpts, "", data, LAPTOP).config.model.center_net.keypoint_estimation_task
    assert len(task.keypoint_label_to_std) == len(names) == 17


def test_flips_swap_left_and_right_keypoints_and_are_left_out_where_these_are_unknown():
    kpts = find_network("centernet_mobilenetv2fpn_half_kpts")
    for names, permutation in (
        (("nose", "left_eye", "right_eye"), [0, 2, 1]),
        (("L Hip", "tail", "R Hip"), [2, 1, 0]),
        (("eye-l", "eye-r"), [1, 0]),
        (("snout", "leftear", "rightear"), [0, 2, 1]),
        (("EyeLeft", "EyeRight"), [1, 0]),
        (("bright_spot", "left_eye", "right_eye"), [0, 2, 1]),
        (("left_eye", "nose"), None),
        (("a", "b"), None),
    ):
        flips = choose_flips(kpts, seen(keypoints={"cat": 1}, keypoint_names={"cat": names}))
        found = [flip["random_horizontal_flip"]["keypoint_flip_permutation"] for flip in flips]
        assert found == ([permutation] if permutation else []), names
    assert choose_flips(find_network("efficientdet-lite0"), seen()) == ({"random_horizontal_flip": {}},)


def test_anchors_are_fitted_on_other_levels_and_inputs_of_google_automl_as_large_as_published():
    chosen = fit_network(list_networks()[0], "", seen(side=0.9, shape=1.3), LAPTOP)
    pyramid = chosen.config.model.ssd.feature_extractor.fpn
    assert chosen.anchors.fitted > 0.95
    assert pyramid.max_level == chosen.config.model.ssd.anchor_generator.multiscale_anchor_generator.max_level
    chosen = fit_network(list_networks()[0], "", seen(objects=20), LAPTOP)
    assert chosen.anchors is None and not any("anchor" in choice.path for choice in chosen.choices)
    chosen = fit_network(find_network("efficientdet-lite1"), "", seen(side=0.2, size=(480, 640)), LAPTOP)
    rows, columns = chosen.size
    assert abs(rows * columns - 384**2) < 0.1 * 384**2 and columns > rows
    message = chosen.config.model.efficientdet
    # Heads of a checkpoint fit where as many anchors lie at each place.
    assert (message.num_scales or 3) * (len(message.aspect_ratios) or 3) == 9
    assert {choice.path for choice in chosen.choices} >= {"model", "model.efficientdet.image_resizer"}
    assert any("an anchor matches" in choice.reason for choice in chosen.choices)


DATA = seen()
SMALLEST = fit_network(list_networks()[0], "", DATA, LAPTOP)
PUBLISHED = fit_network(find_network("ssd_mobilenet_v2_fpnlite_320x320_coco17_tpu-8"), "", DATA, LAPTOP)


def test_the_batch_follows_the_amount_of_data_and_fits_in_memory():
    batches = {3: 3, 200: 8, 2_000: 16, 50_000: 32}
    assert {images: training.choose_batch(images, SMALLEST, LAPTOP).value for images in batches} == batches
    network = dataclasses.replace(SMALLEST.network, training_bytes=GIB // (192 * 256))
    heavy = dataclasses.replace(SMALLEST, network=network)
    machines = [Hardware(processors=2, memory=memory * GIB) for memory in (1, 8, 16, 200)]
    batches = [training.choose_batch(50_000, heavy, machine) for machine in machines]
    assert [choice.value for choice in batches] == [1, 2, 8, 32]
    assert "32 images would take more" in batches[1].reason
    assert training.choose_batch(50_000, heavy, Hardware(processors=2, memory=0)).value == 32
    # Also with centre maps and with two stages.
    names = ("centernet_hg104_512x512_coco17_tpu-8", "mask_rcnn_inception_resnet_v2_1024x1024_coco17_gpu-8")
    found = {}
    for name in names:
        network = find_network(name)
        chosen = dataclasses.replace(SMALLEST, network=network, size=(network.side, network.side))
        machines = [Hardware(processors=2, memory=memory * GIB) for memory in (8, 32, 1_000)]
        found[name] = [training.choose_batch(50_000, chosen, machine).value for machine in machines]
    assert list(found.values()) == [[1, 8, 32], [1, 2, 32]]


def test_a_training_for_any_amount_of_data_is_valid():
    amounts = (10, 700, 5_000, 200_000)
    for chosen, images, weights in itertools.product((SMALLEST, PUBLISHED), amounts, (True, False)):
        batch = training.choose_batch(images, chosen, LAPTOP)
        choices = training.choose_training(DATA, images, chosen, batch, weights=weights)
        paths = [choice.path for choice in choices]
        assert len(set(paths)) == len(paths)
        fields = {c.path: c.value for c in choices if not c.path.startswith("train.")}
        config = apply_overrides(chosen.config, fields)
        check_pipeline_config(config)
        train = config.train_config
        cosine = train.optimizer.momentum_optimizer.learning_rate.cosine_decay_learning_rate
        assert cosine.total_steps == train.num_steps == training.num_steps(choices) > cosine.warmup_steps
        assert cosine.learning_rate_base == pytest.approx(
            training.schedule(choices).value["learning_rate_base"]
        )
        assert (train.batch_size, train.max_number_of_boxes) == (batch.value, 20)
        assert ("train.start_from" in paths) == (weights and chosen is PUBLISHED)


def test_more_data_are_seen_fewer_times_and_full_pictures_keep_their_objects_but_for_memory():
    def epochs(images):
        batch = training.choose_batch(images, SMALLEST, LAPTOP)
        return (
            training.num_steps(training.choose_training(DATA, images, SMALLEST, batch, weights=False))
            * batch.value
            / images
        )

    assert epochs(300) > epochs(3_000) > epochs(30_000) > epochs(3_000_000)
    batch = training.choose_batch(300, SMALLEST, LAPTOP)
    for most, kept in ((233, 240), (300_000, 1_000)):
        choices = training.choose_training(seen(most=most), 300, SMALLEST, batch, weights=False)
        assert next(c.value for c in choices if c.path == "train_config.max_number_of_boxes") == kept


def test_the_best_weights_are_written_and_training_may_stop_early_but_not_by_a_few_images():
    def validated(choice):
        return apply_overrides(SMALLEST.config, {choice.path: choice.value}).train_config.validation

    for steps in (1_000, 150_000):
        validation = validated(training.choose_validation(steps, 40))
        assert validation.weights == validation.BEST and validation.max_images == 0
        assert 0 < validation.patience * validation.every_steps < steps / 2
        assert training.choose_validation(steps, 5_000).value["max_images"] == 500
    for images in (0, 3):
        choice = training.choose_validation(1_500, images)
        validation = validated(choice)
        assert validation.weights == validation.LAST and not validation.patience and validation.every_steps
        assert f"{images} images" in choice.reason


LAYOUT = Layout(format="voc", path="/data", splits={"train": 0.8, "eval": 0.2}, evidence="4 files")


def test_a_name_is_made_of_any_folder():
    for folder in ("/a/blood cells", "x/été 2", "/", "___", "-9", "a" * 300, "mine"):
        assert re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]{0,127}", sets.pipeline_name(folder)), folder
    assert sets.pipeline_name("/a/blood cells/") == "blood-cells"


def test_no_split_is_left_without_images_or_objects():
    for images, more in ((4_000, {"test"}), (120, set()), (6, set())):
        data = seen(images=images)
        ratios, reason = sets.choose_ratios(data)
        assert set(ratios) == {"train", "eval"} | more and sum(ratios.values()) == pytest.approx(1)
        assert all(data.count(name, ratios) for name in ratios)
        assert f"{data.count('train', ratios):,} train" in reason
    refused(DataError, "found 1; annotate more", sets.choose_ratios, seen(images=1))
    every_fifth = [1, 0, 0, 0, 0]
    annotated = [*every_fifth * 15, *[0] * 25]  # what would be eval has nothing to measure
    data = seen(images=20, positions=tuple(every_fifth * 20), annotated_positions=tuple(annotated))
    ratios, _ = sets.choose_ratios(data)
    assert all(data.count_annotated(name, ratios) for name in ratios)


def test_a_small_set_may_have_some_broken_files_and_is_decoded_whole():
    def values(images, **changed):
        data = seen(images=images, **changed)
        return {c.path: c.value for c in sets.data_choices(LAYOUT, LAYOUT.splits, "as it is", data)}

    small, large = values(300), values(100_000)
    assert small["data.quarantine_limit"] == 0.05 and small["data.decode_images"] == "all"
    assert "data.quarantine_limit" not in large and "data.decode_images" not in large
    assert values(100_000, rejected={"unknown_image": 3})["data.quarantine_limit"] == 0.01
    assert small["data.path"] == "/data" and small["data.format"] == "voc"


def test_measured_is_on_the_split_that_nothing_is_chosen_by():
    for splits, split in (
        ({"eval": 50, "test": 60}, "test"),
        ({"eval": 50}, "eval"),
        ({"eval": 9, "test": 0}, "eval"),
    ):
        assert next(iter(sets.evaluate_choices(splits))).value == split
    chosen = [{c.path: c.value for c in sets.evaluate_choices({"eval": count})} for count in (50, 5_000)]
    (few,), (many,) = (values["evaluate.thresholds"].values() for values in chosen)
    assert few["min_change"] < many["min_change"] < 0 < few["lower_bound"]
    for finds, metric in (("masks", "DetectionMasks_Precision"), ("keypoints", "Keypoints_Precision")):
        _, thresholds, quantized = sets.evaluate_choices({"eval": 50}, finds=finds)
        assert f"{metric}/mAP@.50IOU" in thresholds.value and f"{metric}/mAP@.50IOU" in quantized.value


def test_quantization_is_shorter_than_the_training_and_full_pictures_keep_their_detections():
    (choice,) = sets.quantize_choices(5_000, Choice(path="a", value={"learning_rate_base": 0.08}))
    values = {path.rpartition(".")[2]: value for path, value in choice.value.items()}
    assert values["num_steps"] == values["total_steps"] == 500
    assert values["learning_rate_base"] == 0.004 and isinstance(values["total_steps"], int)
    assert values["warmup_steps"] < 500
    assert [c.path for c in sets.export_choices(seen(most=12), 50)] == ["export.max_map_drop"]
    assert next(iter(sets.export_choices(seen(most=233), 50))).value == 240
    assert next(iter(sets.export_choices(seen(most=300_000), 50))).value == 1_000


def test_this_machine_has_processors_and_memory_and_says_so():
    found = look_at_hardware()
    assert found.processors >= 1 and found.memory > GIB // 4 and f"{found.memory / GIB:.0f} GiB" in found.text
    for memory, gpu, text in (
        (0, "", "2 processors without a GPU"),
        (8 * GIB, "", "2 processors without a GPU, 8 GiB"),
        (80 * GIB, "H100", "H100, 80 GiB"),
    ):
        assert Hardware(processors=2, memory=memory, gpu=gpu).text == text


def test_a_network_is_built_and_timed():
    config = parse_pipeline_config(config_text(backbone=PLAIN))
    config.model.ssd.ClearField("num_classes")
    found = measure(config, classes=4)
    described = describe(apply_overrides(config, {"model.ssd.num_classes": 4}))
    assert (found.parameters, found.multiply_adds) == (described.parameters, described.flops // 2)
    assert 0 < found.milliseconds < 60_000


NAME = "ssd_mobilenet_v2_fpnlite_320x320_coco17_tpu-8"


def test_weights_that_are_not_published_wanted_or_reachable(monkeypatch):
    monkeypatch.setattr(plan, "fetch_model", None)
    for name, wanted, remedy in (
        (SMALLEST.network.name, True, ""),
        ("efficientdet-lite0", True, "fine_tune_checkpoint"),
        ("ssdlite_mobilenet_v3_large_320x320_coco", True, "fine_tune_checkpoint_version to V1"),
        (NAME, False, ""),
    ):
        found = find_weights(find_network(name), wanted=wanted)
        assert not found.found and remedy in found.remedy
    assert found.remedy == ""
    monkeypatch.undo()
    found = find_weights(find_network(NAME), wanted=True)
    assert not found.found and find_model(NAME).archive in found.remedy and MIRROR_VARIABLE in found.remedy
