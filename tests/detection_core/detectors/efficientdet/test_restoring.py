"""Detectors from google/automl's checkpoints, in both formats, against what its own restoring gives."""

import numpy as np
import pytest
import tensorflow as tf

from detection_core.artifacts import detector as layout
from detection_core.artifacts.model_run import RESTORED_TABLE
from detection_core.detectors.efficientdet.build import build_efficientdet
from detection_core.detectors.efficientdet.checkpoint_names import EFFICIENTDET_NAMES, automl_variables
from detection_core.errors import ModelError
from detection_core.exporters.detector_folder import load_detector
from detection_core.protos.pipeline_pb2 import TrainEvalPipelineConfig
from detection_core.tasks.import_checkpoint import import_checkpoint
from detection_core.training.checkpoint_content import checkpoint_content
from detection_core.training.checkpoint_file import CheckpointFile
from detection_core.training.checkpoint_names import FineTuneOptions
from detection_core.training.restore import restore_fine_tune_checkpoint
from detection_core.training.restore_report import AVERAGED, Outcome
from tests.support import efficientdet_goldens as goldens
from tests.support.field_checkpoints import write_named_checkpoint, write_object_checkpoint
from tests.support.tiny_training import LABELS

CASES = goldens.cases("checkpoint_restore")
SMALL = {"fpn_cell_repeats": 1, "box_class_repeats": 1, "max_level": 6, "fpn_num_filters": 8}


def _detector(classes=4, name="efficientdet-lite0", **fields):
    message = goldens.message(name, 128, **fields)
    message.num_classes = classes
    return build_efficientdet(message, "model.efficientdet", 0)


def _variables(detector):
    return automl_variables(detector.network, detector.parts.settings)


def _values(detector, change=0.0):
    return [
        (own, goldens.deterministic_weight(own.key, tuple(own.variable.shape)) + np.float32(change))
        for own in _variables(detector)
    ]


def _named(path, detector, *, averaged, backbone=False):
    entries = {"global_step": np.int64(7)}
    for own, value in _values(detector):
        if not backbone or own.key.startswith("backbone/"):
            entries[own.name] = value
            if averaged:
                entries[own.name + AVERAGED] = value + np.float32(1.0)
    return write_named_checkpoint(entries, path)


def _objects(path, detector):
    return write_object_checkpoint({own.key: value for own, value in _values(detector, 2.0)}, path)


def _matched(detector):
    """How many variables have plain, averaged and object-based values, and none of them."""
    counts = dict.fromkeys(("plain", "averaged", "object", "unchanged_or_other"), 0)
    for own, value in _values(detector):
        found = own.variable.numpy()
        near = [
            name
            for name, change in (("plain", 0), ("averaged", 1), ("object", 2))
            if np.array_equal(found, value + np.float32(change))
        ]
        counts[near[0] if near else "unchanged_or_other"] += 1
    return counts


def _restore(detector, path, kind, *, named, heads=False):
    options = FineTuneOptions(kind=kind, named=named, heads=heads)
    return restore_fine_tune_checkpoint(detector, EFFICIENTDET_NAMES, options, CheckpointFile(path))


@pytest.fixture(scope="module")
def small():
    return _detector(**SMALL)


def test_averaged_values_win_and_the_plain_ones_are_not_left_over(small, tmp_path):
    path = _named(tmp_path / "model", small, averaged=True)
    detector = _detector(**SMALL)
    report = _restore(detector, path, "detection", named=True, heads=True)
    assert _matched(detector)["averaged"] == len(_variables(detector)) == report.count(Outcome.RESTORED)
    assert report.unused == ()


def test_values_without_averages_are_taken_as_they_are(small, tmp_path):
    path = _named(tmp_path / "model", small, averaged=False)
    detector = _detector(**SMALL)
    _restore(detector, path, "detection", named=True, heads=True)
    assert _matched(detector)["plain"] == len(_variables(detector))


def test_other_classes_keep_all_but_what_depends_on_them(small, tmp_path):
    path = _named(tmp_path / "model", small, averaged=True)
    detector = _detector(classes=7, **SMALL)
    report = _restore(detector, path, "full", named=True)
    skipped = [row.key for row in report.variables if row.outcome is Outcome.SKIPPED_SHAPE]
    assert skipped == [f"class_net/class-predict/{leaf}{AVERAGED}" for leaf in ("pointwise_kernel", "bias")]
    assert "skipped: another shape: class_head_pointwise/kernel" in report.table()


def test_a_backbone_gives_the_backbone(small, tmp_path):
    path = _named(tmp_path / "model", small, averaged=False, backbone=True)
    detector = _detector(**SMALL)
    _restore(detector, path, "classification", named=True)
    backbone = [own for own in _variables(detector) if own.key.startswith("backbone/")]
    assert _matched(detector)["plain"] == len(backbone)
    assert checkpoint_content(CheckpointFile(path), EFFICIENTDET_NAMES).of == "classifier"


def test_objects_are_restored_whole_or_without_heads(small, tmp_path):
    path = _objects(tmp_path / "ckpt", small)
    detector = _detector(**SMALL)
    report = _restore(detector, path, "full", named=False)
    assert _matched(detector)["object"] == len(_variables(detector)) == report.count(Outcome.RESTORED)
    assert report.unused == ()
    other = _detector(classes=7, **SMALL)
    report = _restore(other, path, "detection", named=False)
    heads = [own for own in _variables(other) if own.key.startswith(("class_net/", "box_net/"))]
    assert _matched(other)["object"] == len(_variables(other)) - len(heads)
    assert report.unused and all(key.startswith(("class_net/", "box_net/")) for key in report.unused)


def test_the_averages_of_a_training_win_over_its_plain_values(small, tmp_path):
    """Slots are kept of what is trained: statistics, and what was frozen, have none."""
    trained = {v.ref() for v in small.network.trainable_variables}
    averages = {
        own.key: value
        for own, value in _values(small, 1.0)
        if own.variable.ref() in trained and not own.key.startswith("fpn_cells/")
    }
    plain = {own.key: value for own, value in _values(small, 2.0)}
    path = write_object_checkpoint(plain, tmp_path / "ckpt", averages)
    detector = _detector(**SMALL)
    report = _restore(detector, path, "full", named=False)
    rest = len(plain) - len(averages)
    assert _matched(detector) == {"plain": 0, "averaged": len(averages), "object": rest} | {
        "unchanged_or_other": 0
    }
    assert (report.averaged, report.count(Outcome.RESTORED), report.unused) == (
        len(averages),
        len(plain),
        (),
    )
    (row,) = (row for row in report.variables if row.name == "backbone_stem/kernel")
    slot = "backbone/_stem/_conv_stem/kernel/.OPTIMIZER_SLOT/optimizer/average/.ATTRIBUTES/VARIABLE_VALUE"
    assert row.key == slot
    # Their own training wrote keys of this form.
    facts = goldens.cases("training_step")["default"]["fact"]["training_checkpoint"]
    assert {key.partition("/.OPT")[2] for key in facts["slot_key_examples"]} >= {slot.partition("/.OPT")[2]}


def _hub_key(own):
    """The facts' rule for trainings on a module of TensorFlow Hub, which Model Maker's are, too."""
    rule = CASES["rules"]["fact"]["head_only_module_fallback"]
    for prefix, layer in rule["variable_prefix_to_key_prefix"]:
        if own.name.startswith(prefix):
            name = own.name.removeprefix(prefix) + ("" if prefix else ":0")
            return f"{layer}/{name.replace('/', '.S')}"
    raise AssertionError(own.name)


def test_a_training_on_a_module_of_tensorflow_hub_is_restored(small, tmp_path):
    values = {_hub_key(own): value for own, value in _values(small, 2.0)}
    assert "base_model/efficientnet-lite0.Sstem.Sconv2d.Skernel:0" in values and "classes/bias" in values
    averages = {_hub_key(own): value for own, value in _values(small, 1.0)}
    averages = {"classes/bias": averages["classes/bias"]}
    path = write_object_checkpoint(values, tmp_path / "ckpt", averages)
    stored = {name for name, _ in tf.train.list_variables(path)}
    assert {f"{key}/.ATTRIBUTES/VARIABLE_VALUE" for key in values} <= stored
    detector = _detector(**SMALL)
    report = _restore(detector, path, "full", named=False)
    counts = _matched(detector)
    assert (counts["averaged"], counts["object"]) == (1, len(values) - 1)
    assert report.unused == () and report.count(Outcome.RESTORED) == len(values)
    content = checkpoint_content(CheckpointFile(path), EFFICIENTDET_NAMES)
    assert (content.of, content.heads) == ("detector", True)
    other = _detector(classes=7, **SMALL)
    report = _restore(other, path, "detection", named=False)
    assert all(
        key.startswith(("classes/", "boxes/", "base_model/class_net", "base_model/box_net"))
        for key in report.unused
    )


def test_averages_stay_behind_on_request(small, tmp_path):
    by_name = _named(tmp_path / "model", small, averaged=True)
    values = {own.key: value for own, value in _values(small)}
    averages = {key: value + np.float32(1.0) for key, value in values.items()}
    objects = write_object_checkpoint(values, tmp_path / "ckpt", averages)
    for path, named in ((by_name, True), (objects, False)):
        detector = _detector(restore_moving_averages=False, **SMALL)
        _restore(detector, path, "full", named=named)
        assert _matched(detector)["plain"] == len(values)


SECOND = {
    "efficientnet-lite0/stem/conv2d/": "efficientnet-lite0/stem_1/conv2d_5/",
    "efficientnet-lite0/stem/": "efficientnet-lite0/stem_1/",
    **{
        f"segmentation_head/conv2d_transpose{f'_{i}' if i else ''}/": (
            f"segmentation_head_1/conv2d_transpose_{4 + i}/"
        )
        for i in range(4)
    },
    "segmentation_head/": "segmentation_head_1/",
}


def _of_second_network(name):
    """The name of a variable of the second network in a process."""
    found = next((scope for scope in SECOND if name.startswith(scope)), None)
    return name if found is None else SECOND[found] + name.removeprefix(found)


@pytest.fixture(scope="module")
def segmenting():
    return _detector(heads=["object_detection", "segmentation"], **SMALL)


def test_running_numbers_of_a_second_network_are_followed(segmenting, tmp_path):
    entries = {_of_second_network(own.name): value for own, value in _values(segmenting)}
    entries |= {f"{name}{AVERAGED}": value + np.float32(1.0) for name, value in entries.items()}
    path = write_named_checkpoint(entries, tmp_path / "model")
    detector = _detector(heads=["object_detection", "segmentation"], **SMALL)
    report = _restore(detector, path, "full", named=True)
    assert _matched(detector)["averaged"] == len(_variables(detector)) == report.averaged
    assert report.unused == ()
    (row,) = (row for row in report.variables if row.name == "backbone_stem/kernel")
    assert row.key == f"efficientnet-lite0/stem_1/conv2d_5/kernel{AVERAGED}"


def test_a_stem_that_could_be_either_of_two_is_not_restored_and_both_are_named(small, tmp_path):
    entries = {_of_second_network(own.name): value for own, value in _values(small)}
    entries |= {
        name.replace("/stem_1/", "/stem_2/"): value for name, value in entries.items() if "/stem_1/" in name
    }
    path = write_named_checkpoint(entries, tmp_path / "model")
    report = _restore(_detector(**SMALL), path, "full", named=True)
    left = [row for row in report.variables if row.outcome is not Outcome.RESTORED]
    assert [row.outcome for row in left] == [Outcome.MISSING] * 5 and len(report.unused) == 10
    assert "any of efficientnet-lite0/stem_1/conv2d_5/kernel, efficientnet-lite0/stem_2/" in report.summary()


def test_what_a_checkpoint_is_shows_in_its_names(small, tmp_path):
    of_objects = checkpoint_content(CheckpointFile(_objects(tmp_path / "ckpt", small)), EFFICIENTDET_NAMES)
    by_name = _named(tmp_path / "model", small, averaged=True)
    named = checkpoint_content(CheckpointFile(by_name), EFFICIENTDET_NAMES)
    assert (of_objects.of, of_objects.named, of_objects.heads) == ("detector", False, True)
    assert (named.of, named.named, named.heads) == ("detector", True, True)


def test_a_checkpoint_of_something_else_is_refused(small, tmp_path):
    path = write_named_checkpoint({"other/kernel": np.float32([1.0])}, tmp_path / "model")
    with pytest.raises(ModelError, match="found none of them"):
        _restore(small, path, "detection", named=True)


@pytest.mark.slow
def test_a_checkpoint_becomes_a_detector_as_it_is(tmp_path):
    config = TrainEvalPipelineConfig()
    config.model.efficientdet.CopyFrom(goldens.message("efficientdet-lite0", 128, **SMALL))
    config.model.efficientdet.num_classes = 2
    source = build_efficientdet(config.model.efficientdet, "model.efficientdet", 0)
    path = _named(tmp_path / "model", source, averaged=True)
    (tmp_path / "classes.pbtxt").write_text(LABELS)
    labels, folder = str(tmp_path / "classes.pbtxt"), str(tmp_path / "detector")
    report = import_checkpoint(config, path, label_map=labels, model_dir=folder)
    variables = _variables(source)
    assert report.counts() == {"restored": len(variables), "skipped_shape": 0, "missing": 0, "unused": 0}
    made = load_detector(folder)
    assert _matched(made.model)["averaged"] == len(variables) == made.info.extra["moving_averages"]
    table = layout.read_extra(folder, RESTORED_TABLE)
    assert table.count("restored, moving average: ") == len(variables)


@pytest.mark.slow
@pytest.mark.parametrize(
    "case, written, options, classes",
    [
        ("name_based_both_averaging_on", {"averaged": True}, {"heads": True}, 4),
        ("name_based_both_averaging_off", {"averaged": True}, {"heads": True}, 4),
        ("name_based_plain_only_averaging_on", {"averaged": False}, {"heads": True}, 4),
        ("name_based_other_num_classes", {"averaged": True}, {"heads": True}, 7),
        ("name_based_backbone_only", {"averaged": False, "backbone": True}, {}, 4),
        ("object_based", None, {}, 4),
        ("object_based_exclude_heads", None, {}, 4),
        ("object_based_other_num_classes_exclude_heads", None, {}, 7),
    ],
)
def test_as_many_variables_are_restored_as_by_the_reference(case, written, options, classes, tmp_path):
    source = _detector(name="efficientdet-d0")
    fields = {"restore_moving_averages": False} if case.endswith("averaging_off") else {}
    detector = _detector(classes, name="efficientdet-d0", **fields)
    if written is None:
        path, kind = _objects(tmp_path / "ckpt", source), "detection" if "heads" in case else "full"
    else:
        path = _named(tmp_path / "model", source, **written)
        kind = "classification" if "backbone" in case else "detection"
    _restore(detector, path, kind, named=written is not None, **options)
    assert _matched(detector) == CASES[case]["fact"]["matched"]
