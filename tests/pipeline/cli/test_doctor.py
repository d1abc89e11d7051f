"""The verb that looks at this machine and at a cluster."""

import pytest

from pipeline.doctor.cluster import CLUSTER_CHECKS
from tests.pipeline.doctor.conftest import kube_server  # noqa: F401
from tests.pipeline.golden import SETTINGS


def test_the_machine_is_told_in_lines(capsys):
    from pipeline.cli import parser

    code = parser.main(["doctor"])
    lines = capsys.readouterr().out.splitlines()
    assert code in (0, 2)
    assert any(line.startswith("ok        python") for line in lines)
    assert lines[-1].startswith(f"problems: {0 if code == 0 else ''}")


@pytest.fixture
def words(kube_server, server):  # noqa: F811
    return ["doctor", "--cluster", "--host", server.url]


def test_the_claims_images_and_accounts_are_those_of_the_settings(words, cli):
    answer = cli.json(*words, "--settings", SETTINGS, code=2)
    found = [f["found"] for f in answer["findings"] if f["check"] in ("claims", "account", "images")]
    assert not answer["healthy"]
    assert any("no service account detflow-runner" in line for line in found)
    assert any(
        "detflow-work: " in line and " has no such claim; mounted by trainer" in line for line in found
    )
    assert any(line.startswith("detflow:0.1.0: names no registry") for line in found)


def test_every_check_of_a_cluster_is_in_the_answer(words, cli):
    answer = cli.json(*words, code=2)
    silent = {"rights"}  # on a server without users
    assert {f["check"] for f in answer["findings"]} == {c.name for c in CLUSTER_CHECKS} - silent


def test_a_kubeconfig_that_is_missing_is_one_message(cli):
    assert "expected a kubeconfig" in cli.refused("doctor", "--cluster")
