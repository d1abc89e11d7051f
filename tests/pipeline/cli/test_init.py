from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from detection_core.storage import files
from detection_core.zoo.cache import CACHE_VARIABLE, MIRROR_VARIABLE
from pipeline.cli import parser
from pipeline.dag import build_dag
from pipeline.settings.settings_file import load_settings
from tests.support.dataset_files import Coco, write_voc
from tests.support.object_store import SERVERS, dead_server
from tests.support.same_set import WRITERS

FILES = ["pipeline.config", "samples.png", "settings.yaml"]


@pytest.fixture(autouse=True)
def no_network(tmp_path, monkeypatch):
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setenv(MIRROR_VARIABLE, str(tmp_path / "mirror"))
    monkeypatch.chdir(tmp_path)


def test_the_files_are_written_and_the_workflow_is_valid(tmp_path, capsys):
    data = Coco(tmp_path / "cats and dogs", images=40).write()
    assert parser.main(["init", data, "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["files"] == FILES
    assert (said["objects"], said["classes"], said["images"]) == (27, {"cat": 27, "dog": 0}, 40)
    assert sum(said["splits"].values()) == 40 and said["steps"] == 1_500
    assert sorted(os.listdir("cats-and-dogs-detector")) == [".detflow-init.json", *FILES]
    assert parser.main(["validate", said["settings"]]) == 0
    assert "valid" in capsys.readouterr().out


def test_a_workflow_of_an_efficientdet_of_google_automl_is_written(tmp_path, capsys):
    data = Coco(tmp_path / "cats", images=40).write()
    assert parser.main(["init", data, "--model", "efficientdet-lite0", "-o", "mine", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["network"], said["parameters"]) == ("efficientdet-lite0", 3_290_606)
    assert parser.main(["validate", said["settings"]]) == 0
    assert 'name: "efficientdet-lite0"' in Path("mine/pipeline.config").read_text()


def test_people_are_told_in_lines_and_what_to_do_next(tmp_path, capsys):
    data = write_voc(tmp_path / "voc", names=[f"i{n}" for n in range(20)])
    assert parser.main(["init", data, "-o", "mine", "--from-scratch"]) == 0
    lines = capsys.readouterr().out.strip().split("\n")
    names = "format splits images objects network input anchors training weights problems"
    assert [line.split()[0] for line in lines[:10]] == names.split()
    assert lines[-1] == "look at mine/samples.png, then: detflow run mine/settings.yaml"


def test_a_changed_file_stays_and_the_others_with_it(tmp_path, capsys):
    data = Coco(tmp_path / "data", images=40).write()
    assert parser.main(["init", data, "-o", "mine"]) == 0
    assert parser.main(["init", data, "-o", "mine", "--speed", "balanced"]) == 0
    config = Path("mine/pipeline.config")
    config.write_text(config.read_text().replace("batch_size: 8", "batch_size: 4"))
    before = {name: Path("mine", name).read_bytes() for name in FILES}
    capsys.readouterr()
    assert parser.main(["init", data, "-o", "mine"]) == 2
    assert "pipeline.config, changed since" in capsys.readouterr().err
    assert {name: Path("mine", name).read_bytes() for name in FILES} == before


def test_what_is_no_data_set_is_refused_and_nothing_written(tmp_path, capsys):
    (tmp_path / "empty").mkdir()
    assert parser.main(["init", str(tmp_path / "empty"), "-o", "mine"]) == 2
    assert "Looked for" in capsys.readouterr().err
    assert parser.main(["init", "missing", "-o", "mine"]) == 2
    assert parser.main(["init"]) == 2
    assert not os.path.exists("mine")


def test_a_command_to_copy_is_quoted(tmp_path, capsys):
    data = Coco(tmp_path / "data", images=40).write()
    assert parser.main(["init", data, "-o", "my cats; rm -r x", "--from-scratch"]) == 0
    last = capsys.readouterr().out.strip().split("\n")[-1]
    assert last.endswith("then: detflow run 'my cats; rm -r x/settings.yaml'")
    assert last.startswith("look at 'my cats; rm -r x/samples.png', ")


def test_images_with_paths_of_another_machine_are_found_and_said_where_they_are_not(tmp_path, capsys):
    data = Coco(tmp_path / "data", images=40)
    for number, image in enumerate(data.images):
        image["file_name"] = ("/home/me/cats/", "D:\\cats\\")[number % 2] + image["file_name"]
    data.write()
    assert parser.main(["init", str(data.root), "-o", "mine", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["images"], said["unreadable_images"], said["rejected"]) == (40, 0, {})
    for path in (data.root / "images").iterdir():
        path.unlink()
    assert parser.main(["init", str(data.root), "-o", "other"]) == 2
    assert "leaves the image folder" in capsys.readouterr().err


def test_a_zip_archive_and_a_data_yaml_are_data_sets(tmp_path, capsys):
    WRITERS["yolo"](tmp_path / "cells")
    shutil.make_archive(str(tmp_path / "cells"), "zip", tmp_path, "cells")
    (tmp_path / "cells" / "another.yaml").write_text("train: none\nnames: [x]\n")
    assert parser.main(["init", "cells/data.yaml", "--from-scratch"]) == 2
    assert "found another one beside data.yaml" in capsys.readouterr().err
    divided = {"train": "images/a.jpg", "val": ["images/b.jpg", "images/c.jpg"], "names": ["cat", "dog"]}
    (tmp_path / "cells" / "data.yaml").write_text(json.dumps(divided))
    assert parser.main(["init", "cells/data.yaml", "--json", "--from-scratch"]) == 0
    said = json.loads(capsys.readouterr().out)
    settings = load_settings("cells-detector/settings.yaml")
    assert settings.data.path == str(tmp_path / "cells") and said["classes"] == {"dog": 2, "cat": 1}
    for _ in range(2):
        assert parser.main(["init", "cells.zip", "-o", "mine", "--json", "--from-scratch"]) == 0
        said = json.loads(capsys.readouterr().out)
        assert said["images"] == 3 and said["format"] == "yolo"
    assert load_settings("mine/settings.yaml").data.path == str(tmp_path / "mine" / "data")
    assert parser.main(["validate", "mine/settings.yaml"]) == 0


def test_networks_are_listed(capsys):
    assert parser.main(["init", "--list-models", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert len(listed) == 41 and all(network["milliseconds"] is None for network in listed)
    assert parser.main(["init", "--list-models", "--speed", "balanced"]) == 0
    lines = capsys.readouterr().out.split("\n")
    assert "COCO mAP" in lines[0] and "efficientdet_d0_coco17_tpu-32" in "".join(lines)
    assert "ssd_mobilenet_v2_fpnlite_half" not in "".join(lines)


@pytest.fixture(params=["s3", "gcs"])
def bucket(request) -> Iterator[str]:
    with SERVERS[request.param]() as address:
        yield address


def test_data_on_an_object_store_are_looked_at_where_they_are(bucket, tmp_path, capsys):
    local = Coco(tmp_path / "data", images=40).write()
    files.copy_tree(local, f"{bucket}/cells")
    assert parser.main(["init", local, "-o", "here", "--json"]) == 0
    here = json.loads(capsys.readouterr().out)
    assert parser.main(["init", f"{bucket}/cells", "-o", "mine", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said == {**here, "settings": "mine/settings.yaml"} and said["files"] == FILES
    for name in ("pipeline.config", "samples.png"):
        assert Path("mine", name).read_bytes() == Path("here", name).read_bytes()
    settings = load_settings(said["settings"])
    assert settings.data.path == f"{bucket}/cells"
    assert build_dag(settings).steps
    assert parser.main(["init", f"{bucket}/cells", "-o", f"{bucket}/mine"]) == 2
    assert "expected a folder on this machine" in capsys.readouterr().err


def test_a_repeated_look_at_an_object_store_sees_what_is_new_and_keeps_what_was_changed(
    bucket, tmp_path, capsys
):
    data = Coco(tmp_path / "data", images=40)
    files.copy_tree(data.write(), f"{bucket}/cells")
    assert parser.main(["init", f"{bucket}/cells", "-o", "mine"]) == 0
    data.add_image(99)
    data.images.append({**data.images[0], "id": 100, "file_name": "../../secret.jpg"})
    files.copy_file(str(data.root / "images" / "99.jpg"), f"{bucket}/cells/images/99.jpg")
    files.copy_file(f"{data.write()}/annotations.json", f"{bucket}/cells/annotations.json")
    for number in range(2, 8):
        files.remove_tree(f"{bucket}/cells/images/{number}.jpg")
    capsys.readouterr()
    assert parser.main(["init", f"{bucket}/cells", "-o", "mine", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["images"] == 41 and said["rejected"] == {"path_outside": 1}
    assert 0 < said["unreadable_images"] < said["opened_images"] <= 40
    Path("mine/settings.yaml").write_text("name: mine\n")
    assert parser.main(["init", f"{bucket}/cells", "-o", "mine"]) == 2
    assert "settings.yaml, changed since" in capsys.readouterr().err
    assert Path("mine/settings.yaml").read_text() == "name: mine\n"


def test_what_is_no_data_set_on_an_object_store_is_refused(bucket, capsys):
    files.write_text(f"{bucket}/notes/readme.txt", "nothing to see")
    for address, message in (
        (f"{bucket}/notes", "Looked for"),
        (f"{bucket}/missing", "expected the folder of a data set"),
        (f"{bucket}-of-nobody", "check the bucket's name"),
    ):
        assert parser.main(["init", address, "-o", "mine"]) == 2
        error = capsys.readouterr().err
        assert address in error and message in error and len(error.splitlines()) == 1
    assert not os.path.exists("mine")


@pytest.mark.parametrize("server", ["s3", pytest.param("gcs", marks=pytest.mark.slow)], ids=["s3", "gcs"])
def test_a_store_that_does_not_answer_is_one_error(server, monkeypatch, capsys):
    with dead_server(server) as address:
        assert parser.main(["init", f"{address}/cells", "-o", "mine"]) == 2
    error = capsys.readouterr().err
    assert f"{address}/cells: expected an answer from the object store" in error
    assert len(error.splitlines()) == 1 and not os.path.exists("mine")


HOSTILE = ["}\nmodel {", "a: b # c", "{SPAN}", "\u202ecba\u2066", "e\u0301", "\u00e9", "x" * 300, "'\"\\"]


def test_names_of_any_kind_are_names(tmp_path, capsys):
    data = Coco(tmp_path / "d: # }{'\u00e9", images=40)
    data.categories = [{"id": n, "name": name} for n, name in enumerate(HOSTILE, 1) if name.isprintable()]
    for number in range(40):
        data.annotations[number % len(data.annotations)]["category_id"] = data.categories[number % 4]["id"]
    assert parser.main(["init", data.write(), "-o", "mine", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    settings = load_settings(said["settings"])
    assert settings.data.path == str(data.root)
    assert build_dag(settings)


def test_a_folder_that_no_settings_can_name_is_refused(tmp_path, capsys):
    data = Coco(tmp_path / "a\nb", images=40).write()
    assert parser.main(["init", data, "-o", "mine"]) == 2
    assert "data.path: expected a text without control characters" in capsys.readouterr().err
    assert not os.path.exists("mine")


def test_without_a_picture_that_can_be_read_there_is_none_to_look_at(tmp_path, capsys):
    data = Coco(tmp_path / "data", images=40)
    for path in (data.root / "images").iterdir():
        path.write_bytes(b"nothing")
    assert parser.main(["init", data.write(), "-o", "mine", "--from-scratch"]) == 1
    said = capsys.readouterr().out
    assert "from scratch, as --from-scratch says so" in said
    assert "40 of 40 image files that were opened cannot be read" in said
    assert said.endswith("\ndetflow run mine/settings.yaml\n")
    assert sorted(os.listdir("mine")) == [".detflow-init.json", "pipeline.config", "settings.yaml"]
