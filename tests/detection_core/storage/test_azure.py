"""What is Azure's own; the rest is in test_object_store.py."""

import os
import types

import pytest

from detection_core.errors import ConfigError, DataError
from detection_core.storage import azure, files
from detection_core.storage.schemes import store_of
from tests.support.cases import refused
from tests.support.object_store import azure_server


def test_accounts_and_folders_are_azure_s_own(monkeypatch):
    for name in azure._VARIABLES:
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ConfigError, match="AZURE_STORAGE_ACCOUNT_NAME: expected a storage account") as caught:
        files.exists("abfs://container/a")
    assert "AZURE_STORAGE_CONNECTION_STRING" in str(caught.value)
    monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", "AccountKey=c2VjcmV0LVNFTlRJTkVM;")
    error = refused(ConfigError, "found none that can be used", files.exists, "abfs://container/a")
    assert "c2VjcmV0" not in str(error)
    # They are listed as empty blobs with `hdi_isfolder`: "List Blobs", Azure Blob Storage REST API.
    for metadata, expected in (
        ({"hdi_isfolder": "true"}, True),
        ({"Hdi_isfolder": "true"}, True),
        (None, False),
    ):
        assert azure.is_folder(types.SimpleNamespace(metadata=metadata)) == expected, metadata
    store = store_of("abfss://")
    assert store._split("abfss://box@account.dfs.core.windows.net/a/b/") == ("box", "a/b")
    refused(DataError, "without a question mark", store.exists, "abfs://box/a?b")


def test_a_key_that_does_not_fit_is_refused(monkeypatch):
    with azure_server() as bucket:
        text = os.environ["AZURE_STORAGE_CONNECTION_STRING"]
        monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", text.replace("Eby8", "Eby9"))
        error = refused(DataError, r"found Auth[a-zA-Z]+ \(", files.read_bytes, f"{bucket}/a")
        assert error.where == f"{bucket}/a"
