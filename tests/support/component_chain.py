"""Detectors of the smallest config that components take as inputs, made once for all tests."""

import tarfile
from pathlib import Path

from detection_core.config.load import parse_pipeline_config
from tests.support.plain_backbone import PLAIN
from tests.support.store import stored
from tests.support.tiny_training import config_text

PUBLISHED = "ssd_mobilenet_v2_fpnlite_320x320_coco17_tpu-8"


def plain_config(steps: int = 4) -> str:
    """Give the text of the config, on the plain backbone that only this process knows."""
    return config_text(steps, PLAIN)


def untrained() -> str:
    """Return the folder of a detector as a training writes it, of the classes `dark` and `bright`."""
    return str(stored(_write_untrained))


def _write_untrained(folder: Path) -> None:
    from detection_core.builders.detector import build_detector
    from detection_core.data.label_map import label_map_from_names
    from detection_core.exporters.detector_folder import write_detector

    config = parse_pipeline_config(plain_config())
    write_detector(
        build_detector(config.model, seed=0), config, label_map_from_names(["dark", "bright"]), str(folder)
    )


def publish_detector(mirror: Path) -> None:
    """Put an archive of a tiny detector, of other classes, where PUBLISHED is looked for."""
    import numpy as np

    from detection_core.builders.detector import build_detector
    from detection_core.config.paths.overrides import apply_overrides
    from detection_core.families.ssd.checkpoint_names import object_paths
    from tests.support.field_checkpoints import write_object_checkpoint

    config = apply_overrides(parse_pipeline_config(config_text()), {"model.ssd.num_classes": 7})
    values = {
        path: np.full(variable.shape, 0.25, np.float32)
        for path, variable in object_paths(build_detector(config.model).network).items()
    }
    folder = mirror / PUBLISHED / "checkpoint"
    folder.mkdir(parents=True)
    write_object_checkpoint(values, folder / "ckpt-0")
    with tarfile.open(mirror / f"{PUBLISHED}.tar.gz", "w:gz") as tar:
        tar.add(mirror / PUBLISHED, PUBLISHED)
