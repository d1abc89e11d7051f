"""What the objects have besides boxes, and the fields of a config that follow from their keypoints."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from detection_core.datasets.survey import Survey
from detection_core.errors import ConfigError
from detection_core.zoo.fine_tuning import FLIPS, Choice
from detection_core.zoo.networks import Finding, Network

_SIDES = {"left": "right", "right": "left", "l": "r", "r": "l"}


def found_shapes(seen: Survey) -> tuple[Finding, str]:
    """Return what a detector of the data should find, and why; keypoints come before masks."""
    name = keypoint_class(seen)
    if 2 * seen.keypoints.get(name, 0) > seen.classes.get(name, 0):
        return "keypoints", f"{seen.keypoints[name]:,} objects of {name[:40]} have keypoints"
    if 2 * seen.masks > seen.objects:
        return "masks", f"{seen.masks:,} of {seen.objects:,} objects have masks"
    return "boxes", ""


def check_shapes(network: Network, seen: Survey) -> None:
    """Refuse a network for masks or keypoints that the data lack.

    Raises:
        ConfigError: naming the network.
    """
    available = {"boxes": True, "masks": seen.masks, "keypoints": sum(seen.keypoints.values())}
    if not available[network.kind.finds]:
        text = f"expected objects with {network.kind.finds} for {network.name}, found none"
        raise ConfigError(f"{text}; choose a network of boxes", where="--model")


def keypoint_class(seen: Survey) -> str:
    """Return the class with the most objects with keypoints; "" if no class has any."""
    return max(seen.keypoints, key=lambda name: seen.keypoints[name], default="")


def keypoint_choices(network: Network, seen: Survey) -> Iterator[Choice]:
    """Yield the class whose keypoints a network learns, and their number in records."""
    if not network.kind.keypoint_class:
        return
    name = keypoint_class(seen)
    names = seen.keypoint_names[name]
    reason = f"{seen.keypoints[name]:,} objects have keypoints: {', '.join(names)[:200]}"
    yield Choice(path=network.kind.keypoint_class, value=name, reason=reason, source="the data")
    for reader in ("train_input_reader", "eval_input_reader[0]"):
        yield Choice(path=f"{reader}.num_keypoints", value=len(_in_records(seen)))


def network_text(network: Network, seen: Survey) -> str:
    """Return the config of a network, without the deviations of COCO's keypoints if the data have others."""
    text = network.text()
    names = seen.keypoint_names.get(keypoint_class(seen), ())
    known = all(f'"{name}"' in text for name in names) and text.count("key:") == len(names)
    return text if known else network.text(deviations="")


def choose_flips(network: Network, seen: Survey) -> Sequence[Mapping[str, Any]]:
    """Return flips that swap left and right keypoints; none if the names do not tell which these are."""
    if not network.kind.keypoint_class:
        return FLIPS
    names = _in_records(seen)
    mirrored = [_mirrored(name) for name in names]
    if mirrored == names or set(mirrored) != set(names):
        return ()
    permutation = [names.index(name) for name in mirrored]
    return ({"random_horizontal_flip": {"keypoint_flip_permutation": permutation}},)


def _in_records(seen: Survey) -> list[str]:
    """Return the names of all keypoints, in the order of `datasets.classes.make_layout`."""
    return list(dict.fromkeys(name for names in seen.keypoint_names.values() for name in names))


def _mirrored(name: str) -> str:
    for separator in ("_", "-", " "):
        words = [_SIDES.get(word.lower(), word) for word in name.split(separator)]
        if separator.join(words) != name:
            return separator.join(words)
    return name
