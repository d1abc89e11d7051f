"""The settings of a workflow, as frozen dataclasses: one a section of the settings file."""

from __future__ import annotations

import dataclasses
import os
from typing import Annotated, Any, Literal

from component_specs.run_checker import DEPLOYED
from pipeline.settings.kubeflow_settings import KubeflowSettings
from pipeline.settings.schedule_settings import ScheduleSettings
from pipeline.settings.settings_values import NOT_EMPTY, Rule, between, matching

Bound = Literal["lower_bound", "upper_bound", "min_change"]
Thresholds = dict[str, Annotated[dict[Bound, float], NOT_EMPTY]]

_SPAN = matching(r"latest|\d+|\d{4}-\d\d-\d\d", "latest, a number or a date like 2026-11-21")
# Kubeflow Pipelines makes small letters and hyphens of it, at most 128.
_NAME = matching(
    "[A-Za-z0-9][A-Za-z0-9_-]*",
    "letters without accents, digits, _ and -, first a letter or digit, 128 at most",
    longest=128,
)
_NO_REPETITION = Rule(lambda values: len(set(values)) == len(values), "each once")


@dataclasses.dataclass(frozen=True, kw_only=True)
class DataSettings:
    """What ExampleGen reads.

    Attributes:
        path: folder of the data set; it, or the locations in `splits`, may hold `{SPAN}` or `{YYYY}`, `{MM}`
            and `{DD}`.
        format: `coco` or `voc`.
        splits: split name to ratio, or to where its annotations are.
        span: newest span to read, `latest`, a number or a date.
        window: how many spans to train on.
        eval_window: how many spans the other splits are taken from.
        span_ready_file: name of the file that marks a span's folder as complete; empty: none is needed.
        label_map: path of a label map; empty: made from the annotations.
        quarantine_limit: fraction of quarantined records above which the run stops.
        decode_images: `sample`, `all` or `none`: which images are decoded at ingest.
        shard_examples: about how many examples go in a shard.
        compression: empty or `GZIP` (ten times slower to write).
        shards_uri: folder, usually on an object store, for the shards; empty: they are in the artifact.
    """

    path: Annotated[str, NOT_EMPTY] = dataclasses.field(metadata={"path": True})
    format: Literal["coco", "voc"] = "coco"
    splits: dict[str, float | str | dict[str, str]] = dataclasses.field(
        default_factory=lambda: {"train": 0.8, "eval": 0.1, "test": 0.1}
    )
    span: Annotated[str, _SPAN] = dataclasses.field(default="latest", metadata={"text": True})
    window: Annotated[int, between(1, 100_000)] = 1
    eval_window: Annotated[int, between(1, 100_000)] = 1
    span_ready_file: str = ""
    label_map: str = dataclasses.field(default="", metadata={"path": True})
    quarantine_limit: Annotated[float, between(0, 1)] = 0.01
    decode_images: Literal["sample", "all", "none"] = "sample"
    shard_examples: Annotated[int, between(1, 10_000_000)] = 1000
    compression: Literal["", "GZIP"] = ""
    shards_uri: str = dataclasses.field(default="", metadata={"path": True})


@dataclasses.dataclass(frozen=True, kw_only=True)
class ModelSettings:
    """Which detector.

    Attributes:
        config: path of the pipeline.config.
        override_files: paths of partial pipeline.config files, merged into it one after the other.
        overrides: pipeline.config field path to value, for both training steps; applied after the files.
    """

    config: Annotated[str, NOT_EMPTY] = dataclasses.field(metadata={"path": True})
    override_files: list[str] = dataclasses.field(default_factory=list, metadata={"path": True})
    overrides: dict[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainSettings:
    """How Trainer runs.

    Attributes:
        warm_start: detector folder to start from, or `deployed` for the model at the push destination;
            empty, or nothing deployed yet: from scratch or the config's fine_tune_checkpoint.
        overrides: pipeline.config field path to value, for Trainer only.
        checkpoint_minutes: time between two checkpoints of unfinished training, of QuantizationRewriter too,
            and so what a kill without a warning may cost; 0: they go by steps alone.
    """

    warm_start: str = dataclasses.field(default="", metadata={"path": True, "words": (DEPLOYED,)})
    overrides: dict[str, Any] = dataclasses.field(default_factory=dict)
    checkpoint_minutes: Annotated[float, between(0, 10_000)] = 5.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class EvaluateSettings:
    """What decides the blessing.

    Attributes:
        split: split to measure on.
        thresholds: metric to {lower_bound, upper_bound, min_change}; `min_change` is against the deployed
            model.
        quantized_thresholds: the same for the quantized detector; `min_change` is against the
            float one.
        pictures: how many side-by-side pictures to draw; -1: as many as eval_config.num_visualizations says.
    """

    split: str = "eval"
    thresholds: Thresholds = dataclasses.field(
        default_factory=lambda: {"DetectionBoxes_Precision/mAP": {"min_change": 0.0}}
    )
    quantized_thresholds: Thresholds = dataclasses.field(
        default_factory=lambda: {"DetectionBoxes_Precision/mAP@.50IOU": {"min_change": -0.02}}
    )
    pictures: Annotated[int, between(-1, 100_000)] = -1


@dataclasses.dataclass(frozen=True, kw_only=True)
class QuantizeSettings:
    """How QuantizationRewriter runs; it is part of the run where the config has a `graph_rewriter` block.

    Attributes:
        enabled: False leaves the step out whatever the config says.
        overrides: pipeline.config field path to value, for this step only (its training is shorter).
    """

    enabled: bool = True
    overrides: dict[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExportSettings:
    """Which TensorFlow Lite files are made, and when they are refused.

    Attributes:
        formats: of `float32` and `int8`.
        max_map_drop: how far a file's mAP@.50 may lie below the SavedModel's, absolute.
        max_detections: boxes that the post-processing op keeps.
        use_regular_nms: suppress class by class; false lets boxes of all classes suppress each other, each
            reported with its best classes. True loses a class in LiteRT 2.3 with several threads.
        representative_examples: training examples that calibrate post-training quantization.
    """

    formats: Annotated[list[Literal["float32", "int8"]], NOT_EMPTY, _NO_REPETITION] = dataclasses.field(
        default_factory=lambda: ["float32", "int8"]
    )
    max_map_drop: Annotated[float, between(0, 1)] = 0.02
    max_detections: Annotated[int, between(1, 10_000)] = 100
    use_regular_nms: bool = False
    representative_examples: Annotated[int, between(1, 100_000)] = 100


@dataclasses.dataclass(frozen=True, kw_only=True)
class PushSettings:
    """Where blessed versions go.

    Attributes:
        destination: folder that TensorFlow Serving watches (its `saved_model` folder); empty: `pushed` in the
            workspace.
        keep_versions: how many versions to keep; 0 keeps all.
    """

    destination: str = dataclasses.field(default="", metadata={"path": True})
    keep_versions: Annotated[int, between(0, 1_000_000)] = 5


@dataclasses.dataclass(frozen=True, kw_only=True)
class BeamSettings:
    """How Beam runs.

    Attributes:
        args: Beam pipeline options; empty: DirectRunner, its mode chosen by the size of the work.
    """

    args: list[Annotated[str, NOT_EMPTY]] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True, kw_only=True)
class PipelineSettings:
    """A workflow.

    Attributes:
        name: name of the pipeline; letters, digits, `_` and `-`, 128 at most.
        workspace: folder of runs, artifacts and metadata.
        data: see `DataSettings`; the other sections likewise.
    """

    name: Annotated[str, _NAME]
    workspace: Annotated[str, NOT_EMPTY] = dataclasses.field(metadata={"path": True})
    data: DataSettings
    model: ModelSettings
    train: TrainSettings = TrainSettings()
    evaluate: EvaluateSettings = EvaluateSettings()
    quantize: QuantizeSettings = QuantizeSettings()
    export: ExportSettings = ExportSettings()
    push: PushSettings = PushSettings()
    beam: BeamSettings = BeamSettings()
    kubeflow: KubeflowSettings = dataclasses.field(default_factory=KubeflowSettings)
    schedule: ScheduleSettings = dataclasses.field(default_factory=ScheduleSettings)

    @property
    def push_destination(self) -> str:
        """Where blessed versions go, the default filled in."""
        return self.push.destination or os.path.join(self.workspace, "pushed")
