from __future__ import annotations

import dataclasses

import pytest

from detection_core.config.check import check_pipeline_config
from detection_core.errors import ConfigError, DataError
from detection_core.zoo.cache import CACHE_VARIABLE, MIRROR_VARIABLE
from pipeline.init import plan as planning
from pipeline.init.found_weights import StartingWeights
from pipeline.init.ladder import SMALL
from pipeline.init.plan import Request, make_plan
from tests.pipeline.init.looked_at import LAPTOP
from tests.support.dataset_files import Coco, write_voc


@pytest.fixture(autouse=True)
def no_network(tmp_path, monkeypatch):
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setenv(MIRROR_VARIABLE, str(tmp_path / "mirror"))


def coco(tmp_path, images=60):
    return Coco(tmp_path / "data", images=images).write()


def test_without_weights_the_small_network_is_trained_from_scratch(tmp_path):
    plan = make_plan(Request(data=coco(tmp_path), folder="mine"), LAPTOP)
    assert plan.network.network.name == SMALL and not plan.weights.found
    assert str(tmp_path / "cache") in plan.weights.remedy
    check_pipeline_config(plan.config)
    assert plan.config.train_config.HasField("validation")
    assert plan.config.HasField("graph_rewriter") and not plan.config.model.ssd.HasField("num_classes")
    comments = {choice.path: choice.reason for choice in plan.config_choices}
    assert "now has 2: cat, dog" in comments["model.ssd"]
    assert set(plan.value("data.splits")) == {"train", "eval"}


def test_with_weights_the_published_network_is_trained_on(tmp_path, monkeypatch):
    found = StartingWeights(found=True, reason="they are here")
    monkeypatch.setattr(planning, "find_weights", lambda network, wanted: found)
    plan = make_plan(Request(data=coco(tmp_path), folder="mine"), LAPTOP)
    name = plan.network.network.name
    assert plan.value("train.start_from") == f"zoo:{name}"
    assert plan.config.train_config.optimizer.use_moving_average
    assert "they are here" in {c.path: c.reason for c in plan.settings}["train.start_from"]
    # Weights of heads fit only where as many anchors lie at each place.
    generator = plan.config.model.ssd.anchor_generator.multiscale_anchor_generator
    assert len(generator.aspect_ratios) * generator.scales_per_octave == 6


def test_a_network_that_was_asked_for_is_taken_without_weights_too(tmp_path):
    name = "ssd_mobilenet_v2_320x320_coco17_tpu-8"
    request = Request(data=coco(tmp_path), folder="mine", model=name, weights=False)
    plan = make_plan(request, LAPTOP)
    assert plan.network.network.name == name
    assert "--from-scratch" in plan.weights.reason
    with pytest.raises(ConfigError, match="did you mean"):
        make_plan(Request(data=coco(tmp_path), folder="mine", model=name[:-3]), LAPTOP)


def test_an_efficientdet_of_google_automl_is_taken_by_its_name(tmp_path):
    plan = make_plan(Request(data=coco(tmp_path), folder="mine", model="efficientdet-lite0"), LAPTOP)
    check_pipeline_config(plan.config)
    assert plan.config.model.efficientdet.name == "efficientdet-lite0"
    assert not plan.config.model.efficientdet.HasField("num_classes")
    assert plan.config.train_config.gradient_clipping_by_norm == 10.0
    comments = {choice.path: choice.reason for choice in plan.config_choices}
    assert "now has 2: cat, dog" in comments["model.efficientdet"]
    start = {c.path: c.reason for c in plan.settings}["train.start_from"]
    assert "fine_tune_checkpoint" in start and "run `detflow init` again" not in start


def test_splits_that_the_folder_has_are_taken(tmp_path):
    write_voc(tmp_path / "voc", names="abcdef")
    (tmp_path / "voc" / "ImageSets" / "Main" / "val.txt").write_text("a\n")
    plan = make_plan(Request(data=str(tmp_path / "voc"), folder="mine"), LAPTOP)
    assert plan.value("data.splits") == {
        "train": "ImageSets/Main/train.txt",
        "eval": "ImageSets/Main/val.txt",
    }
    assert "6 train, 1 eval" in {c.path: c.reason for c in plan.settings}["data.splits"]


def test_a_folder_without_data_is_refused_with_what_was_looked_for(tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match=r"Looked for .*COCO.*Found nothing"):
        make_plan(Request(data=str(tmp_path / "empty"), folder="mine"), LAPTOP)
    with pytest.raises(DataError, match="correct the path"):
        make_plan(Request(data=str(tmp_path / "missing"), folder="mine"), LAPTOP)


def test_a_split_without_objects_is_left_out(tmp_path):
    for split in ("train", "val", "test"):
        data = Coco(tmp_path / "data" / split, images=0)
        for number in range(1, 21):
            name = f"{split}{number}.jpg"
            data.add_image(number, name=name, boxes=() if split == "test" else [[1, 2, 10, 9]])
        data.write()
    request = Request(data=str(tmp_path / "data"), folder="mine", weights=False)
    plan = make_plan(request, LAPTOP)
    assert set(plan.value("data.splits")) == {"train", "eval"}
    assert "no objects in test, left out" in plan.layouts[0].evidence
    (tmp_path / "data" / "val" / "annotations.json").unlink()
    with pytest.raises(DataError, match="found none in eval; name the folder of the annotated images alone"):
        make_plan(request, LAPTOP)
    alone = dataclasses.replace(request, data=str(tmp_path / "data" / "train"))
    assert set(make_plan(alone, LAPTOP).value("data.splits")) == {"train", "eval"}
