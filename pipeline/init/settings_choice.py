"""Entries of a first workflow's settings file, with reasons."""

import os
import re
from collections.abc import Iterator, Mapping
from typing import Any

from detection_core.artifacts.evaluation import MAP_50, SHAPE_MAP_50
from detection_core.datasets.image_files import LEAVE_OUT
from detection_core.datasets.layout_search import YAML
from detection_core.datasets.layouts import Layout
from detection_core.datasets.survey import Survey
from detection_core.errors import DataError
from detection_core.zoo.fine_tuning import Choice
from pipeline.init.training_choice import MOST_OBJECTS, VALIDATION

_DECODE_ALL = 5_000  # images that are decoded in a minute or two
_LEARNT_NOTHING = 0.05
_MOST_DETECTIONS = 100
_RATIOS: tuple[Mapping[str, float], ...] = (
    {"train": 0.8, "eval": 0.1, "test": 0.1},
    {"train": 0.8, "eval": 0.2},
    {"train": 0.7, "eval": 0.3},
    {"train": 0.5, "eval": 0.5},
)
_LEAST_HELD_OUT = 40  # minimum images of an evaluation split
_HELD_OUT_PART = 10  # at least one image in this number is held out
_SHARDS = 8


def pipeline_name(folder: str) -> str:
    """Return the pipeline's name: the folder's name, reduced to allowed characters."""
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", os.path.basename(folder.rstrip("/")))[:60].strip("-_")
    return name if name and name[0].isalnum() else f"detector-{name}".strip("-")


def name_of_data(data: str) -> str:
    """Return the path that names a workflow: for a data.yaml, that of its folder."""
    bare, suffix = os.path.splitext(data)
    return os.path.dirname(data) if suffix.lower() in YAML else bare if suffix.lower() == ".zip" else data


def choose_ratios(seen: Survey) -> tuple[dict[str, float], str]:
    """Return split ratios for data without splits, and why; DataError for fewer images than splits."""
    for ratios in _RATIOS:
        counts = {name: seen.count(name, ratios) for name in ratios}
        least = min(seen.count_annotated(name, ratios) for name in ratios)
        if least >= (_LEAST_HELD_OUT if "test" in ratios else 1 + seen.images // _HELD_OUT_PART):
            break
    else:
        raise DataError(
            f"expected images for training and for measuring, found {seen.images:,}; annotate more, or divide"
            " them by hand, into folders train and val"
        )
    text = ", ".join(f"{count:,} {name}" for name, count in counts.items())
    return dict(ratios), (
        f"the set comes in one piece: divided by a hash of each image's name ({text}), so that an image stays"
        " in its split when others are added"
    )


def data_choices(
    layout: Layout, splits: Mapping[str, Any], why_splits: str, seen: Survey
) -> Iterator[Choice]:
    """Yield the section `data`."""
    yield _choice("data.path", layout.path, "")
    yield _choice("data.format", layout.format, layout.evidence)
    yield _choice("data.splits", dict(splits), why_splits)
    limit, reason = 0.01, ""
    if seen.images < 1_000:
        limit, reason = 0.05, f"of {seen.images:,} images a few broken ones are more than a hundredth"
    if sum(seen.rejected.values()):
        found = ", ".join(f"{count:,} {name}" for name, count in seen.rejected.items())
        reason = "; ".join(filter(None, (reason, f"found so far: {found}")))
    if reason:
        yield _choice("data.quarantine_limit", limit, reason)
    if seen.unannotated:
        yield _choice(
            "data.unannotated_images",
            LEAVE_OUT,
            f"nobody has annotated {seen.unannotated:,} of the images; `background` if they show nothing",
        )
    if seen.images <= _DECODE_ALL:
        yield _choice(
            "data.decode_images",
            "all",
            f"{seen.images:,} images are soon decoded, which finds damage that a header does not show",
        )
    if seen.images < 1_000 * _SHARDS:
        shard = max(20, -(-seen.images // _SHARDS))
        yield _choice("data.shard_examples", shard, "some shards, so that training can mix them")


def evaluate_choices(
    splits: Mapping[str, int], *, quantized: bool = True, finds: str = "boxes"
) -> Iterator[Choice]:
    """Yield the section `evaluate`, given the number of images of each split and what the network finds."""
    split = "test" if splits.get("test") else "eval"
    why = "nothing is chosen by looking at it" if split == "test" else "there is no split test"
    images = splits.get(split, 0)
    metrics = [MAP_50, *(name for what, name in SHAPE_MAP_50.items() if what == finds)]
    margin = 0.03 if images < 200 else 0.01 if images < 2_000 else 0.005
    yield _choice("evaluate.split", split, why)
    yield _choice(
        "evaluate.thresholds",
        {metric: {"lower_bound": _LEARNT_NOTHING, "min_change": -margin} for metric in metrics},
        "refuses a detector that has learnt nothing, or that is worse than the published one beyond"
        f" chance on {images:,} images; raise lower_bound to what your use needs",
    )
    if quantized:
        bounds = {metric: {"min_change": -max(margin, 0.02)} for metric in metrics}
        yield _choice("evaluate.quantized_thresholds", bounds, "")


def quantize_choices(steps: int, schedule: Choice) -> Iterator[Choice]:
    """Yield the section `quantize`, given steps and schedule of the float training."""
    short, rate = max(100, steps // 10), schedule.value["learning_rate_base"]
    cosine = {
        "learning_rate_base": float(f"{rate / 20:.4g}"),
        "total_steps": short,
        "warmup_learning_rate": float(f"{rate / 80:.4g}"),
        "warmup_steps": max(1, short // 10),
    }
    yield _choice(
        "quantize.overrides",
        {
            "train_config.num_steps": short,
            f"{VALIDATION}.every_steps": short // 10,
            **{f"{schedule.path}.{name}": value for name, value in cosine.items()},
        },
        "trained weights only settle on the integer grid: a tenth of the steps, a twentieth of the rate",
    )


def export_choices(seen: Survey, images: int) -> Iterator[Choice]:
    """Yield the section `export`, given the number of images to evaluate the files on."""
    if seen.most_objects > _MOST_DETECTIONS:
        yield _choice(
            "export.max_detections",
            min(10 * -(-seen.most_objects // 10), MOST_OBJECTS),
            f"the fullest picture has {seen.most_objects:,} objects",
        )
    yield _choice(
        "export.max_map_drop",
        0.03 if images < 500 else 0.02,
        f"accuracy that a file may lose; smaller differences are chance on {images:,} images",
    )


def _choice(path: str, value: Any, reason: str) -> Choice:
    return Choice(path=path, value=value, reason=reason)
