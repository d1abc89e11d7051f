"""Configs and detectors of the zoo, and verbs that hand them on."""

import itertools
from pathlib import Path

import numpy as np
import pytest

from detection_core.builders.detector import build_detector
from detection_core.config.load import format_pipeline_config, load_pipeline_config, parse_pipeline_config
from detection_core.exporters.detector_folder import load_detector
from detection_core.families.ssd.checkpoint_names import object_paths
from detection_core.protos.train_pb2 import CheckpointVersion
from detection_core.zoo.coco_classes import COCO_CLASSES
from detection_core.zoo.networks import list_models
from tests.pipeline.conftest import DIGITS as DIGITS_FOLDER
from tests.support.archives import NAME, archive, use_cache_below
from tests.support.field_checkpoints import write_named_checkpoint, write_object_checkpoint
from tests.support.plain_backbone import PLAIN
from tests.support.tiny_training import config_text

DIGITS = str(DIGITS_FOLDER / "pipeline.config")


@pytest.fixture
def old(tmp_path):
    """A config with the extractor's name of TensorFlow 1."""
    path = tmp_path / "old.config"
    path.write_text(Path(DIGITS).read_text().replace("ssd_mobilenet_v2_fpn_keras", "ssd_mobilenet_v2_fpn"))
    return str(path)


def test_an_old_config_is_refused_until_it_is_converted(old, tmp_path, cli):
    assert "`detflow config convert` writes it" in cli.refused("config", "show", old)
    new = str(tmp_path / "new.config")
    printed = cli("config", "convert", old, "-o", new)
    assert "ssd_mobilenet_v2_fpn -> ssd_mobilenet_v2_fpn_keras" in printed and new in printed
    assert Path(new).read_text() == Path(DIGITS).read_text()
    assert parse_pipeline_config(cli("config", "convert", old)) == load_pipeline_config(DIGITS)
    data = cli.json("config", "convert", old)
    assert len(data["changes"]) == 1 and data["notes"] == [] and data["text"].startswith("# SSD")
    assert cli.json("config", "convert", DIGITS)["changes"] == []


def test_conversion_judges_as_validation_does(tmp_path, cli, old):
    path, new = tmp_path / "older.config", tmp_path / "new.config"
    path.write_text("model { faster_rcnn { feature_extractor { type: 'faster_rcnn_resnet101' } } }")
    told = cli("config", "convert", path, "-o", new, code=1)
    assert "cannot be used here: model.faster_rcnn.first_stage_anchor_generator: expected one of" in told
    assert "faster_rcnn_resnet101_keras" in new.read_text()
    assert cli.json("config", "convert", path, code=1)["usable"] is False
    # As ssd_mobilenet_v2_fullyconv has it: the family is known, its resizer has no single output size.
    text = Path(old).read_text()
    fixed = text[text.index("fixed_shape_resizer") :].split("}")[0] + "}"
    resizer = "keep_aspect_ratio_resizer { min_dimension: 96 max_dimension: 192 }"
    Path(old).write_text(text.replace(fixed, resizer))
    found = cli.json("config", "convert", old, "-o", new, code=1)
    assert found["usable"] is False and found["refused"].startswith("model.ssd.image_resizer: expected a")
    assert found["refused"] in cli.refused("validate", new)
    told = cli("config", "convert", old, code=1)
    assert told.startswith("# the config cannot be used here: model.ssd.image_resizer: ")


def test_a_config_is_shown_as_it_would_be_run_or_refused_as_by_validate(tmp_path, cli):
    for change in (
        "model.ssd.feature_extractor.type=ssd_mobilenet_v9_keras",
        "model.ssd.anchor_generator.multiscale_anchor_generator.max_level=6",
        "num_classes=2000000000",
        "model.ssd.box_predictor.weight_shared_convolutional_box_predictor.box_code_size=5",
    ):
        shown = cli.refused("config", "show", DIGITS, "--set", change)
        assert cli.refused("validate", DIGITS, "--set", change) == shown and "model.ssd" in shown
    overrides = tmp_path / "mine.config"
    overrides.write_text("train_config { num_steps: 7 batch_size: 2 }")
    shown = cli("config", "show", DIGITS, "--override-file", overrides, "--set", "batch_size=3")
    found = parse_pipeline_config(shown).train_config
    assert (found.num_steps, found.batch_size) == (7, 3)


def test_parts_are_joined(tmp_path, cli):
    config = load_pipeline_config(DIGITS)
    for name in ("model", "train_config", "eval_config"):
        (tmp_path / name).write_text(format_pipeline_config(getattr(config, name)))
    (tmp_path / "reader").write_text('tf_record_input_reader { input_path: "a" }')
    output = str(tmp_path / "joined.config")
    parts = ["--model-config", "model", "--train-config", "train_config", "--eval-config", "eval_config"]
    parts += ["--train-input", "reader", "--eval-input", "reader", "--eval-input", "reader"]
    words = [word if word.startswith("-") else str(tmp_path / word) for word in parts]
    cli("config", "join", *words, "-o", output)
    joined = load_pipeline_config(output)
    assert (joined.model, joined.train_config) == (config.model, config.train_config)
    assert joined.train_input_reader.tf_record_input_reader.input_path == ["a"]
    assert len(joined.eval_input_reader) == 2


def test_what_cannot_be_followed_is_one_message(cli):
    automl = ["from-automl", "efficientdet-d0", "--hparams"]
    for words, message in (
        (["convert"], "expected a pipeline.config, found none"),
        (["join", "a"], "expected the parts"),
        (["from-automl", "efficientdet-d9"], "model name: expected one of efficientdet-d0"),
        (["from-automl"], "model name: expected the name of a model"),
        ([*automl, "num_clases=3"], "did you mean num_classes?"),
        ([*automl, "strategy=tpu"], "hparams.strategy: expected gpus, multi-gpus"),
        ([*automl, "none.yaml"], "none.yaml"),
    ):
        assert message in cli.refused("config", *words)


def test_overrides_of_the_page_for_newcomers_change_a_config(tmp_path, cli):
    page = DIGITS_FOLDER.parents[1] / "docs" / "migrating.md"
    theirs = page.read_text(encoding="utf-8").partition("## From google/automl")[0]
    words = theirs.replace("`", " ").replace("|", " ").split()
    texts = [text for flag, text in itertools.pairwise(words) if flag == "--set" and "=" in text]
    texts = [text for text in texts if not text.startswith(("data.", "workspace"))]
    base, output = tmp_path / "pipeline.config", str(tmp_path / "changed.config")
    base.write_text(Path(DIGITS).read_text() + "eval_input_reader { shuffle: false }")
    assert len(texts) >= 8
    for text in texts:
        cli("config", "show", base, "--set", text, "-o", output)
        assert load_pipeline_config(output) != load_pipeline_config(str(base)), text


def test_hyperparameters_of_automl_become_a_config_and_a_label_map(tmp_path, cli):
    automl = ["config", "from-automl", "efficientdet-lite0"]
    output, label_map = tmp_path / "pipeline.config", tmp_path / "label_map.pbtxt"
    hparams = "num_classes=2,label_map.1=cat,label_map.2=dog,mixed_precision=true,verbose=0"
    flags = ["--batch-size", "8", "--num-examples-per-epoch", "100", "--num-epochs", "2"]
    told = cli(*automl, "--hparams", hparams, *flags, "-o", output)
    assert "without effect: verbose: progress is reported by the command" in told
    config = load_pipeline_config(str(output))
    assert config.model.efficientdet.num_classes == 2 and config.train_config.num_steps == 24
    assert config.train_input_reader.label_map_path == str(label_map)
    assert 'name: "dog"' in label_map.read_text().replace("'", '"')
    told = cli.refused(*automl, "--hparams", "label_map.1=bird,num_classes=1", "-o", output)
    assert "found another one; choose another folder for --output" in told and "dog" in label_map.read_text()
    hparams = tmp_path / "mine.yaml"
    hparams.write_text("num_classes: 3\nimage_size: 256x128\n")
    flags = ["--train-file-pattern", "t*", "--val-file-pattern", "v*", "--pretrained-ckpt", "ckpt"]
    config = parse_pipeline_config(cli(*automl, "--hparams", hparams, "--set", "train_steps=7", *flags))
    resizer = config.model.efficientdet.image_resizer.automl_resizer
    assert (resizer.height, resizer.width) == (128, 256)
    assert config.eval_input_reader[0].tf_record_input_reader.input_path == ["v*"]
    assert config.train_config.fine_tune_checkpoint == "ckpt" and config.train_config.num_steps == 7


def test_training_cells_of_google_automl_s_tutorials(tmp_path, cli):
    """Those of `main.py` and `tf2/train.py`, from scratch and fine-tuning."""
    backbone = {"efficientnet-lite0/stem/conv2d/kernel": (3, 3, 3, 32)}
    detector = {**backbone, "fpn_cells/cell_0/fnode0/add_n": (1,), "class_net/class-predict/bias": (9,)}
    for model, batch_size, names in (
        ("efficientdet-d0", 4, backbone),
        ("efficientdet-d0", 8, detector),
        ("efficientdet-lite0", 16, backbone),
        ("efficientdet-lite0", 16, detector),
    ):
        values = {k: np.zeros(s, np.float32) for k, s in names.items()}
        checkpoint = write_named_checkpoint(values, tmp_path / f"m{len(names)}")
        command = ["config", "from-automl", model, "--mode", "traineval", "--batch-size", batch_size]
        command += ["--hparams", "num_classes=20,moving_average_decay=0,mixed_precision=true"]
        command += ["--num-examples-per-epoch", "56", "--num-epochs", "1", "--eval-samples", "56"]
        command += ["--train-file-pattern", "tfrecord/pascal-00000-of-00100.tfrecord"]
        train = parse_pipeline_config(cli(*command, "--pretrained-ckpt", checkpoint)).train_config
        schedule = train.optimizer.momentum_optimizer.learning_rate.automl_cosine_learning_rate
        assert train.num_steps == schedule.warmup_steps == schedule.total_steps == 56 // batch_size
        assert train.fine_tune_checkpoint_version == CheckpointVersion.V1
        kind = ("classification", False) if names is backbone else ("detection", True)
        assert (train.fine_tune_checkpoint_type, train.load_all_detection_checkpoint_vars) == kind
    for hparams in (
        "image_size=1920x1280",
        "mean_rgb=0.0,stddev_rgb=1.0,scale_range=True",
        "nms_configs.method='hard', nms_configs.iou_thresh=0.5, nms_configs.sigma=0.0",
    ):
        told = cli("config", "from-automl", "efficientdet-d1", "--hparams", hparams)
        assert "automl_cosine_learning_rate" in told


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    return use_cache_below(tmp_path, monkeypatch)


def test_detectors_are_listed_and_shown_with_their_facts(cli):
    assert {model["name"] for model in cli.json("zoo", "list")} == {model.name for model in list_models()}
    assert NAME in cli("zoo")
    assert {model["speed"] for model in cli.json("zoo", "list", "--speed", "fast")} == {"fast"}
    found = cli.json("zoo", "show", NAME)
    assert found["coco_map"] == 33.6 and found["licence"] == "Apache-2.0" and found["folder"] is None
    text = cli("zoo", "show", NAME)
    for part in ("512 x 512", "33.6", "Apache-2.0", "20200711", "small", f"start_from: zoo:{NAME}"):
        assert part in text
    for name, parts in (
        ("mask_rcnn_inception_resnet_v2_1024x1024_coco17_gpu-8", ("masks", "39.0 / 34.6", "gpu-8.config")),
        ("centernet_mobilenetv2fpn_512x512_coco17_kpts", ("- / 41.7", "20210210", "the one in the archive")),
    ):
        text = cli("zoo", "show", name)
        assert all(part in text for part in parts), text
    for arguments in (["show", "efficientdet_d0"], ["get", "x"], ["get", "imagenet:x"], ["get", "zoo:x"]):
        assert cli.refused("zoo", *arguments).startswith("detflow: ConfigError")


def test_a_detector_is_fetched_and_then_here(cli, cache, tmp_path):
    mirror = ["--mirror", tmp_path / "mirror"]
    mirror[1].mkdir()
    told = cli.refused("zoo", "get", "imagenet:resnet50_v1", *mirror)
    assert "put resnet50_weights_tf_dim_ordering_tf_kernels_notop.h5" in told
    (mirror[1] / f"{NAME}.tar.gz").write_bytes(archive())
    found = cli.json("zoo", "get", NAME, *mirror)
    assert found["checkpoint"] == str(cache / NAME / "checkpoint" / "ckpt-0")
    shown = cli.json("zoo", "show", NAME)
    assert cli.json("zoo", "get", NAME) == found == {**found, "folder": shown["folder"]}
    (row,) = (line for line in cli("zoo", "list").splitlines() if line.startswith(NAME))
    assert row.endswith("yes")


def test_a_detector_is_imported_by_its_name_alone_and_any_other_needs_its_config(tmp_path, cli, monkeypatch):
    config = parse_pipeline_config(config_text(backbone=PLAIN))
    config.model.ssd.num_classes = 90
    paths = object_paths(build_detector(config.model).network)
    values = {path: variable.numpy() for path, variable in paths.items()}
    write_object_checkpoint(values, tmp_path / "ckpt-0")
    content = {f"checkpoint/{path.name}": path.read_bytes() for path in tmp_path.glob("ckpt-0.*")}
    content["checkpoint/checkpoint"] = b'model_checkpoint_path: "ckpt-0"\n'
    content["pipeline.config"] = format_pipeline_config(config).encode()
    (tmp_path / f"{NAME}.tar.gz").write_bytes(archive(content))
    monkeypatch.setenv("DETFLOW_WEIGHTS_MIRROR", str(tmp_path))
    told = cli("import", "--checkpoint", f"zoo:{NAME}", "--output", tmp_path / "made")
    assert f": {len(values)} restored, " in told and f" 0 moving averages and {len(values)} plain" in told
    made = load_detector(str(tmp_path / "made" / "model"))
    assert made.info.extra["started_from"] == f"zoo:{NAME}" and made.model.num_classes == 90
    assert {item.id: item.name for item in made.label_map.items} == COCO_CLASSES
    other = ["--output", tmp_path / "other"]
    assert "--config: expected the config" in cli.refused("import", "--checkpoint", "ckpt-0", *other)
    assert "ssd_mobilenet" in cli.refused("import", "--checkpoint", "zoo:ssd_mobilenet", *other)
    assert not other[1].exists()
