import json
import random
import sys

from detection_core.datasets.annotated_images import AnnotatedObject
from detection_core.datasets.counts import BOX_SIDES, Counts
from detection_core.datasets.encoding import CheckedExample
from tests.support.dataset_files import stored_image


def _example(number, boxes, area=0.0):
    image = stored_image(b"12345", 200, 100 + number, source_id=str(number), sha256=f"{number:064x}")
    objects = [AnnotatedObject("cat", box, area, 1, 1, 0, None, "") for box in boxes]
    return CheckedExample(data=b"", image=image, objects=objects, boxes=boxes, clipped=1, converted=True)


_BOXES = [(0, 0, 10, 10), (0, 0, 200, 101)]
EXAMPLES = [_example(0, []), _example(1, _BOXES), _example(2, [(0, 0, 40, 40)], area=50.0)]


def _counted(*examples):
    counts = Counts()
    for example in examples:
        counts.add(example)
    return counts


def test_every_example_is_counted_and_parts_sum_up_to_the_whole_through_json():
    whole, merged = _counted(*EXAMPLES), Counts()
    total = {"images": 3, "empty_images": 1, "converted_images": 3, "image_bytes": 15, "objects": 3}
    total |= {"clipped_boxes": 3, "crowd": 3, "difficult": 3, "truncated": 0, "decoded_images": 0}
    total |= {"turned_images": 0, "annotated_as_stored": 0, "passed_through": 0}
    assert whole.counts["total"] == total and whole.counts["classes"] == {"cat": 3}
    assert whole.counts["box_areas"] == {"small": 2, "large": 1}
    assert whole.counts["box_sides"] == {"0.1": 1, "1.0": 1, "0.3": 1}
    assert whole.ranges["height"] == [3, 303, 100, 102]
    for example in EXAMPLES:
        merged.merge(Counts(json.loads(json.dumps(_counted(example).state()))))
    assert merged.state() == whole.state()
    assert _counted(_example(0, [(0, 0, 200, 100)])).counts["box_sides"] == {str(BOX_SIDES[-1]): 1}


def test_counts_cost_a_handful_of_calls_and_are_the_same_however_many_wait(monkeypatch):
    rng = random.Random(5)
    boxes = [[(0, 0, rng.randint(1, 200), rng.uniform(1, 100)) for _ in range(n % 4)] for n in range(40)]
    examples = [_example(n, own, area=rng.choice([0.0, 1024.0, 9216.0])) for n, own in enumerate(boxes)]
    found = set()
    for chunk in (0, 7, 10_000):
        monkeypatch.setattr("detection_core.datasets.counts._CHUNK", chunk)
        found.add(json.dumps(_counted(*examples).state(), sort_keys=True))
    assert len(found) == 1
    example = _example(1, [(0, 0, 10, 10)] * 50)
    counts, calls = Counts(), []
    sys.setprofile(lambda frame, event, arg: calls.append(event))
    try:
        counts.add(example)
    finally:
        sys.setprofile(None)
    assert len(calls) < 50
