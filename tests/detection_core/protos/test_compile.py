"""Generated modules and the .proto files must belong together."""

import pytest

from detection_core.protos import compile as compiling
from tests.support.cases import refused
from tests.support.command_line import run_python

pytest.importorskip("grpc_tools")


def test_checked_in_modules_are_what_the_compiler_gives():
    assert compiling.main(["--check"]) == 0


def test_a_changed_proto_is_found_and_recompiled(tmp_path, monkeypatch, capsys):
    folder = tmp_path / "detection_core" / "protos"
    folder.mkdir(parents=True)
    for name in ("fpn.proto", "matcher.proto", "argmax_matcher.proto", "bipartite_matcher.proto"):
        (folder / name).write_bytes((compiling.FOLDER / name).read_bytes())
    monkeypatch.setattr(compiling, "FOLDER", folder)
    monkeypatch.setattr(compiling, "SOURCE_ROOT", tmp_path)
    compiling.recompile()
    proto = folder / "fpn.proto"
    proto.write_text(proto.read_text().replace("default = 256", "default = 128"))
    assert compiling.main(["--check"]) == 1
    assert "fpn_pb2.py differs" in capsys.readouterr().err
    assert compiling.main([]) == 0
    assert compiling.main(["--check"]) == 0
    # A module without its file is removed.
    proto.unlink()
    assert compiling.drifted_files() == ["fpn_pb2.py", "fpn_pb2.pyi"]
    compiling.recompile()
    assert not list(folder.glob("fpn_pb2*"))
    proto.write_text("message {")
    refused(RuntimeError, "protoc ended with status 1", compiling.drifted_files)


def test_messages_and_readers_of_them_import_no_heavy_libraries():
    code = "import sys, detection_core.config.load, detection_core.config.automl.hparams"
    code += "; sys.exit(not sys.modules.keys().isdisjoint(('tensorflow', 'numpy', 'grpc_tools')))"
    run_python(code)
