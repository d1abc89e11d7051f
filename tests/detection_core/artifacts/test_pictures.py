import json
from pathlib import Path

from detection_core.artifacts.pictures import list_pictures

JPEG = b"\xff\xd8\xff\xe0 picture"


def write_index(folder: Path, *names: str) -> None:
    pictures = folder / "pictures"
    pictures.mkdir(exist_ok=True)
    entries = [{"kind": "miss", "file": name, "caption": name, "source_id": "1"} for name in names]
    (pictures / "index.json").write_text(json.dumps(entries))


def test_pictures_of_the_folder_are_found_by_the_index_and_no_other_file_is_read(tmp_path, caplog):
    write_index(tmp_path, "a.jpg")
    (tmp_path / "pictures" / "a.jpg").write_bytes(JPEG)
    (picture,) = list_pictures(str(tmp_path))
    assert (picture.kind, picture.caption, picture.read()) == ("miss", "a.jpg", JPEG)
    (tmp_path / "secret.jpg").write_bytes(JPEG)
    (tmp_path / "key").write_text("secret")
    write_index(tmp_path, "../secret.jpg", f"{tmp_path}/secret.jpg", "..", "", "link.jpg", "no.jpg", "a\0b")
    (tmp_path / "pictures" / "link.jpg").symlink_to(tmp_path / "key")
    assert [p.caption for p in list_pictures(str(tmp_path))] == ["link.jpg", "no.jpg"]
    assert [p.read() for p in list_pictures(str(tmp_path))] == [b"", b""]
    assert "is no file of this folder" in caplog.text
    for text in ("{", "{}", "[3]", '["a"]', "[" * 100_000):
        (tmp_path / "pictures" / "index.json").write_text(text)
        assert list_pictures(str(tmp_path)) == [], text
