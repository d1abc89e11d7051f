"""What the zoo publishes, its archives, and where a training starts from."""

import gzip
import itertools
import operator
import os
import shutil
import tarfile
from unittest import mock

import pytest

from detection_core.builders.backbones import BACKBONES
from detection_core.config.check import check_pipeline_config
from detection_core.config.load import parse_pipeline_config
from detection_core.config.paths.overrides import apply_overrides
from detection_core.detectors.family import extractor_types
from detection_core.errors import ModelError
from detection_core.zoo import archive as archives
from detection_core.zoo.archive import unpack_detector
from detection_core.zoo.coco_classes import COCO_CLASSES
from detection_core.zoo.fine_tuning import config_fields, fine_tuning_recipe
from detection_core.zoo.keras_backbones import PUBLISHED_BACKBONES, find_backbone
from detection_core.zoo.networks import SPEEDS, find_model, list_models, nearest_model
from detection_core.zoo.starting_points import FetchedStart, fetch_start, is_named
from tests.support.archives import FILES, NAME, archive, member, use_cache_below
from tests.support.cases import cases, config_refused, refused
from tests.support.zoo_configs import ZOO, golden_name, zoo_facts


def test_names_inputs_and_parameters_are_the_published_ones_and_others_are_refused():
    names = [model.name for model in list_models()]
    assert len(set(names)) == len(names) == 41
    assert {"ssd_mobilenet_v2_fpnlite_320x320_coco17_tpu-8", "efficientdet_d0_coco17_tpu-32"} <= set(names)
    dates = {"20200711": set(names)}
    dates["20200713"] = {"centernet_hg104_512x512_coco17_tpu-8", "centernet_hg104_1024x1024_coco17_tpu-32"}
    dates["20210210"] = {f"centernet_mobilenetv2fpn_512x512_coco17_{end}" for end in ("od", "kpts")}
    dates["20200711"] -= dates["20200713"] | dates["20210210"]
    known = extractor_types()
    for model in list_models():
        assert model.extractor in known and model.name in dates[model.published]
        assert model.address.endswith(f"/{model.published}/{model.name}.tar.gz")
        assert model.licence == "Apache-2.0"
        late = model.published == "20210210"
        assert model.checkpoint == ("ckpt-301" if late else "ckpt-0")
        folder = model.name.replace("mobilenetv2fpn_512x512_coco17", "mobilenetv2_fpn")
        assert model.folder == (folder if late else "")
    without = {model.name for model in list_models() if not model.config}
    assert without == dates["20210210"] | {
        "centernet_resnet50_v1_fpn_512x512_coco17_tpu-8",
        "centernet_resnet50_v2_512x512_coco17_tpu-8",
        "faster_rcnn_inception_resnet_v2_640x640_coco17_tpu-8",
        "faster_rcnn_inception_resnet_v2_1024x1024_coco17_tpu-8",
    }
    assert find_model("centernet_resnet101_v1_fpn_512x512_coco17_tpu-8").extractor == "resnet_v2_101"
    hourglass = find_model("centernet_hourglass104_512x512_coco17_tpu-8")
    assert hourglass.name == "centernet_hg104_512x512_coco17_tpu-8"
    assert hourglass.config.endswith("/configs/tf2/centernet_hourglass104_512x512_coco17_tpu-8.config")
    fpn = "faster_rcnn_resnet50_v1_fpn_640x640_coco17_tpu-8"
    for name, found in (("extremenet", "no code"), (fpn, "without published weights")):
        config_refused(f"built here, found .*{found}.*zoo list", find_model, name)
    model = find_model("efficientdet_d0_coco17_tpu-32.tar.gz")
    assert model.name == "efficientdet_d0_coco17_tpu-32"
    config_refused("did you mean efficientdet_d0_coco17_tpu-32", find_model, "efficientdet_d0")
    config_refused("zoo list", find_model, "x")
    assert len(str(config_refused("", find_model, "y" * 10_000))) < 500
    goldens = {golden: model for model in list_models() if (golden := golden_name(model.name))}
    assert set(goldens) == set(ZOO)
    for golden, model in goldens.items():
        facts = zoo_facts(golden)
        assert facts.input_size == (model.side, model.side), golden
        # The reference counts the classifier's layers that no detector uses, too.
        counts = operator.gt if "efficientdet" in golden else operator.eq
        assert counts(facts.parameters, model.parameters), golden
    d0, in_classifier = "ssd_efficientdet_d0_512x512", 320 * 1280 + 4 * 1280 + 1281 * 1000
    assert zoo_facts(d0).parameters - goldens[d0].parameters == in_classifier


@cases(
    ((300, 300), "fast", "boxes", "ssd_mobilenet_v2_320x320_coco17_tpu-8"),
    ((320, 320), "fast", "boxes", "ssd_mobilenet_v2_fpnlite_320x320_coco17_tpu-8"),
    ((480, 860), "fast", "boxes", "ssd_mobilenet_v2_fpnlite_640x640_coco17_tpu-8"),
    ((640, 640), "balanced", "boxes", "efficientdet_d1_coco17_tpu-32"),
    ((100, 100), "accurate", "boxes", "ssd_resnet101_v1_fpn_640x640_coco17_tpu-8"),
    ((4000, 6000), "accurate", "boxes", "efficientdet_d7_coco17_tpu-32"),
    ((320, 320), "fast", "keypoints", "centernet_mobilenetv2fpn_512x512_coco17_kpts"),
    ((640, 640), "balanced", "keypoints", "centernet_resnet50_v1_fpn_512x512_kpts_coco17_tpu-8"),
    ((900, 900), "accurate", "keypoints", "centernet_hg104_1024x1024_kpts_coco17_tpu-32"),
    ((320, 320), "fast", "masks", "mask_rcnn_inception_resnet_v2_1024x1024_coco17_gpu-8"),
)
def test_the_nearest_input_of_a_rung(*, size, speed, finds, name):
    assert nearest_model(size, speed=speed, finds=finds).name == name


def test_every_published_fact_is_given_and_the_classes_are_those_of_the_heads():
    for model in list_models():
        # The page has no mAP of the boxes of one detector of keypoints.
        assert 20 < model.coco_map < 52 if model.coco_map else "mobilenetv2" in model.name
        assert (model.shape_map is None) == (model.kind.finds == "boxes")
        assert 6 <= model.published_ms <= 325 and model.parameters > 2_000_000
        assert 16 * model.parameters < model.most_bytes < archives.MOST_BYTES
    classes = {model.title.split()[1]: model.size_class for model in list_models() if "Effic" in model.title}
    assert [classes[name] for name in ("D0", "D3", "D7")] == ["small", "medium", "large"]
    assert {model.speed for model in list_models()} == set(SPEEDS)
    refused(ValueError, "fast", lambda: nearest_model((1, 1), speed="slow"))
    refused(ValueError, "size", nearest_model, (0, 1))
    # Numbers and names of https://cocodataset.org, `categories` of instances_val2017.json.
    assert len(COCO_CLASSES) == 80 and max(COCO_CLASSES) == 90 and 12 not in COCO_CLASSES
    known = {1: "person", 13: "stop sign", 18: "dog", 31: "handbag", 44: "bottle", 62: "chair", 70: "toilet"}
    known |= {67: "dining table", 72: "tv", 77: "cell phone", 84: "book", 90: "toothbrush"}
    assert {number: COCO_CLASSES[number] for number in known} == known


# Keras' Inception v3 has no scale in its batch norms, and numbers its layers by what was made before.
FOREIGN = ("inception_v2", "inception_v3", "mobilenet_edgetpu", "mobiledet")


def test_every_backbone_that_keras_has_is_published_with_its_addresses_and_digests():
    foreign = {name for name in BACKBONES if BACKBONES[name].family in (*FOREIGN, "tests_plain")}
    assert {found.backbone for found in PUBLISHED_BACKBONES} == set(BACKBONES) - foreign
    assert len({found.file.path for found in PUBLISHED_BACKBONES}) == len(PUBLISHED_BACKBONES)
    from tf_keras.src.applications import efficientnet, mobilenet, mobilenet_v2, mobilenet_v3, resnet

    for found in PUBLISHED_BACKBONES:
        name, hashes, key = found.backbone, {}, ""
        if name.startswith("mobilenet_v3"):
            folder, hashes = mobilenet_v3.BASE_WEIGHT_PATH, mobilenet_v3.WEIGHTS_HASHES
            key = found.file.name.removeprefix("weights_mobilenet_v3_").removesuffix("_no_top_v2.h5")
        elif name.startswith("mobilenet"):
            folder = {"mobilenet_v1": mobilenet, "mobilenet_v2": mobilenet_v2}[name].BASE_WEIGHT_PATH
        elif name.startswith("resnet"):
            folder, hashes = resnet.BASE_WEIGHTS_PATH, resnet.WEIGHTS_HASHES
            key = name.removesuffix("_v1")
        else:
            folder, hashes = efficientnet.BASE_WEIGHTS_PATH, efficientnet.WEIGHTS_HASHES
            key = name.removeprefix("efficientnet_")
        assert found.file.address == folder + found.file.name
        assert found.file.digest == (f"md5:{hashes[key][1]}" if hashes else ""), name


@cases(("mobilenet_v1", 0.25), ("mobilenet_v2", 0.35))
def test_a_file_is_called_as_keras_asks_for_it(monkeypatch, *, backbone, multiplier):
    import tf_keras
    from tf_keras.src.utils import data_utils

    published = find_backbone(backbone, multiplier)
    get_file = mock.Mock(side_effect=InterruptedError)
    monkeypatch.setattr(data_utils, "get_file", get_file)
    with pytest.raises(InterruptedError):
        application = getattr(tf_keras.applications, published.application)
        application(include_top=False, weights="imagenet", input_shape=(224, 224, 3), alpha=multiplier)
    assert get_file.call_args.args[1] == published.file.address


def test_multipliers_are_found_in_spite_of_32_bits_and_what_is_not_published_is_said():
    import numpy as np

    assert find_backbone("mobilenet_v2", float(np.float32(0.35))).name == "imagenet:mobilenet_v2:0.35"
    assert find_backbone("resnet50_v1").name == "imagenet:resnet50_v1"
    config_refused("of 0.25, 0.5, 0.75, 1, found 0.3", find_backbone, "mobilenet_v1", 0.3)
    config_refused(r"mobilenet_v1, mobilenet_v2, mobilenet_v3.*found none", find_backbone, "")


ADAM = "train_config.optimizer.adam_optimizer"
LITE = find_model("ssd_mobilenet_v2_fpnlite_320x320_coco17_tpu-8")


def _config(recipe, model=LITE):
    return apply_overrides(parse_pipeline_config(model.text(3)), config_fields(recipe))


@cases(*itertools.product(list_models(), [(100, 4), (2_000, 8), (50_000, 32)]))
def test_a_recipe_makes_a_config_that_training_takes(*, model, size):
    images, batch_size = size
    flips = {"flips": ()} if model.kind.finds == "keypoints" else {}
    recipe = fine_tuning_recipe(model, images=images, classes=3, batch_size=batch_size, **flips)
    config = _config(recipe, model)
    check_pipeline_config(config)
    assert config.train_config.batch_size == batch_size
    assert config.train_config.optimizer.use_moving_average and config.eval_config.use_moving_averages
    for choice in recipe:
        assert choice.reason and not choice.reason.endswith(".") and choice.source, choice


def _lite(images, batch_size=8, **options):
    return fine_tuning_recipe(LITE, images=images, classes=1, batch_size=batch_size, **options)


def test_a_recipe_starts_from_the_zoo_and_follows_the_number_of_images_and_the_batch():
    recipe = _lite(9)
    assert (recipe[0].path, recipe[0].value) == ("train.start_from", f"zoo:{LITE.name}")
    assert {choice.path for choice in recipe[1:]} == config_fields(recipe).keys()
    assert config_fields(_lite(100, num_steps=250))["train_config.num_steps"] == 250
    recipes = [_lite(images) for images in (100, 2_000, 20_000)]
    steps = [config_fields(recipe)["train_config.num_steps"] for recipe in recipes]
    assert steps == sorted(steps) and steps[0] * 8 / 100 > steps[-1] * 8 / 20_000
    counts = [len(config_fields(recipe)["train_config.data_augmentation_options"]) for recipe in recipes]
    assert counts == sorted(counts, reverse=True) and counts[0] > counts[-1]
    peaks = {}
    for batch in (4, 8, 16, 1024):
        recipe = _lite(500, batch)
        optimizer = _config(recipe).train_config.optimizer.momentum_optimizer
        cosine = optimizer.learning_rate.cosine_decay_learning_rate
        peaks[batch] = cosine.learning_rate_base
        assert cosine.warmup_learning_rate < cosine.learning_rate_base
        assert 0 < cosine.warmup_steps <= cosine.total_steps / 10
        assert cosine.total_steps == config_fields(recipe)["train_config.num_steps"]
    assert peaks[8] == pytest.approx(2 * peaks[4]) and peaks[16] == pytest.approx(2 * peaks[8]) == peaks[1024]
    assert max(peaks.values()) <= 0.04, "published: 0.08 at 128 images"
    small, short, long = (config_fields(_lite(*size)) for size in ((100, 4), (100, 8), (100_000, 8)))
    assert small["model.ssd.freeze_batchnorm"] is True and "model.ssd.freeze_batchnorm" not in short
    # The statistics of short trainings follow quickly.
    assert sum(path.endswith("batch_norm.decay") for path in short) == 2
    assert not any("batch_norm" in path for path in long)
    # Other families have other optimizers, and other fields that freeze batch norms, or none.
    frozen = "model.faster_rcnn.feature_extractor.batch_norm_trainable"
    for name, optimizer, peak, freezes in (
        ("centernet_hg104_512x512_coco17_tpu-8", ADAM, 1.25e-4, set()),
        ("faster_rcnn_resnet50_v1_640x640_coco17_tpu-8", ADAM.replace("adam", "momentum"), 0.0025, {frozen}),
    ):
        fields = config_fields(fine_tuning_recipe(find_model(name), images=9, classes=1, batch_size=4))
        rate = fields[f"{optimizer}.learning_rate.cosine_decay_learning_rate"]
        assert rate["learning_rate_base"] == pytest.approx(peak)
        assert {path for path in fields if path.startswith("model.")} == freezes
        assert fields.get(f"{ADAM}.epsilon") == (1e-7 if optimizer == ADAM else None)
    for wrong in ({"images": 0}, {"classes": 0}, {"batch_size": 0}, {"num_steps": -1}):
        with pytest.raises(ValueError, match="positive"):
            fine_tuning_recipe(LITE, **{"images": 1, "classes": 1, "batch_size": 1, **wrong})


@cases(
    (f"zoo:{NAME}", True), ("imagenet", True), ("imagenet:resnet50_v1", True), ("zoo/ckpt-0", False),
    ("imagenet/model.ckpt", False), ("s3://zoo/ckpt-0", False), ("", False),
)  # fmt: skip
def test_names_are_told_from_paths(*, start, named):
    assert is_named(start) == named


def test_what_is_named_is_fetched_and_a_path_stays_as_it_is(tmp_path, monkeypatch):
    use_cache_below(tmp_path, monkeypatch)
    backbone = find_backbone("mobilenet_v2", 0.35)
    (tmp_path / f"{NAME}.tar.gz").write_bytes(archive())
    (tmp_path / backbone.file.name).write_bytes(b"weights")
    found = fetch_start(f"zoo:{NAME}", mirror=str(tmp_path))
    assert found.path.endswith("checkpoint/ckpt-0") and found.backbone is None
    assert found.model and found.model.config.endswith("pipeline.config")
    found = fetch_start(backbone.name, mirror=str(tmp_path))
    assert found.path.endswith(backbone.file.name) and found.backbone == backbone
    assert fetch_start("zoo/ckpt-0") == FetchedStart(path="zoo/ckpt-0")
    for name in ("zoo:", "zoo:x", "imagenet", "imagenet:vgg16", "imagenet:resnet50_v1:2"):
        config_refused("expected", fetch_start, name)
    empty = {"mirror": str(tmp_path / "none")}
    refused(ModelError, "put resnet50_weights", lambda: fetch_start("imagenet:resnet50_v1", **empty))


def _unpack(tmp_path, content, name=NAME, **layout):
    path, folder = tmp_path / f"{name}.tar.gz", tmp_path / "cache" / "out"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    path.write_bytes(content)
    try:
        unpack_detector(str(path), str(folder), **layout)
    finally:
        beside = {p.relative_to(tmp_path).parts[0] for p in tmp_path.rglob("*")}
        assert beside == {path.name, "cache"} and os.listdir(tmp_path / "cache") == ["out"]
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_checkpoint_and_config_are_unpacked_and_paths_may_begin_with_a_dot(tmp_path):
    expected = {path: content for path, content in FILES.items() if not path.startswith("saved_model")}
    assert _unpack(tmp_path, archive()) == expected
    assert "checkpoint/ckpt-0.index" in _unpack(tmp_path, archive(name=f"./{NAME}"))
    other = {path.replace("ckpt-0", "ckpt-301"): content for path, content in FILES.items()}
    found = _unpack(tmp_path, archive(other, name="another"), top="another", checkpoint="ckpt-301")
    assert "checkpoint/ckpt-301.index" in found
    message = "is not in the folder another"
    refused(ModelError, message, lambda: _unpack(tmp_path, archive(other), top="another"))


def _more(path, *kind):
    return archive(more=(member(f"{NAME}/{path}", *kind),))


def _changed(place):
    content = bytearray(archive())
    content[place] ^= 0xFF
    return bytes(content)


# Damage and other archives, paths that lead out, links and devices, files given twice, and names that no file
# can have.
@cases(
    *[(archive()[:length], "damaged|in it, found") for length in (0, 5, 100, 1000, -9, -1)],
    *[(_changed(place), "a damaged one") for place in (12, 60, -6)],
    *[(data, "expected") for data in (b"<html>", b"PK\x03\x04", gzip.compress(b"text", mtime=0), b"")],
    (archive(name="efficientdet_d1_coco17_tpu-32"), f"is not in the folder {NAME}"),
    (archive({"frozen.pb": b"graph"}), "ckpt-0.index in it, found frozen.pb"),
    *[(archive(more=(member(path),)), "leads out of its folder")
      for path in ("../outside", f"{NAME}/../../outside", "/tmp/outside",
                   f"{NAME}/checkpoint/../../../outside", "a\\b")],
    (_more("checkpoint/x", tarfile.SYMTYPE, "/etc/passwd"), "no plain file"),
    (_more("checkpoint/x", tarfile.LNKTYPE, f"{NAME}/pipeline.config"), "no plain file"),
    (_more("checkpoint/x", tarfile.FIFOTYPE), "no plain file"),
    (_more("checkpoint/x", tarfile.CHRTYPE), "no plain file"),
    (archive(more=(member(f"{NAME}/checkpoint/x", tarfile.SYMTYPE, "../../.."),
                   member(f"{NAME}/checkpoint/x/outside"))), "no plain file"),
    (_more("pipeline.config"), "twice"), (_more("checkpoint/checkpoint/x"), "no file can be called"),
    (_more("checkpoint/" + "x" * 300), "no file can be called"),
)  # fmt: skip
def test_what_is_damaged_or_another_archive_or_holds_no_plain_files_is_refused(tmp_path, *, content, message):
    refused(ModelError, message, _unpack, tmp_path, content)


def test_bombs_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(archives, "MOST_BYTES", 1_000_000)
    monkeypatch.setattr(archives, "MOST_MEMBERS", 20)
    zeros = archive({**FILES, "saved_model/zeros": bytes(50_000_000)})
    refused(ModelError, "more than 1,000,000 bytes", _unpack, tmp_path, zeros)
    many = archive({f"saved_model/{n}": b"" for n in range(30)})
    refused(ModelError, "more than 20 files", _unpack, tmp_path, many)
    # Nothing but zeros after the end: what a reader of members never sees.
    behind = gzip.compress(gzip.decompress(archive()) + bytes(50_000_000), 1)
    refused(ModelError, "more than 1,000,000 bytes", _unpack, tmp_path, behind)


def _header(kind, content, size=None):
    info = tarfile.TarInfo(f"{NAME}/x")
    info.type, info.size = kind, len(content) if size is None else size
    return info.tobuf(tarfile.GNU_FORMAT) + content + bytes(-len(content) % 512)


_BROKEN = "a damaged one|no plain file"
_MAJOR = b"22 GNU.sparse.major=1\n22 GNU.sparse.minor=0\n"


# Sizes that are not there or would fill the memory, and what the library stumbles over: many digits, a sparse
# map, sparse 1.0, a negative size, nesting.
@cases(
    (_header(tarfile.XHDTYPE, bytes(1 << 20), 8 << 30), "a header of"),
    (_header(tarfile.REGTYPE, b"", 3 << 40), "bytes"),
    (_header(tarfile.XHDTYPE, b"9" * 5000 + b" size=1\n"), _BROKEN),
    (_header(tarfile.XHDTYPE, b"23 GNU.sparse.size=99x\n22 GNU.sparse.map=1,a\n"), _BROKEN),
    (_header(tarfile.XHDTYPE, _MAJOR) + _header(tarfile.REGTYPE, b"9" * 511 + b"\n"), _BROKEN),
    (_header(tarfile.XHDTYPE, b"13 size=-512\n"), _BROKEN),
    (_header(tarfile.GNUTYPE_LONGNAME, b"abc\0") * 3000, _BROKEN),
)
def test_headers_that_ask_for_too_much_or_are_broken_are_refused(tmp_path, *, header, message):
    whole = gzip.decompress(archive()) if message == _BROKEN else b""
    refused(ModelError, message, _unpack, tmp_path, gzip.compress(header + whole, 1))
