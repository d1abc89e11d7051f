from detection_core.errors import ModelError
from detection_core.zoo.keras_backbones import find_backbone
from detection_core.zoo.starting_points import FetchedStart, fetch_start, is_named
from tests.support.archives import NAME, archive, use_cache_below
from tests.support.cases import cases, config_refused, refused


@cases(
    (f"zoo:{NAME}", True), ("imagenet", True), ("imagenet:resnet50_v1", True), ("zoo/ckpt-0", False),
    ("imagenet/model.ckpt", False), ("s3://zoo/ckpt-0", False), ("", False),
)  # fmt: skip
def test_names_are_told_from_paths(*, start, named):
    assert is_named(start) == named


def test_what_is_named_is_fetched_and_a_path_stays_as_it_is(tmp_path, monkeypatch):
    use_cache_below(tmp_path, monkeypatch)
    backbone = find_backbone("mobilenet_v2", 0.35)
    (tmp_path / f"{NAME}.tar.gz").write_bytes(archive())
    (tmp_path / backbone.file.name).write_bytes(b"weights")
    found = fetch_start(f"zoo:{NAME}", mirror=str(tmp_path))
    assert found.path.endswith("checkpoint/ckpt-0") and found.backbone is None
    assert found.model and found.model.config.endswith("pipeline.config")
    found = fetch_start(backbone.name, mirror=str(tmp_path))
    assert found.path.endswith(backbone.file.name) and found.backbone == backbone
    assert fetch_start("zoo/ckpt-0") == FetchedStart(path="zoo/ckpt-0")
    for name in ("zoo:", "zoo:x", "imagenet", "imagenet:vgg16", "imagenet:resnet50_v1:2"):
        config_refused("expected", fetch_start, name)
    empty = {"mirror": str(tmp_path / "none")}
    refused(ModelError, "put resnet50_weights", lambda: fetch_start("imagenet:resnet50_v1", **empty))
