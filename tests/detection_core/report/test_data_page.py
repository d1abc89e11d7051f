import pytest

from detection_core.artifacts.anchor_matches import ANCHOR_MATCHES, AnchorMatch, AnchorMatches
from detection_core.artifacts.box_profile import BOX_PROFILES, BoxProfiles, Histogram, SizeGrid
from detection_core.artifacts.data_findings import FINDINGS, DataFindings, Finding
from detection_core.artifacts.dataset_card import CARD, ClassCard, DatasetCard, SplitCard, Totals
from detection_core.artifacts.pictures import PICTURES, PictureEntry
from detection_core.artifacts.quarantine import QUARANTINE, QuarantinedEntry
from detection_core.datasets.box_counter import BoxCounter
from detection_core.errors import ContractError
from detection_core.report.data_page import data_page, read_dataset
from tests.support.cases import refused

JPEG = b"\xff\xd8\xff picture"


def _grid(count):
    return SizeGrid(up_to=[0.5, 1.0], counts=[[count, 0], [0, 0]])


@pytest.fixture
def folder(tmp_path):
    """Everything that DataValidator leaves of a small data set."""
    split = SplitCard(images=2, objects=3, classes={"<cat>": 3})
    classes = [ClassCard(id=1, name="<cat>", objects=3)]
    counted = {"splits": {"train": split}, "total": Totals(images=2, objects=3)}
    CARD.write(str(tmp_path), DatasetCard(format="voc", classes=classes, **counted))
    counter = BoxCounter()
    counter.add([(0.0, 0.0, 40.0, 20.0)] * 3, 400, 200)
    BOX_PROFILES.write(str(tmp_path), BoxProfiles(splits={"train": counter.profile()}))
    overlaps = Histogram(up_to=[0.5, 1.0], counts=[1, 3])
    match = AnchorMatch(boxes=4, matched=3, overlaps=overlaps, sizes=_grid(4), unmatched=_grid(1))
    network = {"input_size": (160, 200), "anchors": 1200, "shapes": [(0.2, 0.3)]}
    ANCHOR_MATCHES.write(str(tmp_path), AnchorMatches(splits={"train": match}, **network))
    QUARANTINE.write(str(tmp_path), [QuarantinedEntry(split="train", file="b.xml", reason="box_outside")])
    place = tmp_path / "pictures"
    place.mkdir()
    (place / "a.jpg").write_bytes(JPEG)
    (place / "s.jpg").write_bytes(JPEG + b"small")
    sample = PictureEntry(kind="sample", caption="<cat>", source_id="train: 1", file="a.jpg")
    smallest = PictureEntry(kind="smallest", caption="<cat>, 3 px", source_id="train: 2", file="s.jpg")
    PICTURES.write(str(place), [sample, smallest])
    said = {"id": "a", "check": "rare_class", "severity": "warn", "message": "few <cats>"}
    finding = Finding(**said, measured=3, threshold=10)
    FINDINGS.write(str(tmp_path), DataFindings(findings=[finding], checks={"rare_class": "warn"}))
    return str(tmp_path)


def test_the_page_of_a_data_set_is_made_from_one_folder(folder):
    page = data_page(folder, title="my <data>")
    for text in (
        "my &lt;data&gt;",
        "Size of the boxes",
        "train: where centres are",
        "75.0 % of 4 boxes have an anchor",
        "160 x 200 pixels",
        "<h4>&lt;cat&gt;</h4>",
        "&lt;cat&gt;, 3 px",
        "b.xml",
        "few &lt;cats&gt;",
    ):
        assert text in page, text
    assert page.count("data:image/jpeg;base64,") == 2 and "<script" not in page and "://" not in page
    assert page == data_page(folder, title="my <data>")
    assert "data:image/jpeg" not in data_page(folder, sample_bytes=5)


def test_what_an_older_version_left_has_findings_alone(tmp_path, folder):
    FINDINGS.write(str(tmp_path / "old"), DataFindings(findings=[]))
    assert read_dataset(str(tmp_path / "old")) is None and read_dataset("") is None
    page = data_page(str(tmp_path / "old"))
    assert "Nothing was found" in page and 'id="data"' not in page
    refused(ContractError, "", data_page, str(tmp_path / "nothing"))
