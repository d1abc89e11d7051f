import os

import pytest

from detection_core.errors import ConfigError, DataError
from detection_core.storage import files, store_connection
from detection_core.storage.schemes import store_of
from tests.support.cases import cases
from tests.support.object_store import dead_server, s3_server


@cases(("s3", "s3fs", "s3"), ("gs", "gcsfs", "gcs"), ("az", "adlfs", "azure"))
def test_a_missing_package_is_one_message_with_the_line_for_pip(monkeypatch, *, scheme, module, extra):
    monkeypatch.setattr(store_connection, "_connected", {})

    def absent(name):
        raise ModuleNotFoundError(f"No module named {name!r}")

    monkeypatch.setattr(store_connection.importlib, "import_module", absent)
    with pytest.raises(ConfigError, match=rf"expected {module} .*`pip install 'detflow\[{extra}\]'`"):
        files.exists(f"{scheme}://bucket/a")


def test_a_connection_is_made_once_and_errors_of_the_store_are_translated(monkeypatch):
    store = store_of("s3://")
    with s3_server():
        first = store.file_system
        assert store.file_system is first
        monkeypatch.setattr(os, "getpid", lambda: -1)
        assert store.file_system is not first
    with dead_server():
        assert store.file_system is not first
    for error, kind in ((TimeoutError("late"), DataError), (FileNotFoundError("a"), FileNotFoundError)):
        with pytest.raises(kind, match="s3://bucket/a"), store._answering("s3://bucket/a"):
            raise error
    for error in (KeyError("a mistake"), OSError(28, "No space left on device")):
        with pytest.raises(type(error)) as caught, store._answering("s3://bucket/a"):
            raise error
        assert caught.value is error
