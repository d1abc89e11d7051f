from __future__ import annotations

import pydantic
import pytest

from pipeline.settings.connection_settings import ConnectionOptions, ConnectionSettings
from pipeline.settings.kubeflow_settings import KubeflowSettings


def test_the_options_of_a_connection_are_the_keys_of_the_settings():
    section = ConnectionSettings(ui_host="https://ui", timeout=5)
    kubeflow = KubeflowSettings(host="http://h", namespace="team", connection=section)
    assert kubeflow.connection_options() == ConnectionOptions(
        host="http://h", namespace="team", ui_host="https://ui", timeout=5
    )
    own = set(ConnectionOptions.model_fields) - set(ConnectionSettings.model_fields)
    assert own == {"host", "namespace"} < set(KubeflowSettings.model_fields)


@pytest.mark.parametrize("address", ["http://h", "https://h:8/pipeline", ""])
def test_an_address_is_one_of_http(address):
    assert ConnectionOptions(host=address).host == address


@pytest.mark.parametrize(
    "address", ["h:80", "ftp://h", "http://", "http://u:p@h", "http://h/ x", "http://h\n"]
)
def test_any_other_address_is_refused(address):
    with pytest.raises(pydantic.ValidationError):
        ConnectionOptions(host=address)
