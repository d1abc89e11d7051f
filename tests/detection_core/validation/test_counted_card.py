from detection_core.config.input_paths import split_pattern
from detection_core.validation.counted_card import ObjectCounter, counted_card
from detection_core.validation.labelled_images import read_split
from tests.detection_core.validation.samples import LABELS
from tests.support.made_examples import Made, write_examples


def test_a_card_counts_images_and_objects_by_class_and_split(tmp_path):
    two = Made(boxes=((0.1, 0.1, 0.5, 0.5), (0.2, 0.2, 0.9, 0.9)), classes=("cat", "dog"), crowd=(0, 1))
    folder = write_examples(tmp_path, {"train": [two, Made(boxes=())], "eval": [Made()]})
    cards = {}
    for split in ("train", "eval"):
        counter = ObjectCounter()
        for image in read_split(split_pattern(folder, split), LABELS):
            counter.add(image)
        cards[split] = counter.card(LABELS)
    assert cards["train"].classes == {"cat": 1, "dog": 1} and cards["train"].empty_images == 1
    card = counted_card(LABELS, cards)
    assert [(c.id, c.name, c.objects) for c in card.classes] == [(1, "cat", 2), (2, "dog", 1)]
    assert (card.total.images, card.total.objects, card.total.empty_images) == (3, 3, 1)
