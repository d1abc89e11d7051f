import json
import os
import shutil
from pathlib import Path

import pytest

from detection_core.storage import files
from detection_core.zoo.cache import CACHE_VARIABLE, MIRROR_VARIABLE
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


@pytest.fixture
def data(tmp_path):
    return Coco(tmp_path / "cats and dogs", images=40)


def test_the_files_of_a_workflow_are_written(data, cli):
    said = cli.json("init", data.write())
    assert said["files"] == FILES
    assert (said["objects"], said["classes"], said["images"]) == (27, {"cat": 27, "dog": 0}, 40)
    assert sum(said["splits"].values()) == 40 and said["steps"] == 1_500
    assert sorted(os.listdir("cats-and-dogs-detector")) == [".detflow-init.json", *FILES]
    assert "valid" in cli("validate", said["settings"])
    assert cli("init", data.write(), "--speed", "balanced", "-o", "mine")
    said = cli.json("init", data.write(), "--model", "efficientdet-lite0", "-o", "mine")
    assert (said["network"], said["parameters"]) == ("efficientdet-lite0", 3_290_606)
    assert cli("validate", said["settings"])
    assert 'name: "efficientdet-lite0"' in Path("mine/pipeline.config").read_text()


def test_people_are_told_in_lines_and_what_to_do_next_with_quotes(tmp_path, cli):
    data = write_voc(tmp_path / "voc", names=[f"i{n}" for n in range(20)])
    lines = cli("init", data, "-o", "mine", "--from-scratch").strip().split("\n")
    names = "format splits images objects network input anchors training weights problems"
    assert [line.split()[0] for line in lines[:10]] == names.split()
    assert lines[-1] == "look at mine/samples.png, then: detflow run mine/settings.yaml"
    last = cli("init", data, "-o", "my cats; rm -r x", "--from-scratch").strip().split("\n")[-1]
    folder = "my cats; rm -r x"
    assert last == f"look at '{folder}/samples.png', then: detflow run '{folder}/settings.yaml'"


def test_what_is_no_data_set_is_refused_and_images_of_another_machine_are_found(tmp_path, cli, data):
    (tmp_path / "empty").mkdir()
    assert "Looked for" in cli.refused("init", "empty", "-o", "mine")
    assert "missing" in cli.refused("init", "missing", "-o", "mine") and "expected" in cli.refused("init")
    assert not cli("init", Coco(tmp_path / "a\nb", images=40).write(), "-o", "mine", code=2)
    assert "data.path: expected a text without control characters" in cli.err and not os.path.exists("mine")
    for number, image in enumerate(data.images):
        image["file_name"] = ("/home/me/cats/", "D:\\cats\\")[number % 2] + image["file_name"]
    said = cli.json("init", data.write(), "-o", "mine")
    assert (said["images"], said["unreadable_images"], said["rejected"]) == (40, 0, {})
    for path in (data.root / "images").iterdir():
        path.unlink()
    assert "leaves the image folder" in cli.refused("init", data.root, "-o", "other")


def test_a_zip_archive_and_a_data_yaml_are_data_sets(tmp_path, cli):
    WRITERS["yolo"](tmp_path / "cells")
    shutil.make_archive(str(tmp_path / "cells"), "zip", tmp_path, "cells")
    (tmp_path / "cells" / "another.yaml").write_text("train: none\nnames: [x]\n")
    assert "found another one beside data.yaml" in cli.refused("init", "cells/data.yaml", "--from-scratch")
    divided = {"train": "images/a.jpg", "val": ["images/b.jpg", "images/c.jpg"], "names": ["cat", "dog"]}
    (tmp_path / "cells" / "data.yaml").write_text(json.dumps(divided))
    said = cli.json("init", "cells/data.yaml", "--from-scratch")
    settings = load_settings("cells-detector/settings.yaml")
    assert settings.data.path == str(tmp_path / "cells") and said["classes"] == {"dog": 2, "cat": 1}
    for _ in range(2):
        said = cli.json("init", "cells.zip", "-o", "mine", "--from-scratch")
        assert said["images"] == 3 and said["format"] == "yolo"
    assert load_settings("mine/settings.yaml").data.path == str(tmp_path / "mine" / "data")
    assert cli("validate", "mine/settings.yaml")


def test_networks_are_listed(cli):
    listed = cli.json("init", "--list-models")
    assert len(listed) == 69 and all(network["milliseconds"] is None for network in listed)
    told = cli("init", "--list-models", "--speed", "balanced")
    assert "COCO mAP" in told.split("\n")[0] and "efficientdet_d0_coco17_tpu-32" in told
    assert "ssd_mobilenet_v2_fpnlite_half" not in told


@pytest.fixture(scope="module", params=["s3", "gcs"])
def bucket(request):
    with SERVERS[request.param]() as address:
        yield address


def test_data_on_an_object_store_are_looked_at_where_they_are_and_again(bucket, data, cli):
    """A repeated look sees what is new and keeps what was changed."""
    local, words = data.write(), ["init", f"{bucket}/cells", "-o", "mine"]
    files.copy_tree(local, f"{bucket}/cells")
    here, said = cli.json("init", local, "-o", "here"), cli.json(*words)
    assert said == {**here, "settings": "mine/settings.yaml"} and said["files"] == FILES
    for name in ("pipeline.config", "samples.png"):
        assert Path("mine", name).read_bytes() == Path("here", name).read_bytes()
    settings = load_settings(said["settings"])
    assert settings.data.path == f"{bucket}/cells" and build_dag(settings).steps
    told = cli.refused("init", f"{bucket}/cells", "-o", f"{bucket}/mine")
    assert "expected a folder on this machine" in told
    data.add_image(99)
    data.images.append({**data.images[0], "id": 100, "file_name": "../../secret.jpg"})
    files.copy_file(str(data.root / "images" / "99.jpg"), f"{bucket}/cells/images/99.jpg")
    files.copy_file(f"{data.write()}/annotations.json", f"{bucket}/cells/annotations.json")
    for number in range(2, 8):
        files.remove_tree(f"{bucket}/cells/images/{number}.jpg")
    said = cli.json(*words)
    assert said["images"] == 41 and said["rejected"] == {"path_outside": 1}
    assert 0 < said["unreadable_images"] < said["opened_images"] <= 40
    Path("mine/settings.yaml").write_text("name: mine\n")
    assert "settings.yaml, changed since" in cli.refused(*words)
    assert Path("mine/settings.yaml").read_text() == "name: mine\n"


def test_what_is_no_data_set_on_an_object_store_is_refused(bucket, cli):
    files.write_text(f"{bucket}/notes/readme.txt", "nothing to see")
    for address, message in (
        (f"{bucket}/notes", "Looked for"),
        (f"{bucket}/missing", "expected the folder of a data set"),
        (f"{bucket}-of-nobody", "check the bucket's name"),
    ):
        error = cli.refused("init", address, "-o", "mine")
        assert address in error and message in error
    assert not os.path.exists("mine")


@pytest.mark.parametrize("server", ["s3", pytest.param("gcs", marks=pytest.mark.slow)])  # gcs: long retries
def test_a_store_that_does_not_answer_is_one_error(server, cli):
    with dead_server(server) as address:
        error = cli.refused("init", f"{address}/cells", "-o", "mine")
    assert f"{address}/cells: expected an answer from the object store" in error
    assert not os.path.exists("mine")


HOSTILE = ["}\nmodel {", "a: b # c", "{SPAN}", "\u202ecba\u2066", "e\u0301", "\u00e9", "x" * 300, "'\"\\"]


def test_names_of_any_kind_are_names(tmp_path, cli):
    data = Coco(tmp_path / "d: # }{'\u00e9", images=40)
    data.categories = [{"id": n, "name": name} for n, name in enumerate(HOSTILE, 1) if name.isprintable()]
    for number in range(40):
        data.annotations[number % len(data.annotations)]["category_id"] = data.categories[number % 4]["id"]
    settings = load_settings(cli.json("init", data.write(), "-o", "mine")["settings"])
    assert settings.data.path == str(data.root) and build_dag(settings)


def test_without_a_picture_that_can_be_read_there_is_none_to_look_at(data, cli):
    for path in (data.root / "images").iterdir():
        path.write_bytes(b"nothing")
    said = cli("init", data.write(), "-o", "mine", "--from-scratch", code=1)
    assert "from scratch, as --from-scratch is given" in said
    assert "40 of 40 image files that were opened cannot be read" in said
    assert said.endswith("\ndetflow run mine/settings.yaml\n")
    assert sorted(os.listdir("mine")) == [".detflow-init.json", "pipeline.config", "settings.yaml"]
