"""The summary that `detflow init` prints, in ten lines."""

from collections.abc import Iterator
from typing import Any

from detection_core.datasets.classes import similar_names
from detection_core.detectors.family import family_of
from detection_core.errors import one_line
from pipeline.init.hardware import Measured
from pipeline.init.network_choice import FEW_BOXES
from pipeline.init.plan import Plan

_NAMED_CLASSES = 4


def summary_data(plan: Plan) -> dict[str, Any]:
    """Return the summary for programs: counts as numbers, names as lists."""
    seen, chosen = plan.seen, plan.network
    splits = plan.value("data.splits")
    return {
        "format": plan.layouts[0].format,
        "evidence": plan.layouts[0].evidence,
        "other_formats": [other.format for other in plan.layouts[1:]],
        "splits": {name: seen.count(name, splits) for name in splits},
        "images": seen.images,
        "images_without_objects": seen.empty_images,
        "images_without_annotations": seen.unannotated,
        "objects": seen.objects,
        "most_objects": seen.most_objects,
        "masks": seen.masks,
        "keypoints": dict(seen.keypoints),
        "classes": dict(seen.classes),
        "network": chosen.network.name,
        "parameters": chosen.network.parameters,
        "multiply_adds": _multiply_adds(plan),
        "input": list(chosen.size),
        "matched_boxes": chosen.anchors and round(chosen.anchors.fitted, 4),
        "steps": plan.value("train_config.num_steps"),
        "batch_size": plan.value("train_config.batch_size"),
        "published_weights": plan.weights.found,
        "rejected": dict(seen.rejected),
        "similar_classes": similar_names(seen.classes),
        "opened_images": seen.opened,
        "unreadable_images": len(seen.unreadable),
    }


def measured_text(found: Measured) -> str:
    """Format measurements for users."""
    return (
        f"{found.parameters:,} parameters, {found.multiply_adds:,} multiply-adds,"
        f" {found.milliseconds:.0f} ms an image on this machine, in TensorFlow"
    )


def _multiply_adds(plan: Plan) -> int:
    rows, columns = plan.network.size
    return round(plan.network.network.multiply_adds * rows * columns / plan.network.network.side**2)


def summary_rows(plan: Plan) -> Iterator[tuple[str, str]]:
    """Yield the ten lines as (name, text)."""
    seen, chosen, layout = plan.seen, plan.network, plan.layouts[0]
    others = [f"{other.format} ({other.evidence})" for other in plan.layouts[1:]]
    yield "format", f"{layout.format}: {layout.evidence}" + (f"; also {'; '.join(others)}" if others else "")
    splits = plan.value("data.splits")
    yield "splits", ", ".join(f"{name} {seen.count(name, splits):,}" for name in splits)
    yield "images", _images(plan)
    named = [f"{one_line(name, 40)} {count:,}" for name, count in list(seen.classes.items())[:_NAMED_CLASSES]]
    more = f", ... {len(seen.classes):,} classes in all" if len(seen.classes) > _NAMED_CLASSES else ""
    yield (
        "objects",
        f"{seen.objects:,}, at most {seen.most_objects:,} an image: {', '.join(named)}{more}{_shapes(plan)}",
    )
    yield (
        "network",
        f"{chosen.network.name}: about {chosen.network.parameters / 1e6:.1f} million parameters,"
        f" {_multiply_adds(plan) / 1e9:.2f} billion multiply-adds an image",
    )
    yield "input", f"{chosen.size[0]} x {chosen.size[1]} (rows x columns)"
    yield "anchors", _anchors(plan)
    steps, batch = plan.value("train_config.num_steps"), plan.value("train_config.batch_size")
    yield "training", f"{steps:,} steps of {batch} images on {plan.hardware.text}"
    remedy = "; settings.yaml says how to get them" if plan.weights.remedy else ""
    scratch = f"from scratch, as {plan.weights.reason}{remedy}"
    yield "weights", plan.weights.reason if plan.weights.found else scratch
    yield "problems", _problems(plan)


def _shapes(plan: Plan) -> str:
    """Say what the network learns besides boxes, or leaves out."""
    found = {"masks": plan.seen.masks, "keypoints": sum(plan.seen.keypoints.values())}
    finds = plan.network.network.kind.finds
    text = "".join(f"; {count:,} with {name}" for name, count in found.items() if count)
    learnt = f"; the network finds {finds}" if text else ""
    return text + learnt + ("; one of boxes, by --model, is smaller" if finds != "boxes" else "")


def _images(plan: Plan) -> str:
    seen = plan.seen
    text = f"{seen.images:,}, {seen.empty_images:,} without objects"
    if seen.unannotated:
        text += f", and {seen.unannotated:,} without annotations, which are left out"
    if not len(seen.sizes):
        return text
    low, high = seen.sizes.min(axis=0), seen.sizes.max(axis=0)
    sizes = f"{low[1]} x {low[0]}" + (f" to {high[1]} x {high[0]}" if (low != high).any() else "")
    looked_at = f" ({len(seen.sizes):,} were looked at)" if len(seen.sizes) < seen.images else ""
    return f"{text}; {sizes} pixels{looked_at}"


def _anchors(plan: Plan) -> str:
    fit = plan.network.anchors
    fixed = family_of(plan.network.config.model).anchors is not None
    if fit is None and (not fixed or len(plan.seen.boxes) >= FEW_BOXES):
        return "none that are fitted to the boxes"
    if fit is None:
        return f"the network's own, as {len(plan.seen.boxes):,} boxes are too few to fit them to"
    was = f"; the network's own match {fit.default:.1%}" if fit.overrides else ", the network's own"
    return f"match {fit.fitted:.1%} of the boxes at IoU 0.5{was}"


def _problems(plan: Plan) -> str:
    seen = plan.seen
    found = [f"{count:,} {reason}" for reason, count in seen.rejected.items()]
    unused = [one_line(name, 40) for name, count in seen.classes.items() if not count]
    if unused:
        more = f" and {len(unused) - _NAMED_CLASSES:,} more" if len(unused) > _NAMED_CLASSES else ""
        found.append(f"no object of {', '.join(unused[:_NAMED_CLASSES])}{more}")
    for names in similar_names(seen.classes)[:_NAMED_CLASSES]:
        alike = ", ".join(repr(one_line(name, 40)) for name in names[:_NAMED_CLASSES])
        found.append(f"classes whose names differ only in case or blanks: {alike}")
    if seen.unreadable:
        share = f"{len(seen.unreadable):,} of {seen.opened:,} image files that were opened"
        found.append(f"{share} cannot be read, such as {one_line(seen.unreadable[0], 160)}")
    return "; ".join(found) or "none so far; `detflow run` checks every file"
