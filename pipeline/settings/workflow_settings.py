"""Settings of a workflow: one model for each section of the settings file."""

import os
from collections.abc import Iterator
from typing import Annotated, Literal

import pydantic

from component_specs import TFLiteExporterJob
from component_specs.run_checker import DEPLOYED
from detection_core import allowed_values
from detection_core.errors import ConfigError, shorten
from detection_core.storage import files
from detection_core.zoo.keras_backbones import IMAGENET
from detection_core.zoo.networks import find_model
from detection_core.zoo.starting_points import ZOO
from pipeline.settings.data_settings import DataSettings, RequiredPath
from pipeline.settings.kubeflow_settings import KubeflowSettings
from pipeline.settings.schedule_settings import ScheduleSettings
from pipeline.settings.setting_types import (
    EACH_ONCE,
    NOT_EMPTY,
    IsPath,
    Path,
    Paths,
    Plain,
    Settings,
    Text,
    addresses_with_credentials,
    between,
    matching,
    setting,
)
from pipeline.settings.validation_errors import contradictions
from pipeline.settings.validation_settings import ValidationSettings

Bound = Literal["lower_bound", "upper_bound", "min_change", "confidence"]
Thresholds = dict[Text, Annotated[dict[Bound, float], NOT_EMPTY]]
Limit = Literal["size_mb", "latency_ms", "memory_mb"]
FileLimits = Annotated[dict[Limit, Annotated[float, between(0.000_001, 1_000_000)]], NOT_EMPTY]
Limits = dict[allowed_values.FileFormat, FileLimits]
Overrides = dict[Text, Plain]

_START = matching(rf"|{ZOO}[A-Za-z0-9_.-]+|{IMAGENET}", f"{ZOO}NAME or {IMAGENET}")
# Kubeflow Pipelines converts it to lower-case letters and hyphens. Its limit is 110, which `compile` checks.
_NAME = matching(
    "[A-Za-z0-9][A-Za-z0-9_-]*",
    "letters without accents, digits, _ and -, first a letter or digit, 128 at most",
    longest=128,
)


class ModelSettings(Settings):
    """The detector."""

    config: RequiredPath = setting(..., "A `pipeline.config` of the Object Detection API.")
    override_files: Paths = setting(
        list, "Partial `pipeline.config` files in text format, merged into the config in this order."
    )
    overrides: Overrides = setting(
        dict,
        "Config field path to value, for both training steps; applied after the files. `[+]` adds an"
        " element to a list. To add several, use `[+2]`, `[+3]`, ..., because keys of a map must differ.",
        examples=[{"train_config.batch_size": 8}],
    )


class TrainSettings(Settings):
    """Training options."""

    warm_start: Annotated[Text, IsPath(words=(DEPLOYED, IMAGENET), prefixes=(ZOO,))] = setting(
        "",
        "Detector folder to start from, or `deployed`: the model at the push destination, if there is one.",
        unset="from scratch, or the config's `fine_tune_checkpoint`",
    )
    start_from: Annotated[Text, _START] = setting(
        "",
        "Published weights to start from: `zoo:NAME` for a detector that `detflow zoo list` shows, or"
        " `imagenet` for a backbone that Keras publishes. With `warm_start: deployed` they are used only"
        " if nothing is deployed yet. See [starting weights](training.md#starting-weights).",
        unset="the config's `fine_tune_checkpoint`, or from scratch",
        examples=["zoo:ssd_mobilenet_v2_fpnlite_320x320_coco17_tpu-8", "imagenet"],
    )
    weights_mirror: Path = setting(
        "",
        "Address, folder or bucket with copies of published weights, under their names.",
        unset="`DETFLOW_WEIGHTS_MIRROR`, or the publishers",
        examples=["https://mirror.example/weights"],
    )
    overrides: Overrides = setting(dict, "Config field path to value, for Trainer only.")
    checkpoint_minutes: Annotated[float, between(0, 10_000)] = setting(
        5.0,
        "Maximum time between two checkpoints of unfinished training, in Trainer and QuantizationRewriter."
        " A kill without warning loses at most this time of training. 0: by steps only; see [stop and"
        " resume](training.md#stop-and-resume).",
        unit="minutes",
    )


class EvaluateSettings(Settings):
    """Thresholds for the blessing."""

    split: Text = setting("eval", "Split that metrics and gates are measured on.")
    thresholds: Thresholds = setting(
        lambda: {"DetectionBoxes_Precision/mAP": {"min_change": 0.0}},
        "Metric to `lower_bound`, `upper_bound`, `min_change` (against the deployed model). Without"
        " `confidence` the measured numbers decide. With `confidence: 0.95`, a threshold fails only if the"
        " whole 95 % bootstrap interval is beyond the bound.",
        unset="mAP may not fall below the deployed model's",
        examples=[{"DetectionBoxes_Precision/mAP@.50IOU": {"lower_bound": 0.85, "min_change": -0.01}}],
    )
    quantized_thresholds: Thresholds = setting(
        lambda: {"DetectionBoxes_Precision/mAP@.50IOU": {"min_change": -TFLiteExporterJob.max_map_drop}},
        "The same for the quantized detector; `min_change` is against the float one.",
        unset=f"mAP@.50 may fall by {TFLiteExporterJob.max_map_drop:g}",
    )
    slices: Annotated[Text, IsPath(words=("image_size",))] = setting(
        "",
        "Parts of the split to measure separately. `image_size`: images below 512² pixels, below 1024², and"
        " larger ones. Or a CSV file with the column `source_id`, the ids of images: each other column is a"
        " feature, and each of its values another part. Give the file another name if you change it.",
        unset="none",
        examples=["image_size", "weather.csv"],
    )
    pictures: Annotated[int, between(-1, 100_000)] = setting(
        -1,
        "Number of side-by-side pictures in the report; -1: `eval_config.num_visualizations` of the"
        " config, 10 by default.",
        unit="pictures",
    )


class QuantizeSettings(Settings):
    """Options of QuantizationRewriter, which runs if the config has a `graph_rewriter` block."""

    enabled: bool = setting(
        True, "False leaves quantization out even if the config has a `graph_rewriter` block."
    )
    overrides: Overrides = setting(
        dict, "Config field path to value, for QuantizationRewriter only (its training is shorter)."
    )


class ExportSettings(Settings):
    """TensorFlow Lite files to export, and their limits."""

    formats: Annotated[list[allowed_values.FileFormat], NOT_EMPTY, EACH_ONCE] = setting(
        lambda: ["float32", "int8"], "TensorFlow Lite files to make; [what each is](export.md#files)."
    )
    max_map_drop: Annotated[float, between(0, 1)] = setting(
        TFLiteExporterJob.max_map_drop,
        "Maximum absolute difference by which a file's mAP@.50 may be lower than the SavedModel's.",
    )
    limits: Limits = setting(
        dict,
        "Format to limits of its file: `size_mb`, `latency_ms` and `memory_mb`. Latency is the median with"
        " one thread and XNNPACK, on the step's machine. Memory is a process's growth by loading the file"
        " and running it once. A file beyond a limit is refused, like a file that lost accuracy.",
        unset="no limit",
        examples=[{"int8": {"size_mb": 4, "latency_ms": 20}}],
    )
    max_detections: Annotated[int, between(1, 10_000)] = setting(
        TFLiteExporterJob.max_detections, "Rows of the post-processing op.", unit="detections"
    )
    use_regular_nms: bool = setting(
        False,
        "True suppresses class by class, as the SavedModel does. False, the default of the Object"
        " Detection API, is faster. Boxes of all classes then suppress each other, and a box has its three"
        " best classes.",
    )
    form: allowed_values.TFLiteForm = setting(
        "post_process",
        "What files end with. `post_process`: the operation TFLite_Detection_PostProcess. `plain_nms`:"
        " built-in operations with the same outputs. `headless`: box codes and scores of every anchor,"
        " with MediaPipe's metadata for decoding. A GPU or NPU can run this whole file. It is measured as"
        " MediaPipe runs it. A box has one class, and boxes of all classes with an overlap above 0.3"
        " suppress each other.",
    )
    representative_examples: Annotated[int, between(1, 100_000)] = setting(
        TFLiteExporterJob.representative_examples,
        "Training examples that calibrate post-training quantization.",
        unit="examples",
    )


class PushSettings(Settings):
    """Destination of blessed versions."""

    destination: Path = setting(
        "",
        "Folder for blessed versions. TensorFlow Serving watches its `saved_model` folder; see"
        " [publishing](serving.md#publish-and-roll-back).",
        unset="`pushed` in the workspace",
        examples=["s3://bucket/digits"],
    )
    keep_versions: Annotated[int, between(0, 1_000_000)] = setting(
        5,
        "Number of versions to keep; 0 keeps all. The deployed one and the one before it are always kept.",
        unit="versions",
    )


class BeamSettings(Settings):
    """Options of Beam."""

    args: list[Annotated[Text, NOT_EMPTY]] = setting(
        list,
        "Beam pipeline options.",
        unset="DirectRunner, its mode chosen by the size of the work",
        examples=[["--runner=FlinkRunner"]],
    )


class PipelineSettings(Settings):
    """A workflow."""

    name: Annotated[Text, _NAME] = setting(
        ...,
        "Name of the pipeline: letters without accents, digits, `_`, `-`, first a letter or digit, at most"
        " 128 characters. Kubeflow converts it to its own form, of at most 110 characters.",
    )
    workspace: RequiredPath = setting(..., "Folder of runs, artifacts and metadata.")
    data: DataSettings
    validation: ValidationSettings = ValidationSettings()
    model: ModelSettings
    train: TrainSettings = TrainSettings()
    evaluate: EvaluateSettings = EvaluateSettings()
    quantize: QuantizeSettings = QuantizeSettings()
    export: ExportSettings = ExportSettings()
    push: PushSettings = PushSettings()
    beam: BeamSettings = BeamSettings()
    kubeflow: KubeflowSettings = KubeflowSettings()
    schedule: ScheduleSettings = ScheduleSettings()

    @property
    def push_destination(self) -> str:
        """Return the push destination, or its default."""
        return self.push.destination or os.path.join(self.workspace, "pushed")

    @pydantic.model_validator(mode="after")
    def _check(self, info: pydantic.ValidationInfo) -> "PipelineSettings":
        found = [*self._contradictions(), *addresses_with_credentials(self.model_dump())]
        if not found and info.context and info.context["check_files"]:
            found = list(self._missing_files())
        if found:
            raise contradictions(found)
        return self

    def _contradictions(self) -> Iterator[tuple[str, str]]:
        splits, split = self.data.splits, self.evaluate.split
        if "train" not in splits:
            yield "data.splits", f"expected a split named train, found {shorten(splits)}"
        if split not in splits:
            yield "evaluate.split", f"expected one of the splits in data.splits, found {shorten(split)}"
        for name in self.export.limits:
            if name not in self.export.formats:
                expected = f"expected limits of files that export.formats names, found {name}"
                yield "export.limits", f"{expected}; remove it, or make the file"
        yield from self._starting_contradictions()
        # A repeated run starts from the version before its own publication.
        if self.train.warm_start == DEPLOYED and self.push.keep_versions == 1:
            expected = "expected 2 or more, or 0 (keep all), where train.warm_start is deployed"
            yield "push.keep_versions", f"{expected}, found 1"

    def _starting_contradictions(self) -> Iterator[tuple[str, str]]:
        start, warm_start = self.train.start_from, self.train.warm_start
        if warm_start == IMAGENET or warm_start.startswith(ZOO):
            yield (
                "train.warm_start",
                f"expected a detector's folder or {DEPLOYED}, found {shorten(warm_start)}, published"
                f" weights: write train.start_from: {warm_start}",
            )
            return
        if start and warm_start not in ("", DEPLOYED):
            expected = "expected nothing beside the detector that train.warm_start names"
            yield "train.start_from", f"{expected}, found {shorten(start)}; remove one of them"
        if start.startswith(ZOO):
            try:
                find_model(start.removeprefix(ZOO))
            except ConfigError as error:
                yield "train.start_from", error.message

    def _missing_files(self) -> Iterator[tuple[str, str]]:
        from components.example_gen.sources import before_pattern
        from components.run_checker.placeholders import before_placeholder

        if not files.exists(self.model.config):
            yield "model.config", f"no file {self.model.config}; check the path"
        folder = before_placeholder(before_pattern(self.data.path))
        if "://" not in folder and not os.path.isdir(folder):
            yield "data.path", f"no folder {folder}; give one with --set data.path=DIR"
