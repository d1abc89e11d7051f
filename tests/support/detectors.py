"""One real chain a family, made once for all tests: trained, quantized and exported by the real tasks.

Read what is here and never write into it; `shutil.copytree` gives a test its copy. A family is
`ssd` (MobileNet), `plain` (the same on `plain_backbone`: half the time to load, in this process only) or
`efficientdet` (lite0). All take 64 x 64 pixels and know two classes, `dark` and `bright`.
"""

import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from detection_core.config.load import parse_pipeline_config
from tests.support.store import stored
from tests.support.tiny_training import MOBILENET, config_text, write_examples

FAMILIES = ("ssd", "plain", "efficientdet")
STEPS = {"ssd": 6, "plain": 20, "efficientdet": 20}
# After 20 steps XNNPACK refuses the int8 file of `ssd`: the scales of two summands are too far apart.
REWRITER = "graph_rewriter { quantization { delay: 1 weight_bits: 8 activation_bits: 8 } }\n"
FORMATS = {"ssd": ("float32", "int8"), "plain": ("float32", "int8"), "efficientdet": ("int8",)}
"""Of a family's exported files, `model_FORMAT.tflite`."""
_EFFICIENTDET = """
model {
  efficientdet {
    name: "efficientdet-lite0" num_classes: 2 max_level: 6 fpn_num_filters: 16 fpn_cell_repeats: 1
    box_class_repeats: 1
    image_resizer { fixed_shape_resizer { height: 64 width: 64 } }
  }
}
"""


def family_config(family: str, steps: int = 0) -> str:
    """Return the pipeline.config of a family for a number of steps; 0: those of the chain."""
    steps = steps or STEPS[family]
    if family == "plain":
        from tests.support.plain_backbone import PLAIN

        return config_text(steps, PLAIN)
    text = config_text(steps, MOBILENET)
    return text if family == "ssd" else _EFFICIENTDET + text[text.index("train_config {") :]


def examples() -> Path:
    """Return ingested examples: `Split-train` of six images with an object each, `Split-eval` the same."""
    return stored(_write_splits)


def trained(family: str) -> Path:
    """Return what a training leaves: `model`, `run`; of `plain` also `work`, in which it is finished."""
    return _of_family(_train, family)


def quantized(family: str) -> Path:
    """Return what quantization-aware training of `trained` leaves: as that one does, and `quantization`."""
    return _of_family(_quantize, family)


def exported(family: str) -> Path:
    """Return TensorFlow Lite files of `trained` and `quantized` in a family's FORMATS: `tflite`, `parity`."""
    return _of_family(_export, family)


def pointed(family: str, more: str = "", steps: int = 0) -> Any:
    """Give a family's parsed config, with text after it, on the stored examples."""
    from detection_core.config.input_paths import point_at_examples

    config = parse_pipeline_config(family_config(family, steps) + more)
    return point_at_examples(config, str(examples()), eval_split="eval")


def train_below(folder: Path, config: Any, **options: Any) -> Any:
    """Train, with `model`, `run` and `work` in a folder; return the report."""
    from detection_core.tasks.train import train

    places = {"model_dir": "model", "model_run_dir": "run", "work_dir": "work"}
    return train(config, **{name: str(folder / place) for name, place in places.items()}, **options)


def _of_family(make: Callable[..., None], family: str) -> Path:
    if family == "plain":
        # What reads the folder has to know the backbone, whether or not it is made now.
        import tests.support.plain_backbone  # noqa: F401
    return stored(make, family=family)


def _write_splits(folder: Path) -> None:
    write_examples(folder)
    shutil.copytree(folder / "Split-train", folder / "Split-eval")


def _train(folder: Path, *, family: str) -> None:
    train_below(folder, pointed(family), log_every=10)
    _drop_work(folder, family)


def _quantize(folder: Path, *, family: str) -> None:
    from detection_core.tasks.quantize import quantize

    quantize(
        pointed(family, REWRITER),
        model_dir=str(trained(family) / "model"),
        quantized_model_dir=str(folder / "model"),
        quantized_run_dir=str(folder / "run"),
        quantization_dir=str(folder / "quantization"),
        work_dir=str(folder / "work"),
    )
    _drop_work(folder, family)


def _drop_work(folder: Path, family: str) -> None:
    if family != "plain":  # checkpoints of large networks
        shutil.rmtree(folder / "work")


def _export(folder: Path, *, family: str) -> None:
    from detection_core.tasks.export import export_tflite
    from detection_core.tasks.exporting.parity import TFLiteExportOptions

    export_tflite(
        str(trained(family) / "model"),
        str(examples()),
        TFLiteExportOptions(
            max_map_drop=2.0, formats=FORMATS[family], representative_examples=2, latency_runs=0
        ),
        tflite_dir=str(folder / "tflite"),
        parity_dir=str(folder / "parity"),
        quantized_model_dir=str(quantized(family) / "model"),
    )


PUBLISHED = "ssd_mobilenet_v2_fpnlite_320x320_coco17_tpu-8"


def untrained() -> str:
    """Return the folder of a `plain` detector as a training writes it, before any step."""
    return str(_of_family(_write_untrained, "plain"))


def _write_untrained(folder: Path, *, family: str) -> None:
    from detection_core.builders.detector import build_detector
    from detection_core.data.label_map import label_map_from_names
    from detection_core.exporters.detector_folder import write_detector

    config = parse_pipeline_config(family_config(family, 4))
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
