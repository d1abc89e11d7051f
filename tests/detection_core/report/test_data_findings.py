from detection_core.artifacts.data_findings import FINDINGS, DataFindings, Finding, FoundExample, OtherExample
from detection_core.artifacts.dataset_card import CARD, DatasetCard
from detection_core.report.data_findings import FindingsSummary
from detection_core.report.data_page import data_page

JPEG = b"\xff\xd8\xff picture"


def _summary(tmp_path, picture="000.jpg"):
    (tmp_path / "pictures").mkdir(exist_ok=True)
    (tmp_path / "pictures" / "000.jpg").write_bytes(JPEG)
    other = OtherExample(split="train", source_id="b", record=2)
    said = {"split": "eval", "source_id": "<a>", "record": 1, "note": "the same image", "picture": picture}
    found = {"id": "leakage:eval", "check": "leakage", "severity": "stop", "message": "1 of 4 <images>"}
    finding = Finding(**found, measured=0.25, threshold=0.0, examples=[FoundExample(other=other, **said)])
    checks = {"leakage": "stop", "drift": "nothing before"}
    return FindingsSummary(found=DataFindings(findings=[finding], checks=checks), folder=str(tmp_path))


def _page(found, folder):
    FINDINGS.write(str(folder), found)
    CARD.write(str(folder), DatasetCard(format="coco"))
    return data_page(str(folder))


def test_a_page_shows_verdict_message_picture_and_what_was_not_checked(tmp_path):
    summary = _summary(tmp_path)
    [shown] = summary.shown
    assert shown.pictures[0].source_id == "eval: <a> | train: b"
    page = _page(summary.found, tmp_path)
    assert page.count("data:image/jpeg;base64,") == 1 and "1 of 4 &lt;images&gt;" in page
    assert "refused" in page and "drift (nothing before)" in page and "://" not in page
    page = _page(DataFindings(findings=[], images={"train": 4}), tmp_path)
    assert "Nothing was found" in page and "passed" in page


def test_a_picture_is_a_name_in_its_folder_and_a_jpeg_file(tmp_path):
    (tmp_path / "secret.jpg").write_bytes(JPEG)
    for name in ("../secret.jpg", "/etc/passwd", "..\\secret.jpg", ".hidden", "none.jpg"):
        assert _summary(tmp_path, picture=name).shown[0].pictures == [], name
    summary = _summary(tmp_path)
    (tmp_path / "pictures" / "000.jpg").write_bytes(b"<script>")
    assert summary.shown[0].pictures == [] and summary.shown[0].rows
