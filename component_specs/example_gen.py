"""Contract of ExampleGen."""

import dataclasses
import re
from collections.abc import Mapping
from typing import Annotated

from component_specs.annotations import EXAMPLES, Output
from component_specs.codecs import JsonFields, JsonList, JsonObject

TRAIN = "train"
_DATE_TEXT = re.compile(r"\d{4}-\d\d-\d\d")

Splits = Mapping[str, float | str | Mapping[str, str]]
"""Split name to its fraction of the images, or to the location of its annotations."""
DEFAULT_SPLITS: Splits = {"train": 0.8, "eval": 0.1, "test": 0.1}
SPLITS = JsonObject(example='{"train": 0.8, "eval": 0.2}')

Tiles = Mapping[str, float]
"""Fields of `detection_core.ops.tile_options.TileOptions`; empty: whole images only."""
BEAM_ARGS = JsonList(example='["--runner=FlinkRunner"]')
TILES = JsonObject(example='{"size": 640, "overlap": 0.2, "min_visibility": 0.3}')


@dataclasses.dataclass(frozen=True, kw_only=True)
class Spans:
    """The spans to read; all empty for data without spans.

    Attributes:
        train: numbers or dates of the split `train`, as text, oldest first.
        evaluate: likewise for every other split.
    """

    train: tuple[str, ...] = ()
    evaluate: tuple[str, ...] = ()

    def of(self, split: str) -> tuple[str, ...]:
        """Return the spans of a split."""
        return self.train if split == TRAIN else self.evaluate

    def all(self) -> tuple[str, ...]:
        """Return every span that is read, oldest first: one window is always the end of the other."""
        return max(self.train, self.evaluate, key=len)


def span_order(span: str) -> tuple[int, str]:
    """Return the sort key of a span: numbers by value, dates as text; (0, "") for no span."""
    if re.fullmatch("[0-9]{1,18}", span):
        return int(span) + 1, ""
    return (0, span) if _DATE_TEXT.fullmatch(span) else (0, "")


SPANS = JsonFields(type=Spans, example='{"train": ["1", "2"], "evaluate": ["2"]}')


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExampleGenJob:
    """Turn images and annotations into sharded tf.Example records.

    The examples artifact holds `Split-NAME/examples-00000-of-00004.tfrecord`, `label_map.pbtxt`,
    `dataset_card.json` and `quarantine.jsonl`.
    """

    examples: Annotated[str, Output(EXAMPLES)]
    data_path: str
    data_format: str = "auto"
    splits: Annotated[Splits, SPLITS] = dataclasses.field(default_factory=lambda: dict(DEFAULT_SPLITS))
    label_map: str = ""
    quarantine_limit: float = 0.01
    decode_images: str = "sample"
    exif_annotations: str = "upright"
    tiles: Annotated[Tiles, TILES] = dataclasses.field(default_factory=dict)
    unannotated_images: str = "auto"
    shard_examples: int = 1000
    compression: str = ""
    shards_uri: str = ""
    data_fingerprint: str = ""
    spans: Annotated[Spans, SPANS] = Spans()
    code_version: str = ""
    beam_args: Annotated[tuple[str, ...], BEAM_ARGS] = ()
