import os

from component_specs import BaselineResolverJob
from components.baseline_resolver.run import run
from components.publishing.destination import PushDestination
from components.runtime.bind import ABSENT
from detection_core.artifacts.published import PublishedVersion
from detection_core.errors import ContractError
from detection_core.storage import files
from tests.support.cases import refused


def _job(tmp_path, version=""):
    places = {"baseline": str(tmp_path / "baseline"), "push_destination": str(tmp_path / "pushed")}
    return BaselineResolverJob(**places, baseline_version=str(version))


def _copied(tmp_path):
    return (tmp_path / "baseline" / "Format-Serving" / "saved_model.pb").read_text()


def test_the_first_run_has_no_baseline(tmp_path):
    run(_job(tmp_path))
    assert os.listdir(tmp_path / "baseline") == [ABSENT]
    refused(ContractError, "expected version 7", run, _job(tmp_path, "7"))


def test_the_named_version_is_copied_or_if_it_is_pruned_meanwhile_the_deployed_one(tmp_path, monkeypatch):
    destination = PushDestination(str(tmp_path / "pushed"))
    for text in ("one", "two", "three"):
        files.write_text(str(tmp_path / "source" / "saved_model.pb"), text)
        destination.publish(str(tmp_path / "source"), "", PublishedVersion(number=0), 2)
        if text == "one":
            first = destination.current().number
            run(_job(tmp_path, first))
            assert _copied(tmp_path) == "one"
    run(_job(tmp_path, first))
    assert _copied(tmp_path) == "three"
    second = destination.versions()[0].number
    copy = files.copy_tree

    def pruned_while_it_is_copied(source, folder):
        copy(source, folder)
        monkeypatch.undo()
        files.remove_tree(f"{folder}/saved_model.pb")
        destination.publish(str(tmp_path / "source"), "", PublishedVersion(number=0), 2)

    monkeypatch.setattr(files, "copy_tree", pruned_while_it_is_copied)
    run(_job(tmp_path, second))
    assert _copied(tmp_path) == "three"
