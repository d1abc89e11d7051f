"""Reading label map files: text-format `StringIntLabelMap` messages, usually named label_map.pbtxt."""

import contextlib

from detection_core.bounded.limits import MAX_LONG_TEXT_BYTES
from detection_core.config.text.text_proto import parse_message
from detection_core.data.label_map import FREQUENCIES, Keypoint, LabelMap, LabelMapItem
from detection_core.errors import ConfigError, DataError
from detection_core.protos.string_int_label_map_pb2 import StringIntLabelMap, StringIntLabelMapItem
from detection_core.storage import files
from detection_core.storage.folder_listing import list_folder


def load_label_map(path: str) -> LabelMap:
    """Read a label map file.

    Raises:
        ConfigError: when no file is named, or it cannot be read or is not a label map, with line and field.
    """
    if not path:
        raise ConfigError(
            "expected the path of a label map, found none; set it, or pass a folder of examples, which holds"
            " one",
            where="label_map_path",
        )
    return parse_label_map(
        files.read_user_text(path, what="label map", longest=MAX_LONG_TEXT_BYTES), where=path
    )


def find_label_map(root: str) -> LabelMap | None:
    """Find the label map in a data set's folder; None if there is none, or several that differ."""
    found: set[LabelMap] = set()
    try:
        listing = list_folder(root, bounded=True)
    except OSError:  # The reader of the data set reports it.
        return None
    for path in listing.paths(".pbtxt"):
        with contextlib.suppress(ConfigError):  # a graph or another message
            found.add(load_label_map(listing.path(path)))
    return found.pop() if len(found) == 1 else None


def parse_label_map(text: str, where: str = "") -> LabelMap:
    """Parse the text of a label map, `item { id: 1 name: "cat" }` and so on.

    Raises:
        ConfigError: when the text is not a label map, with line and field. Also without items, or when ids or
            names contradict each other.
    """
    message = parse_message(text, StringIntLabelMap, where=where)
    try:
        label_map = LabelMap(items=tuple(_item(item) for item in message.item))
    except DataError as error:
        raise ConfigError(error.message, where=where) from error
    if not label_map.items:
        raise ConfigError('expected at least one item { id: 1 name: "..." }, found none', where=where)
    return label_map


def _item(message: StringIntLabelMapItem) -> LabelMapItem:
    return LabelMapItem(
        id=message.id,
        name=message.name,
        display_name=message.display_name,
        keypoints=tuple(Keypoint(id=keypoint.id, label=keypoint.label) for keypoint in message.keypoints),
        ancestor_ids=tuple(message.ancestor_ids),
        descendant_ids=tuple(message.descendant_ids),
        frequency=FREQUENCIES[message.frequency],
        instance_count=message.instance_count,
    )
