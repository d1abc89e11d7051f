from detection_core.builders.fine_tuning import build_fine_tune_options, freezes_batch_norm
from detection_core.config.load import parse_pipeline_config
from detection_core.config.paths.overrides import apply_overrides
from detection_core.training.checkpoint_names import FineTuneOptions
from tests.support.tiny_training import MOBILENET, config_text


def _config(path, **fields):
    changes = {f"train_config.{name}": value for name, value in fields.items()}
    changes["train_config.fine_tune_checkpoint"] = path
    return apply_overrides(parse_pipeline_config(config_text()), changes)


def test_what_a_config_wants_of_a_checkpoint():
    v2 = {"fine_tune_checkpoint_version": "V2"}
    wanted = FineTuneOptions(kind="full", extractor=MOBILENET)
    assert build_fine_tune_options(_config("x", fine_tune_checkpoint_type="full", **v2)) == wanted
    assert build_fine_tune_options(_config("x", **v2)).kind == "classification"
    assert build_fine_tune_options(_config("x", from_detection_checkpoint=True, **v2)).kind == "detection"
    named = build_fine_tune_options(_config("x", load_all_detection_checkpoint_vars=True))
    assert named.named and named.heads
    of_zoo = build_fine_tune_options(_config("zoo:ssd_mobilenet_v2_fpnlite_320x320_coco17_tpu-8"))
    assert of_zoo == wanted, "an object-based checkpoint, which gives all that fits"
    frozen = apply_overrides(_config("x"), {"model.ssd.freeze_batchnorm": True})
    assert freezes_batch_norm(frozen) and not freezes_batch_norm(_config("x"))
