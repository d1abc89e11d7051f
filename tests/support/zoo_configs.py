"""The model zoo's one-stage configurations, four whole and the others by what differs, with their facts."""

import dataclasses
import functools
import json
import re
from pathlib import Path

import numpy as np

from detection_core.config.load import load_pipeline_config, parse_pipeline_config
from detection_core.config.paths.overrides import apply_overrides
from detection_core.config.pipeline_config import PipelineConfig
from detection_core.protos.pipeline_pb2 import TrainEvalPipelineConfig
from detection_core.zoo.networks import PublishedModel, find_kind

FOLDER = Path(__file__).parents[1] / "detection_core" / "config" / "data" / "zoo"
_RECORDS = json.loads((FOLDER / "zoo.json").read_text(encoding="utf-8"))
ZOO = tuple(_RECORDS)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ZooFacts:
    """What the Object Detection API makes of a configuration."""

    input_size: tuple[int, int]  # rows and columns of the network input
    parameters: int  # numbers in all variables of the network
    trained: int  # of them, those that training changes
    anchors: int  # boxes predicted for one image
    levels: tuple[tuple[int, int], ...]  # rows and columns of the feature maps


@functools.cache
def zoo_config(name: str) -> TrainEvalPipelineConfig:
    """One of `ZOO`; not to be changed."""
    record = _RECORDS[name]
    return apply_overrides(load_pipeline_config(str(FOLDER / f"{record['like']}.config")), record["changes"])


def zoo_facts(name: str) -> ZooFacts:
    record = _RECORDS[name]
    return ZooFacts(
        input_size=tuple(record["input"]),
        parameters=record["parameters"],
        trained=record["trained"],
        anchors=record["anchors"],
        levels=tuple(tuple(level) for level in record["levels"]),
    )


def golden_name(name: str) -> str | None:
    """What the reference configurations call a published detector; None where there is none of it."""
    known = [golden for golden in ZOO if name.startswith(golden)]
    if known:
        return known[0]
    version = re.match(r"efficientdet_(d\d)_", name)
    return next((golden for golden in ZOO if version and f"_{version[1]}_" in golden), None)


def published_config(model: PublishedModel) -> PipelineConfig | None:
    """The published configuration of a detector; None where none is kept here."""
    if golden := golden_name(model.name):
        return zoo_config(golden)
    families = FOLDER.parents[2] / "families" / "data"
    stem = re.sub(r"_coco17_[tg]pu-\d+\.config$", "", model.config.rpartition("/")[2])
    for path in (
        families / f"center_net/{stem.removeprefix('centernet_')}.npz",
        families / f"two_stage/{stem}.npz",
    ):
        if path.is_file():
            return parse_pipeline_config(json.loads(np.load(path)["facts"].tobytes())["config"])
    return None


def edge_config(
    extractor: str, *, side: int = 320, classes: int = 90, multiplier: float = 1.0
) -> PipelineConfig:
    """Return the config of an extractor; 320 pixels, 90 classes and a multiplier of 1 are as published."""
    text = find_kind("ssdlite").fill(
        classes,
        extractor=extractor,
        overrides=str("mobiledet" not in extractor).lower(),
        height=side,
        width=side,
        depth_multiplier=str(multiplier),
    )
    return parse_pipeline_config(text)
