from __future__ import annotations

import json
from pathlib import Path

import pytest

from pipeline.cli import parser
from tests.pipeline.doctor.conftest import kube_server  # noqa: F401
from tests.pipeline.kubeflow.conftest import clean_environment, server  # noqa: F401

SETTINGS = str(Path(__file__).parents[3] / "examples" / "kubeflow" / "settings.yaml")


def test_the_machine_is_told_in_lines(capsys):
    code = parser.main(["doctor"])
    lines = capsys.readouterr().out.splitlines()
    assert code in (0, 2)
    assert any(line.startswith("ok        python") for line in lines)
    assert lines[-1].startswith(f"problems: {0 if code == 0 else ''}")


@pytest.fixture
def cluster(kube_server, server, capsys):  # noqa: F811
    def doctor(*arguments):
        code = parser.main(["doctor", "--cluster", "--host", server.url, "--json", *arguments])
        return code, json.loads(capsys.readouterr().out)

    return doctor


def test_the_claims_images_and_accounts_are_those_of_the_settings(cluster):
    code, answer = cluster("--settings", SETTINGS)
    found = [f["found"] for f in answer["findings"] if f["check"] in ("claims", "account", "images")]
    assert code == 2 and not answer["healthy"]
    assert any("no service account detflow-runner" in line for line in found)
    assert any(
        "detflow-work: detflow has no such claim; mounted by trainer" in line for line in found
    ) or any("detflow-work: kubeflow has no such claim; mounted by trainer" in line for line in found)
    assert any(line.startswith("detflow:0.1.0: names no registry") for line in found)


def test_every_check_of_a_cluster_is_in_the_answer(cluster):
    from pipeline.doctor.cluster import CLUSTER_CHECKS

    _, answer = cluster()
    silent = {"rights"}  # on a server without users
    assert {f["check"] for f in answer["findings"]} == {c.name for c in CLUSTER_CHECKS} - silent


def test_a_kubeconfig_that_is_missing_is_one_message(capsys, clean_environment):  # noqa: F811
    assert parser.main(["doctor", "--cluster"]) == 2
    assert "expected a kubeconfig" in capsys.readouterr().err
