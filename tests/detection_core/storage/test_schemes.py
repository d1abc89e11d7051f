import subprocess
import sys

from detection_core.errors import DataError
from detection_core.storage.schemes import is_remote, opened_by_tensorflow, store_of
from tests.support.cases import refused


def test_each_scheme_has_its_store_and_paths_with_credentials_are_not_shown():
    extras = {scheme: store_of(f"{scheme}://bucket/a").extra for scheme in ("s3", "gs", "gcs", "abfs", "az")}
    assert extras == {"s3": "s3", "gs": "gcs", "gcs": "gcs", "abfs": "azure", "az": "azure"}
    for first in ("s3", "gs", "abfs"):
        store = store_of(f"{first}://bucket/a")
        assert store.schemes[0] == first
        assert all(store_of(f"{scheme}://bucket/a") is store for scheme in store.schemes)
    assert is_remote("abfss://bucket/a") and not is_remote("file:///a") and not is_remote("/a")
    for path in ("http://nowhere/x", "hdfs://nowhere/x"):
        refused(DataError, r"expected a local path or one of .*, s3://, found h", store_of, path)
    for path in ("s3://KEY-SENTINEL:s/SENTINEL@b/x", "gs://b/x?token=SENTINEL", "abfss://c:SENTINEL@a.dfs/x"):
        error = refused(DataError, "expected a path without credentials", store_of, path)
        assert "SENTINEL" not in str(error)


def test_tensorflow_opens_local_paths_and_google_cloud_storage(monkeypatch):
    monkeypatch.delenv("STORAGE_EMULATOR_HOST", raising=False)
    opened = {p: opened_by_tensorflow(p) for p in ("/a", "file:///a", "gs://b/a", "s3://b/a", "az://b/a")}
    assert opened == {"/a": True, "file:///a": True, "gs://b/a": True, "s3://b/a": False, "az://b/a": False}
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", "http://127.0.0.1:1")
    assert not opened_by_tensorflow("gs://b/a")
    import tensorflow as tf

    assert {"gs"} == {"gs", "s3", "az", "abfs"} & set(tf.io.gfile.get_registered_schemes())


def test_a_local_path_imports_no_store():
    program = """
import sys
from detection_core.storage import files
files.exists("/x")
heavy = {"fsspec", "s3fs", "gcsfs", "adlfs", "botocore", "azure", "aiohttp", "tensorflow"}
print(sorted(heavy & set(sys.modules)), "detection_core.storage.object_store" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[] False\n"
