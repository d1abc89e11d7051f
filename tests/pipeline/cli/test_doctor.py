from pipeline.cli import parser
from pipeline.doctor.cluster import CLUSTER_CHECKS
from tests.pipeline.doctor.conftest import kube_server  # noqa: F401
from tests.pipeline.golden import SETTINGS


def test_the_machine_is_told_in_lines_and_a_missing_kubeconfig_in_one(capsys, cli):
    code = parser.main(["doctor"])
    lines = capsys.readouterr().out.splitlines()
    assert code in (0, 2) and any(line.startswith("ok        python") for line in lines)
    assert lines[-1].startswith(f"problems: {0 if code == 0 else ''}")
    assert "expected a kubeconfig" in cli.refused("doctor", "--cluster")


def test_the_claims_images_and_accounts_are_those_of_the_settings(kube_server, server, cli):  # noqa: F811
    words = ["doctor", "--cluster", "--host", server.url]
    answer = cli.json(*words, "--settings", SETTINGS, code=2)
    found = [f["found"] for f in answer["findings"] if f["check"] in ("claims", "account", "images")]
    assert not answer["healthy"] and any("no service account detflow-runner" in line for line in found)
    assert any("detflow-work: " in x and " has no claim of this name; mounted by trainer" in x for x in found)
    assert any(line.startswith("detflow:0.1.0: names no registry") for line in found)
    answer = cli.json(*words, code=2)
    silent = {"rights"}  # on a server without users
    assert {f["check"] for f in answer["findings"]} == {c.name for c in CLUSTER_CHECKS} - silent
