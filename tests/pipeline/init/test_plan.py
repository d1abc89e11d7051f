import pytest

from detection_core.config.check import check_pipeline_config
from detection_core.errors import ConfigError, DataError
from pipeline.init import plan as planning
from pipeline.init.found_weights import StartingWeights
from pipeline.init.ladder import SMALL
from tests.support.cases import refused
from tests.support.dataset_files import Coco, write_voc


def reasons(choices):
    return {choice.path: choice.reason for choice in choices}


def test_without_weights_the_small_network_is_trained_from_scratch(tmp_path, planned):
    plan = planned()
    assert plan.network.network.name == SMALL and not plan.weights.found
    assert str(tmp_path / "cache") in plan.weights.remedy
    check_pipeline_config(plan.config)
    assert plan.config.train_config.HasField("validation")
    assert plan.config.HasField("graph_rewriter") and not plan.config.model.ssd.HasField("num_classes")
    assert "now has 2: cat, dog" in reasons(plan.config_choices)["model.ssd"]
    assert set(plan.value("data.splits")) == {"train", "eval"}


def test_with_weights_the_published_network_is_trained_on(planned, monkeypatch):
    found = StartingWeights(found=True, reason="they are here")
    monkeypatch.setattr(planning, "find_weights", lambda network, wanted: found)
    plan = planned()
    assert plan.value("train.start_from") == f"zoo:{plan.network.network.name}"
    assert plan.config.train_config.optimizer.use_moving_average
    assert "they are here" in reasons(plan.settings)["train.start_from"]
    # Weights of heads fit only where as many anchors lie at each place.
    generator = plan.config.model.ssd.anchor_generator.multiscale_anchor_generator
    assert len(generator.aspect_ratios) * generator.scales_per_octave == 6


def test_a_network_that_was_asked_for_is_taken_without_weights_too(planned):
    name = "ssd_mobilenet_v2_320x320_coco17_tpu-8"
    plan = planned(model=name, weights=False)
    assert plan.network.network.name == name
    assert "--from-scratch" in plan.weights.reason
    with pytest.raises(ConfigError, match="did you mean"):
        planned(model=name[:-3])
    plan = planned(model="efficientdet-lite0")
    check_pipeline_config(plan.config)
    assert plan.config.model.efficientdet.name == "efficientdet-lite0"
    assert not plan.config.model.efficientdet.HasField("num_classes")
    assert plan.config.train_config.gradient_clipping_by_norm == 10.0
    assert "now has 2: cat, dog" in reasons(plan.config_choices)["model.efficientdet"]
    start = reasons(plan.settings)["train.start_from"]
    assert "fine_tune_checkpoint" in start and "run `detflow init` again" not in start


def test_splits_that_the_folder_has_are_taken_and_one_without_objects_is_left_out(tmp_path, planned):
    lists = tmp_path / "voc" / "ImageSets" / "Main"
    write_voc(tmp_path / "voc", names="abcdef")
    (lists / "val.txt").write_text("a\n")
    plan = planned(tmp_path / "voc")
    splits = {"train": "ImageSets/Main/train.txt", "eval": "ImageSets/Main/val.txt"}
    assert plan.value("data.splits") == splits
    assert "6 train, 1 eval" in reasons(plan.settings)["data.splits"]
    for split in ("train", "val", "test"):
        data = Coco(tmp_path / "split" / split, images=0)
        for number in range(1, 21):
            name = f"{split}{number}.jpg"
            data.add_image(number, name=name, boxes=() if split == "test" else [[1, 2, 10, 9]])
        data.write()
    plan = planned(tmp_path / "split", weights=False)
    assert set(plan.value("data.splits")) == {"train", "eval"}
    assert "no objects in test, left out" in plan.layouts[0].evidence
    (tmp_path / "split" / "val" / "annotations.json").unlink()
    with pytest.raises(DataError, match="found none in eval; name the folder of the annotated images alone"):
        planned(tmp_path / "split", weights=False)
    alone = planned(tmp_path / "split" / "train", weights=False)
    assert set(alone.value("data.splits")) == {"train", "eval"}
    (tmp_path / "empty").mkdir()
    refused(DataError, r"Looked for .*COCO.*Found nothing", planned, tmp_path / "empty")
    refused(DataError, "correct the path", planned, tmp_path / "missing")
