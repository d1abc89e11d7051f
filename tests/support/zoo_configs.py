"""The model zoo's configurations, some whole and the others by what differs, and facts of one-stage ones."""

import dataclasses
import functools
import json
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from detection_core.config.check import find_problems, find_refused
from detection_core.config.load import load_pipeline_config, parse_pipeline_config
from detection_core.config.messages.pipeline import tflite_problems
from detection_core.config.paths.overrides import apply_overrides
from detection_core.config.pipeline_config import PipelineConfig
from detection_core.detectors.family import family_name
from detection_core.errors import Problem
from detection_core.protos.pipeline_pb2 import TrainEvalPipelineConfig
from detection_core.zoo.networks import PublishedModel, find_kind, list_models

FOLDER = Path(__file__).parents[1] / "detection_core" / "config" / "data" / "zoo"
_RECORDS = json.loads((FOLDER / "zoo.json").read_text(encoding="utf-8"))
ZOO = tuple(_RECORDS)
# All of the zoo's folder: a config of `ZOO` or of the families' goldens, and what differs from it.
FOLDER_CONFIGS = json.loads((FOLDER / "published.json").read_text(encoding="utf-8"))


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
    counts = {name: record[name] for name in ("parameters", "trained", "anchors")}
    levels = tuple(tuple(level) for level in record["levels"])
    return ZooFacts(input_size=tuple(record["input"]), levels=levels, **counts)


def golden_name(name: str) -> str | None:
    """What the reference configurations call a published detector; None where there is none of it."""
    known = [golden for golden in ZOO if name.startswith(golden)]
    if known:
        return known[0]
    version = re.match(r"efficientdet_(d\d)_", name)
    return next((golden for golden in ZOO if version and f"_{version[1]}_" in golden), None)


def folder_config(name: str) -> TrainEvalPipelineConfig:
    """The config of a name in the zoo's folder of configs; not to be changed."""
    record = FOLDER_CONFIGS[name]
    like = record["like"]
    if like in ZOO:
        config = zoo_config(like)
    else:
        facts = np.load(FOLDER.parents[2] / "families" / "data" / f"{like}.npz")["facts"]
        config = parse_pipeline_config(json.loads(facts.tobytes())["config"])
    return apply_overrides(config, record["changes"])


def published_config(model: PublishedModel) -> PipelineConfig | None:
    """The published configuration of a detector; None where the zoo's folder has none."""
    name = model.config.rpartition("/")[2].removesuffix(".config")
    return folder_config(name) if name in FOLDER_CONFIGS else None


def config_problems(config: TrainEvalPipelineConfig) -> list[Problem]:
    """What a check of a config finds, unbuilt features first."""
    return [*find_refused(config), *find_problems(config)]


def config_rows() -> Iterator[tuple[str, str, str, str, str]]:
    """Each config of the zoo's folder: name, family, archive, TensorFlow Lite, why it is refused."""
    archives = {model.config.rpartition("/")[2]: model for model in list_models() if model.config}
    for name in FOLDER_CONFIGS:
        config, model = folder_config(name), archives.get(f"{name}.config")
        obstacles = [problem.path.rpartition(".")[2] for problem in tflite_problems(config)]
        lite = "yes" if not obstacles else "fixed_shape_resizer" if obstacles == ["image_resizer"] else "no"
        problems = config_problems(config)
        yield (
            name,
            family_name(config.model),
            model.archive if model else "",
            "" if problems else lite,
            # Without what is expected and found, which the path says.
            f"`{problems[0].path}`: {problems[0].message.rpartition('}: ')[2]}" if problems else "",
        )


def edge_config(
    extractor: str, *, side: int = 320, classes: int = 90, multiplier: float = 1.0
) -> PipelineConfig:
    """Return the config of an extractor; 320 pixels, 90 classes and a multiplier of 1 are as published."""
    given = {"overrides": str("mobiledet" not in extractor).lower(), "depth_multiplier": str(multiplier)}
    text = find_kind("ssdlite").fill(classes, extractor=extractor, height=side, width=side, **given)
    return parse_pipeline_config(text)
