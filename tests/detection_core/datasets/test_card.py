from detection_core.artifacts.dataset_card import CARD
from detection_core.data.label_map import LabelMap, LabelMapItem
from detection_core.datasets.annotated_images import Rejection
from detection_core.datasets.card import make_card
from detection_core.datasets.counts import Counts

LABELS = LabelMap(items=(LabelMapItem(id=1, name="n01", display_name="cat"), LabelMapItem(id=4, name="dog")))


def _counts(images, classes, digests):
    counts = {"total": {"images": images}, "classes": classes, "box_sides": {"0.1": 2}}
    ranges = {"width": [images, 100 * images, 90, 110]}
    state = {"counts": counts, "ranges": ranges, "digests": digests}
    return Counts(state)


def test_the_card_holds_counts_by_split_and_in_all():
    train = _counts(3, {"n01": 2, "cat": 1}, ["a", "b", "b"])
    counts = {"train": train, "eval": _counts(1, {"dog": 1}, ["b"])}
    quarantine = {"train": [Rejection("x.jpg", "9", "empty_image", "")]}
    made = make_card("coco", LABELS, counts, {"train": 2, "eval": 1}, quarantine)
    card = CARD.encode(made)
    assert card["classes"] == [{"id": 1, "name": "cat", "objects": 3}, {"id": 4, "name": "dog", "objects": 1}]
    assert card["total"]["images"] == 4
    assert card["quarantine"] == {"records": 1, "fraction": 0.2, "reasons": {"empty_image": 1}}
    assert card["images_in_two_splits"] == 1
    train = card["splits"]["train"]
    assert (train["shards"], train["images"], train["quarantined"]) == (2, 3, {"empty_image": 1})
    assert train["classes"] == {"cat": 3, "dog": 0}
    assert train["width"] == {"min": 90, "mean": 100.0, "max": 110}
    assert dict(zip(*train["box_sides_of_image"].values(), strict=True))[0.1] == 2
    assert list(train)[:3] == ["shards", "images", "empty_images"] and "spans" not in card
    assert CARD.parse(CARD.format(made), "dataset_card.json") == made
