from detection_core.artifacts.dataset_card import ClassCard, DatasetCard
from detection_core.artifacts.pictures import PICTURES, PictureEntry
from detection_core.artifacts.quarantine import QuarantinedEntry
from detection_core.report.dataset import DatasetSummary, embed_samples
from detection_core.report.pictures import PictureBudget


def test_what_is_too_much_for_a_page_is_counted():
    rows = [QuarantinedEntry(split="train", record=str(i)) for i in range(60)]
    summary = DatasetSummary(card=DatasetCard(), quarantined=rows, folder="/e")
    assert (len(summary.rows), summary.more_rows, summary.most_objects) == (50, 10, 1)
    assert summary.list == "/e/quarantine.jsonl"
    assert DatasetSummary(card=DatasetCard(classes=[ClassCard(name="a", objects=7)])).most_objects == 7
    classes = [ClassCard(id=n + 1, name=f"c{n}", objects=n % 1500) for n in range(3000)]
    summary = DatasetSummary(card=DatasetCard(classes=classes))
    assert (len(summary.classes), summary.more_classes) == (1000, 2000)
    assert {c.objects for c in summary.classes} == set(range(1000, 1500))
    assert list(summary.classes) == sorted(summary.classes, key=lambda c: c.id)
    assert summary.most_objects == vars(summary)["most_objects"] == 1499  # asked for by each row
    few = DatasetSummary(card=DatasetCard(classes=classes[:3]))
    assert (list(few.classes), few.more_classes) == (classes[:3], 0)


def test_samples_are_embedded_by_class_within_the_budget(tmp_path):
    place = tmp_path / "pictures"
    place.mkdir()
    kinds = ["sample", "smallest", "sample", "sample", "miss"]
    entries = []
    for number, caption in enumerate(("cat", "dog, 3 px", "dog", "cat", "cat")):
        (place / f"{number}.jpg").write_bytes(b"\xff\xd8\xff" + bytes(300))
        named = {"source_id": f"train: {number}", "file": f"{number}.jpg"}
        entries.append(PictureEntry(kind=kinds[number], caption=caption, **named))
    PICTURES.write(str(place), entries)
    samples, smallest = embed_samples(str(tmp_path), PictureBudget(10_000))
    sources = {name: [p.source_id for p in found] for name, found in samples.items()}
    assert sources == {"cat": ["train: 0", "train: 3"], "dog": ["train: 2"]}
    assert [p.caption for p in smallest] == ["dog, 3 px"]
    samples, smallest = embed_samples(str(tmp_path), PictureBudget(900))
    # One of each class comes first, then the smallest boxes.
    assert {name: len(found) for name, found in samples.items()} == {"cat": 1, "dog": 1} and not smallest
    assert embed_samples("", PictureBudget(900)) == ({}, [])
    assert embed_samples(str(tmp_path / "nothing"), PictureBudget(900)) == ({}, [])
