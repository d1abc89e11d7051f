"""Settings of ExampleGen: the section `data` of the settings file."""

from typing import Annotated, Literal

import pydantic

from component_specs.example_gen import DEFAULT_SPLITS
from detection_core import allowed_values
from detection_core.errors import ConfigError
from detection_core.ops.tile_options import TileOptions
from pipeline.settings.setting_types import (
    MAPPING,
    NOT_EMPTY,
    NUMBER,
    TEXT,
    Path,
    Settings,
    Text,
    UnquotedText,
    between,
    by_kind,
    from_factory,
    matching,
)
from pipeline.settings.validation_errors import contradictions

Split = Annotated[
    Annotated[float, NUMBER] | Annotated[Text, TEXT] | Annotated[dict[Text, Text], MAPPING],
    by_kind("a number, a text or a mapping"),
]
RequiredPath = Annotated[Path, NOT_EMPTY]

_SPAN = matching(
    "latest|[0-9]{1,18}|[0-9]{4}-[0-9]{2}-[0-9]{2}", "latest, a number or a date like 2026-11-21"
)


def _registered_format(value: object, check: pydantic.ValidatorFunctionWrapHandler) -> object:
    """Accept a format that was registered from outside the package."""
    from detection_core.datasets.readers import READERS

    return value if isinstance(value, str) and value in READERS else check(value)


Format = Annotated[
    Literal["auto", allowed_values.AnnotationFormat], pydantic.WrapValidator(_registered_format)
]


class TileSettings(Settings):
    """Tiles, for images with small objects."""

    size: Annotated[int, between(0, 16_384)] = 0
    overlap: Annotated[float, between(0, 0.9)] = TileOptions.overlap
    min_visibility: Annotated[float, between(0, 1)] = TileOptions.min_visibility

    def parameters(self) -> dict[str, float]:
        """Return the fields as the steps take them; empty without tiles."""
        return self.model_dump() if self.size else {}


class DataSettings(Settings):
    """Input of ExampleGen."""

    path: RequiredPath
    format: Format = "auto"
    splits: dict[Text, Split] = from_factory(lambda: dict(DEFAULT_SPLITS))
    span: Annotated[UnquotedText, _SPAN] = "latest"
    window: Annotated[int, between(1, 100_000)] = 1
    eval_window: Annotated[int, between(1, 100_000)] = 1
    span_ready_file: Text = ""
    label_map: Path = ""
    quarantine_limit: Annotated[float, between(0, 1)] = 0.01
    decode_images: allowed_values.DecodeImages = "sample"
    exif_annotations: allowed_values.ExifAnnotations = "upright"
    unannotated_images: allowed_values.UnannotatedImages = "auto"
    tiles: TileSettings = TileSettings()
    shard_examples: Annotated[int, between(1, 10_000_000)] = 1000
    compression: Literal["", "GZIP"] = ""
    shards_uri: Path = ""

    @pydantic.field_validator("splits")
    @classmethod
    def _check_splits(cls, splits: dict[str, Split]) -> dict[str, Split]:
        from detection_core.datasets.layouts import check_splits

        try:
            check_splits(splits)
        except ConfigError as error:
            raise contradictions([("", error.message)]) from error
        return splits
