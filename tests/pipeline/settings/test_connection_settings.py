import pydantic

from pipeline.settings.connection_settings import ConnectionOptions, ConnectionSettings
from pipeline.settings.kubeflow_settings import KubeflowSettings
from tests.support.refusals import not_refused


def test_the_options_of_a_connection_are_the_keys_of_the_settings_and_an_address_is_one_of_http():
    section = ConnectionSettings(ui_host="https://ui", timeout=5)
    kubeflow = KubeflowSettings(host="http://h", namespace="team", connection=section)
    expected = ConnectionOptions(host="http://h", namespace="team", ui_host="https://ui", timeout=5)
    assert kubeflow.connection_options() == expected
    own = set(ConnectionOptions.model_fields) - set(ConnectionSettings.model_fields)
    assert own == {"host", "namespace"} < set(KubeflowSettings.model_fields)
    for address in ("http://h", "https://h:8/pipeline", ""):
        assert ConnectionOptions(host=address).host == address
    wrong = ("h:80", "ftp://h", "http://", "http://u:p@h", "http://h/ x", "http://h\n")
    cases = [(address, "host") for address in wrong]
    assert not not_refused(lambda host: ConnectionOptions(host=host), cases, pydantic.ValidationError)
