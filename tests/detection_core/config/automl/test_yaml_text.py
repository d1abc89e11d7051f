import yaml

from detection_core.config.automl.yaml_text import read_yaml, read_yaml_file
from tests.support.cases import cases, config_refused


def test_what_python_saves_of_a_config_is_read(tmp_path):
    saved = yaml.dump({"image_size": (512, 640), "nms_configs": {"sigma": None}}, indent=4)
    assert "python/tuple" in saved
    assert read_yaml(saved, where="config.yaml") == {"image_size": (512, 640), "nms_configs": {"sigma": None}}
    for nothing in ("", "# nothing\n", "---\n"):
        assert read_yaml(nothing, where="x.yaml") == {}
    path = tmp_path / "config.yaml"
    path.write_bytes(b"\xff\xfe\x00")
    config_refused("not UTF-8", read_yaml_file, str(path))


@cases(
    ("a: [1", r"^x\.yaml:\d:\d: not valid YAML"),
    ("a: 1\nb: : 2\n", r"^x\.yaml:2:4: "),
    ("[1, 2]", r"expected a table of key: value lines, found \[1, 2\]"),
    ("a: !!python/object/apply:os.getcwd []", r"^x\.yaml:1:4: .*python/object"),
    ("a: \0", "not valid YAML"),
)
def test_what_is_no_plain_table_is_refused(*, text, message):
    config_refused(message, lambda: read_yaml(text, where="x.yaml"))
