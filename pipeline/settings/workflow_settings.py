"""Settings of a workflow: one model for each section of the settings file."""

import os
import warnings
from collections.abc import Iterator
from typing import Annotated, Literal, get_args

import pydantic

from component_specs import QuantizationRewriterJob, TFLiteExporterJob
from component_specs.run_checker import DEPLOYED
from detection_core import allowed_values
from detection_core.errors import ConfigError, shorten
from detection_core.storage import files
from detection_core.zoo.keras_backbones import IMAGENET
from detection_core.zoo.networks import find_model
from detection_core.zoo.starting_points import ZOO
from pipeline.settings.data_settings import DataSettings, RequiredPath
from pipeline.settings.kubeflow_settings import OBJECT_NAME_OR_NOTHING, KubeflowSettings
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
    from_factory,
    matching,
    rule_error,
)
from pipeline.settings.validation_errors import contradictions
from pipeline.settings.validation_settings import ValidationSettings

Bound = Literal["lower_bound", "upper_bound", "min_change", "confidence"]
Thresholds = dict[Text, Annotated[dict[Bound, float], NOT_EMPTY]]
Limit = Literal["size_mb", "latency_ms", "memory_mb"]
Event = Literal["failed", "refused", "published"]
FileLimits = Annotated[dict[Limit, Annotated[float, between(0.000_001, 1_000_000)]], NOT_EMPTY]
Limits = dict[allowed_values.FileFormat, FileLimits]
Overrides = dict[Text, Plain]
_Representative = Annotated[int, between(1, 100_000)]

_START = matching(rf"|{ZOO}[A-Za-z0-9_.-]+|{IMAGENET}", f"{ZOO}NAME or {IMAGENET}")
# Kubeflow Pipelines converts it to lower-case letters and hyphens. Its limit is 110, which `compile` checks.
_NAME = matching(
    "[A-Za-z0-9][A-Za-z0-9_-]*",
    "letters without accents, digits, _ and -, first a letter or digit, 128 at most",
    longest=128,
)
# MLflow refuses / and : in a registered model's name.
_MODEL = matching("[A-Za-z0-9 _.-]*", "letters without accents, digits, _, -, . and spaces", longest=128)
_SERVER = matching("(https?://.+)?", "an address that starts with http:// or https://")
_VARIABLE = matching("[A-Za-z_][A-Za-z0-9_]*|", "a variable's name", longest=253)


class ModelSettings(Settings):
    """The detector."""

    config: RequiredPath
    override_files: Paths = from_factory(list)
    overrides: Overrides = from_factory(dict)


class TrainSettings(Settings):
    """Training options."""

    warm_start: Annotated[Text, IsPath(words=(DEPLOYED, IMAGENET), prefixes=(ZOO,))] = ""
    start_from: Annotated[Text, _START] = ""
    weights_mirror: Path = ""
    overrides: Overrides = from_factory(dict)
    checkpoint_minutes: Annotated[float, between(0, 10_000)] = 5.0


class EvaluateSettings(Settings):
    """Thresholds for the blessing."""

    split: Text = "eval"
    thresholds: Thresholds = from_factory(lambda: {"DetectionBoxes_Precision/mAP": {"min_change": 0.0}})
    quantized_thresholds: Thresholds = from_factory(
        lambda: {"DetectionBoxes_Precision/mAP@.50IOU": {"min_change": -TFLiteExporterJob.max_map_drop}},
        unset=f"mAP@.50 may fall by {TFLiteExporterJob.max_map_drop:g}",
    )
    slices: Annotated[Text, IsPath(words=("image_size",))] = ""
    pictures: Annotated[int, between(-1, 100_000)] = -1
    distributed: bool = False


class QuantizeSettings(Settings):
    """Options of QuantizationRewriter, which runs if the config has a `graph_rewriter` block."""

    enabled: bool = True
    overrides: Overrides = from_factory(dict)
    representative_examples: _Representative = QuantizationRewriterJob.representative_examples
    distributed: bool = False


class ExportSettings(Settings):
    """TensorFlow Lite files to export, and their limits."""

    formats: Annotated[list[allowed_values.FileFormat], NOT_EMPTY, EACH_ONCE] = from_factory(
        lambda: ["float32", "int8"]
    )
    max_map_drop: Annotated[float, between(0, 1)] = TFLiteExporterJob.max_map_drop
    limits: Limits = from_factory(dict)
    max_detections: Annotated[int, between(1, 10_000)] = TFLiteExporterJob.max_detections
    use_regular_nms: bool = False
    form: allowed_values.TFLiteForm = "post_process"
    headless: bool = True
    representative_examples: _Representative = TFLiteExporterJob.representative_examples


# Nobody calls `register` of abc.ABCMeta on settings.
warnings.filterwarnings("ignore", 'Field name "register" in "PushSettings"')


class PushSettings(Settings):
    """Destination of blessed versions."""

    destination: Path = ""
    keep_versions: Annotated[int, between(0, 1_000_000)] = 5
    sign: Path = ""
    register: Annotated[Text, _MODEL] = ""
    registry: Annotated[Text, _SERVER] = ""


def _refuse_address(value: str) -> str:
    if "://" in value:
        raise rule_error("the variable that holds the address", found="an address, which is a secret")
    return value


class NotifySettings(Settings):
    """Notification of what became of a run, by a webhook. Its address is given by variable."""

    webhook_env: Annotated[Text, pydantic.AfterValidator(_refuse_address), _VARIABLE] = ""
    secret: Annotated[Text, OBJECT_NAME_OR_NOTHING] = ""
    kind: Literal["slack", "generic"] = "slack"
    events: Annotated[list[Event], NOT_EMPTY, EACH_ONCE] = from_factory(lambda: list(get_args(Event)))


class BeamSettings(Settings):
    """Options of Beam."""

    args: list[Annotated[Text, NOT_EMPTY]] = from_factory(list)


class PipelineSettings(Settings):
    """A workflow."""

    name: Annotated[Text, _NAME]
    workspace: RequiredPath
    data: DataSettings
    validation: ValidationSettings = ValidationSettings()
    model: ModelSettings
    train: TrainSettings = TrainSettings()
    evaluate: EvaluateSettings = EvaluateSettings()
    quantize: QuantizeSettings = QuantizeSettings()
    export: ExportSettings = ExportSettings()
    push: PushSettings = PushSettings()
    notify: NotifySettings = NotifySettings()
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
        if self.push.registry and not self.push.register:
            yield "push.registry", "expected push.register beside it, found none; name the registered model"
        elif self.push.registry and "://" not in self.push_destination:
            expected = (
                "expected an object store in push.destination, as MLflow's server takes no local folder"
            )
            yield "push.registry", f"{expected}, found {self.push_destination}"
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
        if self.push.sign and not files.exists(self.push.sign):
            yield "push.sign", f"no file {self.push.sign}; make a key, or check the path"
        folder = before_placeholder(before_pattern(self.data.path))
        if "://" not in folder and not os.path.isdir(folder):
            yield "data.path", f"no folder {folder}; give one with --set data.path=DIR"
