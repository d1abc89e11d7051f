"""The label map: given, or made from the categories of all splits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from detection_core.data.label_map import LabelMap, LabelMapItem, label_map_from_names
from detection_core.errors import DataError


def make_label_map(categories: Iterable[Mapping[str, int]], refused: str = "") -> LabelMap:
    """Make one label map from the categories of the splits.

    Ids that a source gives are kept, as the Object Detection API does. Classes without ids are numbered from
    1 in alphabetical order, which does not depend on the file that comes first.

    Args:
        categories: of each split, class name to id, or to 0 where the source gives none.
        refused: what is wrong with the first annotation that cannot be used; "" where all can.

    Raises:
        DataError: when the splits disagree about an id, or there is no class at all.
    """
    merged: dict[str, int] = {}
    for split in categories:
        for name, number in split.items():
            if merged.setdefault(name, number) != number:
                raise DataError(
                    f"expected one id for the category {name!r}, found {merged[name]} and {number} "
                    "in two splits or spans; make the category lists of the annotation files equal"
                )
    if not merged:
        cause = f", and one that cannot be used: {refused}" if refused else ""
        raise DataError(
            f"expected annotated objects or a list of categories, found none{cause}; check data.path"
        )
    if 0 in merged.values():
        return label_map_from_names(sorted(merged))
    names = {number: name for name, number in merged.items()}
    if len(names) < len(merged):
        shared = sorted(name for name, number in merged.items() if names[number] != name)
        raise DataError(
            f"expected one category for each id, found ids used twice, such as that of {shared[0]!r}; "
            "make the category lists of the annotation files equal"
        )
    return LabelMap(items=tuple(LabelMapItem(id=number, name=names[number]) for number in sorted(names)))


def similar_names(names: Iterable[str]) -> list[list[str]]:
    """Return the names that differ only in case or blanks, those that are alike together."""
    alike: dict[str, list[str]] = {}
    for name in sorted(set(names)):
        alike.setdefault("".join(name.split()).casefold(), []).append(name)
    return [group for group in alike.values() if len(group) > 1]
