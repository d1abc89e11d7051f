from __future__ import annotations

import itertools
import json
from pathlib import Path

import numpy as np
import pytest

from detection_core.config.load import format_pipeline_config, load_pipeline_config
from detection_core.protos.train_pb2 import CheckpointVersion
from pipeline.cli import parser
from tests.support.field_checkpoints import write_named_checkpoint

DIGITS = str(Path(__file__).parents[3] / "examples" / "digits" / "pipeline.config")


@pytest.fixture
def old(tmp_path):
    """A config with the extractor's name of TensorFlow 1."""
    path = tmp_path / "old.config"
    path.write_text(Path(DIGITS).read_text().replace("ssd_mobilenet_v2_fpn_keras", "ssd_mobilenet_v2_fpn"))
    return str(path)


def test_an_old_config_is_refused_until_it_is_converted(old, tmp_path, capsys):
    assert parser.main(["config", "show", old]) == 2
    assert "`detflow config convert` writes it" in capsys.readouterr().err
    new = str(tmp_path / "new.config")
    assert parser.main(["config", "convert", old, "-o", new]) == 0
    printed = capsys.readouterr().out
    assert "ssd_mobilenet_v2_fpn -> ssd_mobilenet_v2_fpn_keras" in printed and new in printed
    assert Path(new).read_text() == Path(DIGITS).read_text()


def test_without_an_output_the_new_config_is_printed_and_reads_back(old, tmp_path, capsys):
    assert parser.main(["config", "convert", old]) == 0
    printed = tmp_path / "printed.config"
    printed.write_text(capsys.readouterr().out)
    assert load_pipeline_config(str(printed)) == load_pipeline_config(DIGITS)


def test_changes_and_notes_for_scripts(old, capsys):
    assert parser.main(["config", "convert", old, "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert len(data["changes"]) == 1 and data["notes"] == [] and data["text"].startswith("# SSD")
    assert parser.main(["config", "convert", DIGITS, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["changes"] == []


def test_a_config_that_can_never_be_used_is_not_converted_with_success(tmp_path, capsys):
    path, new = tmp_path / "old.config", tmp_path / "new.config"
    path.write_text("model { faster_rcnn { feature_extractor { type: 'faster_rcnn_resnet101' } } }")
    assert parser.main(["config", "convert", str(path), "-o", str(new)]) == 1
    assert "cannot be used here: model.faster_rcnn: expected none" in capsys.readouterr().out
    assert "faster_rcnn_resnet101_keras" in new.read_text()
    assert parser.main(["config", "convert", str(path), "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["usable"] is False


def test_conversion_judges_as_validation_does(old, tmp_path, capsys):
    """As ssd_mobilenet_v2_fullyconv has it: the family is known, its resizer has no single output size."""
    text, new = Path(old).read_text(), str(tmp_path / "new.config")
    fixed = text[text.index("fixed_shape_resizer") :].split("}")[0] + "}"
    resizer = "keep_aspect_ratio_resizer { min_dimension: 96 max_dimension: 192 }"
    Path(old).write_text(text.replace(fixed, resizer))
    assert parser.main(["config", "convert", old, "-o", new, "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["usable"] is False and found["refused"].startswith("model.ssd.image_resizer: expected a")
    assert parser.main(["validate", new]) == 2
    assert found["refused"] in capsys.readouterr().err
    assert parser.main(["config", "convert", old]) == 1
    assert capsys.readouterr().out.startswith("# the config cannot be used here: model.ssd.image_resizer: ")


@pytest.mark.parametrize(
    "change",
    [
        "model.ssd.feature_extractor.type=ssd_mobilenet_v9_keras",
        "model.ssd.anchor_generator.multiscale_anchor_generator.max_level=6",
        "num_classes=2000000000",
        "model.ssd.box_predictor.weight_shared_convolutional_box_predictor.box_code_size=5",
    ],
)
def test_show_refuses_what_validate_refuses(change, capsys):
    assert parser.main(["config", "show", DIGITS, "--set", change]) == 2
    shown = capsys.readouterr().err
    assert parser.main(["validate", DIGITS, "--set", change]) == 2
    assert capsys.readouterr().err == shown and "model.ssd" in shown


def test_a_config_is_shown_as_it_would_be_run(tmp_path, capsys):
    overrides = tmp_path / "mine.config"
    overrides.write_text("train_config { num_steps: 7 batch_size: 2 }")
    shown = ["config", "show", DIGITS, "--override-file", str(overrides), "--set", "batch_size=3"]
    assert parser.main(shown) == 0
    path = tmp_path / "shown.config"
    path.write_text(capsys.readouterr().out)
    train = load_pipeline_config(str(path)).train_config
    assert (train.num_steps, train.batch_size) == (7, 3)


def test_parts_are_joined(tmp_path):
    config = load_pipeline_config(DIGITS)
    for name in ("model", "train_config", "eval_config"):
        (tmp_path / name).write_text(format_pipeline_config(getattr(config, name)))
    (tmp_path / "reader").write_text('tf_record_input_reader { input_path: "a" }')
    output = str(tmp_path / "joined.config")
    parts = ["--model-config", "model", "--train-config", "train_config", "--eval-config", "eval_config"]
    parts += ["--train-input", "reader", "--eval-input", "reader", "--eval-input", "reader"]
    words = [word if word.startswith("-") else str(tmp_path / word) for word in parts]
    assert parser.main(["config", "join", *words, "-o", output]) == 0
    joined = load_pipeline_config(output)
    assert (joined.model, joined.train_config) == (config.model, config.train_config)
    assert joined.train_input_reader.tf_record_input_reader.input_path == ["a"]
    assert len(joined.eval_input_reader) == 2


@pytest.mark.parametrize(
    ("words", "message"),
    [(["convert"], "expected a pipeline.config, found none"), (["join", "a"], "expected the parts")],
)
def test_a_missing_or_needless_file_is_one_message(words, message, capsys):
    assert parser.main(["config", *words]) == 2
    assert message in capsys.readouterr().err


def _documented_overrides():
    page = Path(__file__).parents[3] / "docs" / "coming-from-the-object-detection-api.md"
    words = page.read_text(encoding="utf-8").replace("`", " ").replace("|", " ").split()
    return [text for flag, text in itertools.pairwise(words) if flag == "--set" and "=" in text]


def test_overrides_of_the_page_for_newcomers_change_a_config(tmp_path):
    base = tmp_path / "pipeline.config"
    base.write_text(Path(DIGITS).read_text() + "eval_input_reader { shuffle: false }")
    texts = [text for text in _documented_overrides() if not text.startswith(("data.", "workspace"))]
    assert len(texts) >= 8
    for text in texts:
        output = str(tmp_path / "changed.config")
        assert parser.main(["config", "show", str(base), "--set", text, "-o", output]) == 0, text
        assert load_pipeline_config(output) != load_pipeline_config(str(base)), text


AUTOML = ["config", "from-automl", "efficientdet-lite0"]


def test_hyperparameters_of_automl_become_a_config_and_a_label_map(tmp_path, capsys):
    output = tmp_path / "pipeline.config"
    hparams = "num_classes=2,label_map.1=cat,label_map.2=dog,mixed_precision=true,verbose=0"
    flags = ["--batch-size", "8", "--num-examples-per-epoch", "100", "--num-epochs", "2"]
    assert parser.main([*AUTOML, "--hparams", hparams, *flags, "-o", str(output)]) == 0
    assert "without effect: verbose: progress is reported by the command" in capsys.readouterr().out
    config = load_pipeline_config(str(output))
    assert config.model.efficientdet.num_classes == 2 and config.train_config.num_steps == 24
    label_map = tmp_path / "label_map.pbtxt"
    assert config.train_input_reader.label_map_path == str(label_map)
    assert 'name: "dog"' in label_map.read_text().replace("'", '"')
    assert parser.main([*AUTOML, "--hparams", "label_map.1=bird,num_classes=1", "-o", str(output)]) == 2
    assert "found another one; choose another folder for --output" in capsys.readouterr().err
    assert "dog" in label_map.read_text()


def test_hyperparameters_of_automl_are_read_from_a_file_and_printed(tmp_path, capsys):
    hparams = tmp_path / "mine.yaml"
    hparams.write_text("num_classes: 3\nimage_size: 256x128\n")
    overrides = ["--set", "train_steps=7"]
    patterns = [
        *overrides,
        "--train-file-pattern",
        "t*",
        "--val-file-pattern",
        "v*",
        "--pretrained-ckpt",
        "ckpt",
    ]
    assert parser.main([*AUTOML, "--hparams", str(hparams), *patterns]) == 0
    printed = tmp_path / "printed.config"
    printed.write_text(capsys.readouterr().out)
    config = load_pipeline_config(str(printed))
    resizer = config.model.efficientdet.image_resizer.automl_resizer
    assert (resizer.height, resizer.width) == (128, 256)
    assert config.eval_input_reader[0].tf_record_input_reader.input_path == ["v*"]
    assert config.train_config.fine_tune_checkpoint == "ckpt" and config.train_config.num_steps == 7


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["efficientdet-d9"], "model name: expected one of efficientdet-d0"),
        ([], "model name: expected the name of a model"),
        (["efficientdet-d0", "--hparams", "num_clases=3"], "did you mean num_classes?"),
        (["efficientdet-d0", "--hparams", "strategy=tpu"], "hparams.strategy: expected gpus, multi-gpus"),
        (["efficientdet-d0", "--hparams", "none.yaml"], "none.yaml"),
    ],
)
def test_hyperparameters_that_cannot_be_followed_are_refused(arguments, message, capsys):
    assert parser.main(["config", "from-automl", *arguments]) == 2
    assert message in capsys.readouterr().err


# The training cells of google/automl's tutorials: `main.py` and `tf2/train.py`, from scratch and fine-tuning.
BACKBONE = {"efficientnet-lite0/stem/conv2d/kernel": (3, 3, 3, 32)}
DETECTOR = {**BACKBONE, "fpn_cells/cell_0/fnode0/add_n": (1,), "class_net/class-predict/bias": (9,)}


@pytest.mark.parametrize(
    ("model", "batch_size", "names"),
    [
        ("efficientdet-d0", 4, BACKBONE),
        ("efficientdet-d0", 8, DETECTOR),
        ("efficientdet-lite0", 16, BACKBONE),
        ("efficientdet-lite0", 16, DETECTOR),
    ],
)
def test_training_cells_of_google_automl_s_tutorials(model, batch_size, names, tmp_path):
    checkpoint = write_named_checkpoint(
        {k: np.zeros(s, np.float32) for k, s in names.items()}, tmp_path / "m"
    )
    command = ["config", "from-automl", model, "--mode", "traineval", "--batch-size", str(batch_size)]
    command += ["--hparams", "num_classes=20,moving_average_decay=0,mixed_precision=true"]
    command += ["--num-examples-per-epoch", "56", "--num-epochs", "1", "--eval-samples", "56"]
    command += ["--train-file-pattern", "tfrecord/pascal-00000-of-00100.tfrecord"]
    output = str(tmp_path / "pipeline.config")
    assert parser.main([*command, "--pretrained-ckpt", checkpoint, "-o", output]) == 0
    train = load_pipeline_config(output).train_config
    schedule = train.optimizer.momentum_optimizer.learning_rate.automl_cosine_learning_rate
    assert train.num_steps == schedule.warmup_steps == schedule.total_steps == 56 // batch_size
    assert train.fine_tune_checkpoint_version == CheckpointVersion.V1
    kind = ("classification", False) if names is BACKBONE else ("detection", True)
    assert (train.fine_tune_checkpoint_type, train.load_all_detection_checkpoint_vars) == kind


@pytest.mark.parametrize(
    "hparams",
    [
        "image_size=1920x1280",
        "mean_rgb=0.0,stddev_rgb=1.0,scale_range=True",
        "nms_configs.method='hard', nms_configs.iou_thresh=0.5, nms_configs.sigma=0.0",
    ],
)
def test_other_hyper_parameters_of_google_automl_s_tutorials(hparams, capsys):
    assert parser.main(["config", "from-automl", "efficientdet-d1", "--hparams", hparams]) == 0
    assert "automl_cosine_learning_rate" in capsys.readouterr().out
