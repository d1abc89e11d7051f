"""The plan, its documents and its summary."""

from types import SimpleNamespace

import pytest
from PIL import Image

from detection_core.artifacts.detector import PIPELINE_CONFIG
from detection_core.config.check import check_pipeline_config
from detection_core.config.load import load_checked_config
from detection_core.detectors.family import family_of
from detection_core.errors import ConfigError, DataError
from detection_core.zoo.networks import PublishedModel, list_networks
from pipeline.dag import build_dag
from pipeline.init import plan as planning
from pipeline.init.documents import GRID, SETTINGS, check_documents, write_documents
from pipeline.init.plan import Request, StartingWeights, make_plan
from pipeline.init.summary import summary_data, summary_rows
from pipeline.settings.settings_file import load_settings
from pipeline.step_configs import training_config
from tests.pipeline.init.looked_at import LAPTOP
from tests.support.cases import refused
from tests.support.dataset_files import Coco, encoded, picture, write_voc


def reasons(choices):
    return {choice.path: choice.reason for choice in choices}


def test_without_weights_the_small_network_is_trained_or_the_one_that_was_asked_for(tmp_path, planned):
    plan = planned()
    assert plan.network.network.from_scratch and not plan.weights.found
    assert str(tmp_path / "cache") in plan.weights.remedy
    check_pipeline_config(plan.config)
    assert plan.config.train_config.HasField("validation")
    assert plan.config.HasField("graph_rewriter") and not plan.config.model.ssd.HasField("num_classes")
    assert "now has 2: cat, dog" in reasons(plan.config_choices)["model.ssd"]
    assert set(plan.value("data.splits")) == {"train", "eval"}
    name = "ssd_mobilenet_v2_320x320_coco17_tpu-8"
    plan = planned(model=name, weights=False)
    assert plan.network.network.name == name and "--from-scratch" in plan.weights.reason
    refused(ConfigError, "did you mean", planned, model=name[:-3])
    plan = planned(model="efficientdet-lite0")
    check_pipeline_config(plan.config)
    assert plan.config.model.efficientdet.name == "efficientdet-lite0"
    assert not plan.config.model.efficientdet.HasField("num_classes")
    assert plan.config.train_config.gradient_clipping_by_norm == 10.0
    assert "now has 2: cat, dog" in reasons(plan.config_choices)["model.efficientdet"]
    start = reasons(plan.settings)["train.start_from"]
    assert "fine_tune_checkpoint" in start and "run `detflow init` again" not in start


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


def test_weights_lie_here_or_are_fetched(monkeypatch):
    model = next(network for network in list_networks() if isinstance(network, PublishedModel))
    assert "--from-scratch" in planning.find_weights(model, wanted=False).reason
    fetched = SimpleNamespace(folder="/cache/model")
    monkeypatch.setattr(planning, "fetch_model", lambda name: fetched)
    for files, words in ((None, "were fetched in /cache/model"), ("there", "lie in /cache/model")):
        monkeypatch.setattr(planning, "find_model_files", lambda name, files=files: files)
        found = planning.find_weights(model, wanted=True)
        assert found.found and found.reason == f"the published weights {words}"


def test_tiles_are_proposed_for_small_objects_in_large_images(tmp_path, planned):
    coco = Coco(tmp_path / "large", images=0)
    flat = encoded(Image.new("RGB", (1200, 900)), "JPEG")
    for number in range(1, 61):
        boxes = [(10 + 20 * number, 13 * number, 18, 18)]
        coco.add_image(number, data=flat, boxes=boxes, width=1200, height=900)
    plan = planned(coco.write())
    assert plan.value("data.tiles") == {"size": 320, "overlap": 0.25}
    assert "A picture has 20 tiles" in reasons(plan.settings)["data.tiles"]
    # The network sees squares, and trains on 21 examples of an image.
    assert plan.network.size[0] == plan.network.size[1]
    examples = 21 * plan.seen.count("train", plan.value("data.splits"))
    assert f"epochs of {examples:,} images" in reasons(plan.config_choices)["train_config.num_steps"]
    for name, content in write_documents(plan).items():
        (tmp_path / name).write_bytes(content)
    settings = load_settings(str(tmp_path / SETTINGS))
    assert settings.data.tiles.size == 320
    steps = {step.id: step.parameters for step in build_dag(settings).steps}
    assert steps["example_gen"]["tiles"] == steps["evaluator"]["tiles"] == settings.data.tiles.parameters()


def test_splits_that_the_folder_has_are_taken_and_one_without_objects_is_left_out(tmp_path, planned):
    write_voc(tmp_path / "voc", names="abcdef")
    (tmp_path / "voc" / "ImageSets" / "Main" / "val.txt").write_text("a\n")
    plan = planned(tmp_path / "voc")
    splits = {"train": "ImageSets/Main/train.txt", "eval": "ImageSets/Main/val.txt"}
    assert plan.value("data.splits") == splits and "6 train, 1 eval" in reasons(plan.settings)["data.splits"]
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
    with pytest.raises(DataError, match="found none in eval; name only the folder of the annotated images"):
        planned(tmp_path / "split", weights=False)
    assert set(planned(tmp_path / "split" / "train", weights=False).value("data.splits")) == {"train", "eval"}
    (tmp_path / "empty").mkdir()
    refused(DataError, r"Looked for .*COCO.*Found nothing", planned, tmp_path / "empty")
    refused(DataError, "correct the path", planned, tmp_path / "missing")


@pytest.mark.slow
def test_the_files_of_every_network_are_a_workflow_that_can_be_run_or_are_refused(tmp_path):
    data = Coco(tmp_path / "data", images=30)
    data.add_image(31, boxes=[(1, 1, 9, 9)] * 40)
    data.annotate_shapes()
    path, mine = data.write(), tmp_path / "mine"
    mine.mkdir()
    for network in list_networks():
        request = Request(data=path, folder=str(mine), model=network.name, weights=False)
        contents = write_documents(make_plan(request, LAPTOP))
        assert set(contents) == {SETTINGS, PIPELINE_CONFIG, GRID}
        check_documents(contents, request.data)
        for file, content in contents.items():
            (mine / file).write_bytes(content)
        settings = load_settings(str(mine / SETTINGS))
        assert (settings.data.path, settings.name) == (str(tmp_path / "data"), "mine")
        assert settings.workspace == str(mine / "workspace")
        components = {step.component for step in build_dag(settings).steps}
        family = family_of(training_config(settings, quantize=False).model)
        assert "trainer" in components and "pusher" in components, network.name
        assert ("quantization_rewriter" in components) == (family.quantization is not None), network.name
        assert ("tflite_exporter" in components) == (family.tflite is not None), network.name
    # Files that cannot be run are refused before they are written.
    contents = {SETTINGS: b"name: x\nworkspace: w\ndata: {path: d}\nmodel: {config: pipeline.config}\n"}
    with pytest.raises(ConfigError, match="no workflow can be made of it") as caught:
        check_documents({**contents, PIPELINE_CONFIG: b"model { }"}, "/data")
    assert caught.value.where == "/data"
    endless = [
        line for line in (mine / PIPELINE_CONFIG).read_bytes().split(b"\n") if b"num_steps" not in line
    ]
    settings = {SETTINGS: (mine / SETTINGS).read_bytes()}
    with pytest.raises(ConfigError, match=r"no workflow can be made of it.*num_steps"):
        check_documents({**settings, PIPELINE_CONFIG: b"\n".join(endless)}, "/data")


def test_every_choice_has_its_reason_above_it(tmp_path, planned):
    plan = planned(weights=False)
    contents = write_documents(plan)
    for name, starts in (
        (PIPELINE_CONFIG, "batch_size: |num_steps: |max_number_of_boxes: |image_resizer {|ssd {"),
        (SETTINGS, "  format: |  splits: |  split: |  overrides:|  max_map_drop: |  thresholds:"),
    ):
        lines = contents[name].decode().split("\n")
        for start in starts.split("|"):
            at = next(i for i, x in enumerate(lines) if x.lstrip().startswith(start) or x.startswith(start))
            assert lines[at - 1].strip().startswith("# "), start
    (tmp_path / PIPELINE_CONFIG).write_bytes(contents[PIPELINE_CONFIG])
    assert load_checked_config(str(tmp_path / PIPELINE_CONFIG)) == plan.config


def test_what_objects_have_besides_boxes_is_said(data, planned):
    data.annotate_shapes()
    rows = dict(summary_rows(planned(weights=False)))
    found = "; 40 with masks; 40 with keypoints; the network finds keypoints"
    assert rows["objects"].endswith(f"{found}; one of boxes, by --model, is smaller")
    assert rows["anchors"] == "none that are fitted to the boxes"
    plan = planned(weights=False, model="mask_rcnn_resnet50_v1")
    assert summary_data(plan)["masks"] == 40 and summary_data(plan)["keypoints"] == {"cat": 40}
    assert dict(summary_rows(plan))["anchors"].endswith("40 boxes are too few to fit them to")
    assert plan.config.train_input_reader.load_instance_masks and not plan.config.HasField("graph_rewriter")
    assert list(plan.config.eval_config.metrics_set) == ["coco_detection_metrics", "coco_mask_metrics"]
    assert not any(choice.path.startswith(("export", "quantize")) for choice in plan.settings)


def test_images_that_nobody_annotated_and_names_that_are_alike_or_long_are_said(tmp_path, planned, data):
    folder = write_voc(tmp_path / "voc", names=[f"i{n}" for n in range(20)])
    for number in range(3):
        (tmp_path / "voc" / "JPEGImages" / f"x{number}.jpg").write_bytes(picture(seed=number))
    (tmp_path / "voc" / "ImageSets" / "Main" / "train.txt").unlink()
    plan = planned(folder, weights=False)
    assert ", and 3 without annotations, which are left out" in dict(summary_rows(plan))["images"]
    assert plan.value("data.unannotated_images") == "leave_out"
    data.categories += [{"id": 8, "name": "Cat "}, {"id": 9, "name": "d og"}]
    plan = planned(weights=False)
    assert "differ only in case or blanks: 'Cat ', 'cat'" in dict(summary_rows(plan))["problems"]
    assert summary_data(plan)["similar_classes"] == [["Cat ", "cat"], ["d og", "dog"]]
    data.categories = [{"id": 3, "name": "n" * 4_000}, *({"id": i, "name": f"{i}"} for i in range(4, 50))]
    plan = planned(weights=False)
    assert all(len(text) < 400 for _, text in summary_rows(plan))
    assert "no object of 4, 5, 6, 7 and 42 more" in dict(summary_rows(plan))["problems"]
    assert all(len(choice.reason) < 2_000 for choice in plan.config_choices)


def test_programs_are_told_numbers_and_people_what_was_found_and_is_wrong_in_ten_lines(planned, data):
    said = summary_data(planned(weights=False))
    counts = ("images", "objects", "most_objects", "steps", "batch_size", "multiply_adds")
    for name in (*counts, "unreadable_images"):
        assert type(said[name]) is int, name
    assert said["splits"].keys() == {"train", "eval"} and sum(said["splits"].values()) == 60
    (data.root / "images" / "7.jpg").unlink()
    data.add_box(999, [1, 1, 5, 5])
    rows = dict(summary_rows(planned()))
    assert len(rows) == 10 and all(rows.values()) and rows["format"].startswith("coco: ")
    assert rows["images"] == "60, 20 without objects; 40 x 30 pixels (59 were looked at)"
    assert rows["objects"] == "40, at most 1 an image: cat 40, dog 0"
    assert "million parameters" in rows["network"] and "multiply-adds" in rows["network"]
    assert rows["weights"].endswith("settings.yaml says how to get them")
    assert "40 boxes are too few" in rows["anchors"]
    fault = "1 of 60 image files that were opened cannot be read"
    assert rows["problems"].startswith(f"1 unknown_image; no object of dog; {fault}")
    assert "7.jpg" in rows["problems"]
