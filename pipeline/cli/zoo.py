"""Verbs on published detectors: list, show, get."""

import argparse
from typing import TYPE_CHECKING, Any

from pipeline.cli.base import Group, Result, verb
from pipeline.tables import Page, Table

if TYPE_CHECKING:
    from detection_core.zoo.networks import PublishedModel

_HEADER = ("name", "finds", "input", "COCO mAP", "published ms", "parameters", "size", "speed", "here")
_FACTS = (
    "name title extractor side coco_map shape_map published_ms parameters speed licence size_class archive"
    " address config"
)


@verb("detflow zoo list --speed fast", name="list")
def list_models(arguments: argparse.Namespace) -> Result:
    """List the detectors of the TensorFlow 2 model zoo that are built here, fastest first."""
    from detection_core.zoo.cache import has_model
    from detection_core.zoo.networks import PAGE
    from detection_core.zoo.networks import list_models as published

    models = sorted(published(), key=lambda model: model.published_ms)
    if arguments.speed:
        models = [model for model in models if model.speed == arguments.speed]
    rows = [_row(model, has_model(model)) for model in models]
    note = f"\nTrained on COCO 2017, Apache-2.0; times and mAP are those of {PAGE}"
    return Result(text=Page((Table((_HEADER, *rows)), note)), data=[_facts(model) for model in models])


def _row(model: "PublishedModel", is_here: bool) -> tuple[str, ...]:
    return (
        model.name,
        model.kind.finds,
        f"{model.side} x {model.side}",
        _coco_map(model),
        f"{model.published_ms}",
        f"{model.parameters / 1e6:.1f} M",
        model.size_class,
        model.speed,
        "yes" if is_here else "-",
    )


def _coco_map(model: "PublishedModel") -> str:
    """Return the mAP of boxes, and of what a detector finds beside them."""
    found = [model.coco_map] if model.shape_map is None else [model.coco_map, model.shape_map]
    return " / ".join("-" if value is None else f"{value:.1f}" for value in found)


def _facts(model: "PublishedModel") -> dict[str, Any]:
    facts = {"input_side" if name == "side" else name: getattr(model, name) for name in _FACTS.split()}
    return facts | {"finds": model.kind.finds}


@verb("detflow zoo show ssd_mobilenet_v2_fpnlite_320x320_coco17_tpu-8")
def show(arguments: argparse.Namespace) -> Result:
    """Show input, published mAP, size, licence and address of a detector."""
    from detection_core.zoo.cache import find_model_files, published_archive
    from detection_core.zoo.networks import find_model

    model = find_model(arguments.name)
    found = find_model_files(model)
    where = found.folder if found else f"not here; it is going to be {published_archive(model).path}"
    rows = (
        ("name", model.name),
        ("title", model.title),
        ("network", f"{model.extractor}, {model.side} x {model.side}"),
        ("parameters", f"{model.parameters:,} ({model.size_class})"),
        ("finds", model.kind.finds),
        ("COCO mAP", f"{_coco_map(model)}, as published"),
        ("time", f"{model.published_ms} ms an image, as published ({model.speed} here)"),
        ("licence", model.licence),
        ("address", model.address),
        ("config", model.config or "only the one in the archive"),
        ("on this machine", where),
        ("to start from it", f"train: {{start_from: zoo:{model.name}}}"),
    )
    data = _facts(model) | {"folder": found.folder if found else None}
    return Result(text=Table(rows, header=False), data=data)


@verb("detflow zoo get ssd_mobilenet_v2_fpnlite_320x320_coco17_tpu-8")
def get(arguments: argparse.Namespace) -> Result:
    """Fetch a detector into the cache that all runs share; an interrupted download resumes."""
    from detection_core.zoo.cache import fetch_model
    from detection_core.zoo.networks import find_model
    from detection_core.zoo.starting_points import fetch_start, is_named

    if is_named(arguments.name):
        path = fetch_start(arguments.name, mirror=arguments.mirror).path
        return Result(text=f"weights: {path}", data={"weights": path})
    found = fetch_model(find_model(arguments.name), mirror=arguments.mirror)
    lines = [f"checkpoint: {found.checkpoint}", f"config: {found.config}"]
    data = {"checkpoint": found.checkpoint, "config": found.config, "folder": found.folder}
    return Result(text="\n".join(lines), data=data)


GROUP = Group(
    name="zoo",
    summary="Published detectors to start from: list them, show one, fetch one.",
    default="list",
    verbs=(list_models, show, get),
)
