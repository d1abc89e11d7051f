"""Settings of a workflow: one model for each section of the settings file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Annotated, Literal

import pydantic

from component_specs import TFLiteExporterJob
from component_specs.example_gen import DEFAULT_SPLITS
from component_specs.run_checker import DEPLOYED
from detection_core.allowed_values import (
    AnnotationFormat,
    DecodeImages,
    ExifAnnotations,
    FileFormat,
    TFLiteForm,
    UnannotatedImages,
)
from detection_core.errors import ConfigError, shorten
from detection_core.storage import files
from detection_core.zoo.keras_backbones import IMAGENET
from detection_core.zoo.networks import find_model
from detection_core.zoo.starting_points import ZOO
from pipeline.settings.kubeflow_settings import KubeflowSettings
from pipeline.settings.schedule_settings import ScheduleSettings
from pipeline.settings.setting_types import (
    EACH_ONCE,
    MAPPING,
    NOT_EMPTY,
    NUMBER,
    TEXT,
    IsPath,
    Path,
    Paths,
    Plain,
    Settings,
    Text,
    UnquotedText,
    addresses_with_credentials,
    between,
    by_kind,
    matching,
    setting,
)
from pipeline.settings.validation_errors import contradictions
from pipeline.settings.validation_settings import ValidationSettings

Bound = Literal["lower_bound", "upper_bound", "min_change", "confidence"]
Thresholds = dict[Text, Annotated[dict[Bound, float], NOT_EMPTY]]
Limit = Literal["size_mb", "latency_ms", "memory_mb"]
FileLimits = Annotated[dict[Limit, Annotated[float, between(0.000_001, 1_000_000)]], NOT_EMPTY]
Limits = dict[FileFormat, FileLimits]
Overrides = dict[Text, Plain]
Split = Annotated[
    Annotated[float, NUMBER] | Annotated[Text, TEXT] | Annotated[dict[Text, Text], MAPPING],
    by_kind("a number, a text or a mapping"),
]
RequiredPath = Annotated[Path, NOT_EMPTY]

_SPAN = matching(
    "latest|[0-9]{1,18}|[0-9]{4}-[0-9]{2}-[0-9]{2}", "latest, a number or a date like 2026-11-21"
)
_START = matching(rf"|{ZOO}[A-Za-z0-9_.-]+|{IMAGENET}", f"{ZOO}NAME or {IMAGENET}")
# Kubeflow Pipelines converts it to lower-case letters and hyphens. Its limit is 110, which `compile` checks.
_NAME = matching(
    "[A-Za-z0-9][A-Za-z0-9_-]*",
    "letters without accents, digits, _ and -, first a letter or digit, 128 at most",
    longest=128,
)


def _registered_format(value: object, check: pydantic.ValidatorFunctionWrapHandler) -> object:
    """Accept a format that was registered from outside the package."""
    from detection_core.datasets.readers import READERS

    return value if isinstance(value, str) and value in READERS else check(value)


Format = Annotated[Literal["auto", AnnotationFormat], pydantic.WrapValidator(_registered_format)]


class DataSettings(Settings):
    """Input of ExampleGen."""

    path: RequiredPath = setting(..., "Folder of the data set.", examples=["../../build/digits/scenes"])
    format: Format = setting("auto", "How the annotations are written; see [own data](own-data.md#formats).")
    splits: dict[Text, Split] = setting(
        lambda: dict(DEFAULT_SPLITS),
        "Split to ratio (by a stable hash of the image), or to where its annotations are; see"
        " [own data](own-data.md).",
        examples=[{"train": {"annotations": "train.json", "images": "images/train"}}],
    )
    span: Annotated[UnquotedText, _SPAN] = setting(
        "latest",
        "Where `data.path` or a location in `data.splits` holds `{SPAN}` or `{YYYY}`, `{MM}`, `{DD}`: the"
        " newest span to read, `latest`, a number or a date; see [spans](kubeflow.md#spans).",
        examples=["latest", "3", "2026-11-21"],
    )
    window: Annotated[int, between(1, 100_000)] = setting(
        1, "How many spans, up to that one, to train on.", unit="spans"
    )
    eval_window: Annotated[int, between(1, 100_000)] = setting(
        1, "How many of them the other splits are taken from.", unit="spans"
    )
    span_ready_file: Text = setting(
        "", "Name of the file that marks a span's folder as complete.", examples=["_SUCCESS"]
    )
    label_map: Path = setting(
        "", "A label map in the Object Detection API's format.", unset="made from the annotations"
    )
    quarantine_limit: Annotated[float, between(0, 1)] = setting(
        0.01, "Fraction of quarantined records above which the run stops."
    )
    decode_images: DecodeImages = setting(
        "sample",
        "Which images are decoded while they are ingested: `sample` (one in a thousand of each split and"
        " no fewer than 16, by Pillow), `all` (every one, by Pillow and TensorFlow, whose pixels are"
        " compared) or `none`; see [own data](own-data.md).",
    )
    exif_annotations: ExifAnnotations = setting(
        "upright",
        "How the boxes of an image that its EXIF orientation turns were drawn: on the picture as viewers show"
        " it, `upright`, or as the file stores it, `stored`. It counts only where the size in the"
        " annotation does not tell; see [own data](own-data.md#images-of-every-kind).",
    )
    unannotated_images: UnannotatedImages = setting(
        "auto",
        "How to take images that no annotation names: `background`, images without objects, or `leave_out`,"
        " counted but not used; `auto`: background in YOLO, left out elsewhere.",
    )
    shard_examples: Annotated[int, between(1, 10_000_000)] = setting(
        1000, "About how many examples go in a shard.", unit="examples"
    )
    compression: Literal["", "GZIP"] = setting("", "`GZIP` writes compressed shards, ten times slower.")
    shards_uri: Path = setting(
        "",
        "Folder, usually on an object store, for the shards; the artifact then holds a list of them, and"
        " every step reads them from there, see [large data](own-data.md#object-stores).",
        unset="in the artifact",
        examples=["s3://bucket/shards"],
    )

    @pydantic.field_validator("splits")
    @classmethod
    def _check_splits(cls, splits: dict[str, Split]) -> dict[str, Split]:
        from detection_core.datasets.layouts import check_splits

        try:
            check_splits(splits)
        except ConfigError as error:
            raise contradictions([("", error.message)]) from error
        return splits


class ModelSettings(Settings):
    """The detector."""

    config: RequiredPath = setting(..., "A `pipeline.config` of the Object Detection API.")
    override_files: Paths = setting(
        list, "Partial `pipeline.config` files in text format, merged into the config in this order."
    )
    overrides: Overrides = setting(
        dict,
        "Config field path to value, for both training steps, after the files; `[+]` adds an element to a"
        " list, and so do `[+2]`, `[+3]`, ... where a map needs different keys.",
        examples=[{"train_config.batch_size": 8}],
    )


class TrainSettings(Settings):
    """Training options."""

    warm_start: Annotated[Text, IsPath(words=(DEPLOYED, IMAGENET), prefixes=(ZOO,))] = setting(
        "",
        "Detector folder to start from, or `deployed`: the model at the push destination, and on the first"
        " run nothing.",
        unset="from scratch, or the config's `fine_tune_checkpoint`",
    )
    start_from: Annotated[Text, _START] = setting(
        "",
        "Published weights to start from: `zoo:NAME` for a detector that `detflow zoo list` shows, or"
        " `imagenet` for a backbone that Keras publishes; with `warm_start: deployed` only where nothing is"
        " deployed yet. See [weights to start from](training.md#starting-weights).",
        unset="the config's `fine_tune_checkpoint`, or from scratch",
        examples=["zoo:ssd_mobilenet_v2_fpnlite_320x320_coco17_tpu-8", "imagenet"],
    )
    weights_mirror: Path = setting(
        "",
        "What has copies of published weights, under their names: an address, a folder or a bucket.",
        unset="what `DETFLOW_WEIGHTS_MIRROR` says, or the publishers",
        examples=["https://mirror.example/weights"],
    )
    overrides: Overrides = setting(dict, "Config field path to value, for Trainer only.")
    checkpoint_minutes: Annotated[float, between(0, 10_000)] = setting(
        5.0,
        "Time between two checkpoints of unfinished training, in Trainer and QuantizationRewriter: what a"
        " kill without a warning costs at most, beside a step; 0: by steps alone, see"
        " [running](training.md#stop-and-resume).",
        unit="minutes",
    )


class EvaluateSettings(Settings):
    """Thresholds for the blessing."""

    split: Text = setting("eval", "Split that metrics and gates are measured on.")
    thresholds: Thresholds = setting(
        lambda: {"DetectionBoxes_Precision/mAP": {"min_change": 0.0}},
        "Metric to `lower_bound`, `upper_bound`, `min_change` (against the deployed model). With"
        " `confidence`, such as 0.95, it fails only where the bootstrap interval of that level lies beyond"
        " the bound; without it the measured numbers decide.",
        unset="mAP may not fall below the deployed model's",
        examples=[{"DetectionBoxes_Precision/mAP@.50IOU": {"lower_bound": 0.85, "min_change": -0.01}}],
    )
    quantized_thresholds: Thresholds = setting(
        lambda: {"DetectionBoxes_Precision/mAP@.50IOU": {"min_change": -TFLiteExporterJob.max_map_drop}},
        "The same for the quantized detector; `min_change` is against the float one.",
        unset=f"mAP@.50 may fall by {TFLiteExporterJob.max_map_drop:g}",
    )
    pictures: Annotated[int, between(-1, 100_000)] = setting(
        -1,
        "Side-by-side pictures in the report; -1: as many as the config's `eval_config.num_visualizations`"
        " says, 10 by default.",
        unit="pictures",
    )


class QuantizeSettings(Settings):
    """Options of QuantizationRewriter, which runs if the config has a `graph_rewriter` block."""

    enabled: bool = setting(
        True, "False leaves quantization out even where the config has a `graph_rewriter` block."
    )
    overrides: Overrides = setting(
        dict, "Config field path to value, for QuantizationRewriter only (its training is shorter)."
    )


class ExportSettings(Settings):
    """TensorFlow Lite files to export, and their limits."""

    formats: Annotated[list[FileFormat], NOT_EMPTY, EACH_ONCE] = setting(
        lambda: ["float32", "int8"],
        "TensorFlow Lite files to make; [what each is](export.md#files).",
    )
    max_map_drop: Annotated[float, between(0, 1)] = setting(
        TFLiteExporterJob.max_map_drop, "How far a file's mAP@.50 may lie below the SavedModel's, absolute."
    )
    limits: Limits = setting(
        dict,
        "Format to what a file of it may cost: `size_mb`, `latency_ms` (median, one thread, XNNPACK, on the"
        " machine of the step) and `memory_mb` (by how much loading and a first inference raise a process's"
        " memory). A file that costs more is refused, as one that lost accuracy is.",
        unset="no limit",
        examples=[{"int8": {"size_mb": 4, "latency_ms": 20}}],
    )
    max_detections: Annotated[int, between(1, 10_000)] = setting(
        TFLiteExporterJob.max_detections, "Rows of the post-processing op.", unit="detections"
    )
    use_regular_nms: bool = setting(
        False,
        "Suppress class by class, as the SavedModel does; false, as in the Object Detection API, lets boxes"
        " of all classes suppress each other, and each is reported with its three best classes, which is"
        " faster.",
    )
    form: TFLiteForm = setting(
        "post_process",
        "What files end with: `post_process`, the operation TFLite_Detection_PostProcess; `plain_nms`,"
        " built-in operations that give the same; `headless`, box codes and scores of every anchor, so that a"
        " GPU or NPU may run the whole file, with MediaPipe's record of how they are decoded. This file is"
        " measured as MediaPipe runs it: a class a box, and boxes that overlap by more than 0.3 suppress each"
        " other.",
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
        "Where blessed versions go, whose `saved_model` folder TensorFlow Serving watches; see"
        " [publishing](serving.md#publish-and-roll-back).",
        unset="`pushed` in the workspace",
        examples=["s3://bucket/digits"],
    )
    keep_versions: Annotated[int, between(0, 1_000_000)] = setting(
        5,
        "How many versions to keep, but always the deployed one and the one before it; 0 keeps all.",
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
        "Name of the pipeline: letters without accents, digits, `_`, `-`, first a letter or digit, 128 at"
        " most; Kubeflow makes its own name of it, and takes 110.",
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
    def _check(self, info: pydantic.ValidationInfo) -> PipelineSettings:
        found = [*self._contradictions(), *addresses_with_credentials(self.model_dump())]
        if not found and info.context and info.context["check_files"]:
            found = list(self._missing_files())
        if found:
            raise contradictions(found)
        return self

    def _contradictions(self) -> Iterator[tuple[str, str]]:
        """Yield key and message of contradictions between sections."""
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
        """Yield key and message of paths that do not exist."""
        from components.example_gen.sources import before_pattern
        from components.run_checker.placeholders import before_placeholder

        if not files.exists(self.model.config):
            yield "model.config", f"no file {self.model.config}; check the path"
        folder = before_placeholder(before_pattern(self.data.path))
        if "://" not in folder and not os.path.isdir(folder):
            yield "data.path", f"no folder {folder}; give one with --set data.path=DIR"
