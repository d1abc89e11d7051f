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
    matching,
    setting,
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

    size: Annotated[int, between(0, 16_384)] = setting(
        0,
        "Side of a tile, usually that of the network's input. ExampleGen cuts the training images after the"
        " split, and keeps the whole images too. Evaluator measures whole images, in which it detects in the"
        " tiles and in the whole. 0: no tiles.",
        unit="pixels",
    )
    overlap: Annotated[float, between(0, 0.9)] = setting(
        TileOptions.overlap,
        "Fraction of a tile that neighbouring tiles share: as large as the largest object that the whole"
        " image is too small to show.",
    )
    min_visibility: Annotated[float, between(0, 1)] = setting(
        TileOptions.min_visibility,
        "Fraction of a box inside a tile from which its visible part is a training object. Below it,"
        " training ignores the part.",
    )

    def parameters(self) -> dict[str, float]:
        """Return the fields as the steps take them; empty without tiles."""
        return self.model_dump() if self.size else {}


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
        "The newest span to read: `latest`, a number or a date. Used if `data.path` or a location in"
        " `data.splits` contains `{SPAN}` or `{YYYY}`, `{MM}`, `{DD}`; see [spans](kubeflow.md#spans).",
        examples=["latest", "3", "2026-11-21"],
    )
    window: Annotated[int, between(1, 100_000)] = setting(
        1, "Number of spans to train on, up to `data.span`.", unit="spans"
    )
    eval_window: Annotated[int, between(1, 100_000)] = setting(
        1, "Number of the newest of these spans that other splits are taken from.", unit="spans"
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
    decode_images: allowed_values.DecodeImages = setting(
        "sample",
        "Which images ExampleGen decodes to check them. `sample`: one in a thousand of each split, at"
        " least 16, with Pillow. `all`: every image, with Pillow and TensorFlow, whose pixels are"
        " compared. `none`: no image. See [own data](own-data.md#what-is-checked).",
    )
    exif_annotations: allowed_values.ExifAnnotations = setting(
        "upright",
        "How boxes were drawn if the EXIF orientation turns an image. `upright`: on the picture as viewers"
        " show it. `stored`: on the pixels as the file stores them. Used only if the size in the"
        " annotation does not decide; see [own data](own-data.md#images-of-every-kind).",
    )
    unannotated_images: allowed_values.UnannotatedImages = setting(
        "auto",
        "Use of images that no annotation names. `background`: as images without objects. `leave_out`:"
        " counted, but not used. `auto`: `background` in YOLO, `leave_out` in other formats.",
    )
    tiles: TileSettings = setting(
        TileSettings(), "Tiles, for images with [small objects](own-data.md#small-objects)."
    )
    shard_examples: Annotated[int, between(1, 10_000_000)] = setting(
        1000, "Approximate number of examples in a shard.", unit="examples"
    )
    compression: Literal["", "GZIP"] = setting("", "`GZIP` writes compressed shards, ten times slower.")
    shards_uri: Path = setting(
        "",
        "Folder for the shards, usually on an object store. The artifact then holds a list of them, and"
        " every step reads them from there; see [large data](own-data.md#shards-outside-the-artifact).",
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
