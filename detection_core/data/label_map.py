"""The classes of a data set: ids as in records and label map files, and display names."""

import collections
import dataclasses
import functools
from collections.abc import Sequence

from detection_core.errors import DataError

BACKGROUND = "background"
MAX_CLASS_ID = 100_000
"""Highest class id: a model has an output and a name for every id up to the highest."""
FREQUENCIES = ("UNSPECIFIED", "FREQUENT", "COMMON", "RARE")  # of classes in LVIS; index = stored value
LVIS_FREQUENCIES = {name[0].lower(): name for name in FREQUENCIES[1:]}
"""`frequency` of a category in LVIS's files to its entry of `FREQUENCIES`."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Keypoint:
    """A keypoint of a class: its index in records, and its name."""

    id: int
    label: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class LabelMapItem:
    """One class, or an additional name of a class.

    Attributes:
        id: 1 or more; 0 is reserved for the background.
        name: name as in the records' class texts; may be a code such as `/m/01g317`.
        display_name: readable name; empty: `name` is used.
        keypoints: keypoints of the class.
        ancestor_ids: ids of the classes above this one in a hierarchy.
        descendant_ids: ids of the classes below this one.
        frequency: one of `FREQUENCIES`.
        instance_count: number of training objects of the class; 0: unknown.
    """

    id: int
    name: str
    display_name: str = ""
    keypoints: tuple[Keypoint, ...] = ()
    ancestor_ids: tuple[int, ...] = ()
    descendant_ids: tuple[int, ...] = ()
    frequency: str = FREQUENCIES[0]
    instance_count: int = 0


@dataclasses.dataclass(frozen=True, kw_only=True)
class LabelMap:
    """All classes of a data set. A model's class c has id c + 1; ids may have gaps, as in COCO.

    Attributes:
        items: by rising id, without the background. Several items may share an id: names of one class.

    Raises:
        DataError: when an id is below 1 (the background may have 0), two ids share a name, or a name is
            missing.
    """

    items: tuple[LabelMapItem, ...]

    def __post_init__(self) -> None:
        ids: dict[str, int] = {}
        for item in self.items:
            _check_item(item)
            if item.name and ids.setdefault(item.name, item.id) != item.id:
                found = f"stands for id {ids[item.name]} and id {item.id}"
                raise DataError(f"the name {item.name!r} {found}; rename one")
        kept = (item for item in self.items if item.id > 0)
        object.__setattr__(self, "items", tuple(sorted(kept, key=lambda item: item.id)))

    @property
    def num_classes(self) -> int:
        """Number of classes that a model needs: the highest id, because gaps count."""
        return max((item.id for item in self.items), default=0)

    @functools.cached_property
    def names(self) -> list[str]:
        """Display name of every class: index c has id c + 1. A gap is named by its id.

        Names are unique, because metrics, cards and reports use them as keys. Classes that share a display
        name, as in Open Images, get their own name or id as a suffix.
        """
        names = [str(id_) for id_ in range(1, self.num_classes + 1)]
        own = [""] * self.num_classes
        for item in reversed(self.items):  # so that the first name of a class wins
            names[item.id - 1] = item.display_name or item.name
            own[item.id - 1] = item.name if item.display_name else ""
        shared = {name for name, count in collections.Counter(names).items() if count > 1}
        names = [f"{n} ({own[c]})" if n in shared and own[c] else n for c, n in enumerate(names)]
        while len(set(names)) < len(names):
            counts = collections.Counter(names)
            names = [n if counts[n] == 1 else f"{n} (id {c + 1})" for c, n in enumerate(names)]
        return names

    @functools.cached_property
    def texts_by_id(self) -> dict[int, str]:
        """Text of every class in records: the first name of its id."""
        texts: dict[int, str] = {}
        for item in self.items:
            texts.setdefault(item.id, item.name or item.display_name)
        return texts

    @functools.cached_property
    def classes(self) -> tuple[int, ...]:
        """Classes in [0, num_classes) that have an item, rising."""
        return tuple(sorted({item.id - 1 for item in self.items}))

    @functools.cached_property
    def class_names(self) -> dict[int, str]:
        """Class in [0, num_classes) to display name, without gaps."""
        return {c: self.names[c] for c in self.classes}

    @functools.cached_property
    def frequencies(self) -> dict[int, str]:
        """Class in [0, num_classes) to its entry of `FREQUENCIES`, of the classes that have one."""
        known = (item for item in reversed(self.items) if item.frequency != FREQUENCIES[0])
        return {item.id - 1: item.frequency for item in known}

    @functools.cached_property
    def ids_by_text(self) -> dict[str, int]:
        """Id for every name and display name; for an ambiguous text, the larger id."""
        ids: dict[str, int] = {}
        for item in self.items:
            for text in (item.name, item.display_name):
                if text:
                    ids[text] = max(ids.get(text, item.id), item.id)
        return ids


def label_map_from_names(names: Sequence[str]) -> LabelMap:
    """Return a label map that numbers names from 1; DataError for an empty or repeated name."""
    return LabelMap(items=tuple(LabelMapItem(id=i, name=name) for i, name in enumerate(names, start=1)))


def format_label_map(label_map: LabelMap) -> str:
    """Return the label map as the text of a .pbtxt file, in the Object Detection API's format."""
    return "\n".join(f"item {{\n{_format_item(item)}}}" for item in label_map.items) + "\n"


def _check_item(item: LabelMapItem) -> None:
    if item.id < 0:
        raise DataError(f"expected ids of 1 or more, found id {item.id} of {item.name!r}; number from 1")
    if item.id > MAX_CLASS_ID:
        raise DataError(
            f"expected ids up to {MAX_CLASS_ID:,}, found {str(item.id)[:30]} of {item.name!r:.80}: a detector"
            " has an output for each id up to the highest; number the classes from 1"
        )
    if item.id == 0 and BACKGROUND not in (item.name, item.display_name):
        message = f"id 0 is kept for the background, found it at {item.name!r}; number classes from 1"
        raise DataError(message)
    if not item.name and not item.display_name:
        raise DataError(f"the item with id {item.id} has no name; give it one")


def _format_item(item: LabelMapItem) -> str:
    lines = [f"name: {_quote(item.name)}"] if item.name else []
    lines.append(f"id: {item.id}")
    if item.display_name:
        lines.append(f"display_name: {_quote(item.display_name)}")
    lines += [f"keypoints {{ id: {k.id} label: {_quote(k.label)} }}" for k in item.keypoints]
    lines += [f"ancestor_ids: {id_}" for id_ in item.ancestor_ids]
    lines += [f"descendant_ids: {id_}" for id_ in item.descendant_ids]
    if item.frequency != FREQUENCIES[0]:
        lines.append(f"frequency: {item.frequency}")
    if item.instance_count:
        lines.append(f"instance_count: {item.instance_count}")
    return "".join(f"  {line}\n" for line in lines)


def _quote(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    octal = (c if c.isprintable() else "".join(f"\\{b:03o}" for b in c.encode()) for c in escaped)
    return '"' + "".join(octal) + '"'
