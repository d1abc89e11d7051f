from detection_core.artifacts.ensemble import ENSEMBLE, Ensemble
from detection_core.artifacts.model_path import find_model
from detection_core.artifacts.published import Deployment, write_deployment
from detection_core.errors import ContractError
from detection_core.storage import files
from tests.support.cases import cases, refused


def test_a_destination_stands_for_its_deployed_version_and_a_folder_of_files_for_the_only_one(tmp_path):
    write_deployment(str(tmp_path), Deployment(7, ()))
    assert find_model(str(tmp_path)) == str(tmp_path / "saved_model" / "7")
    write_deployment(str(tmp_path), Deployment(None, (7,)))
    refused(ContractError, "expected a deployed version, found none", find_model, str(tmp_path))
    folder = tmp_path / "tflite"
    files.write_text(f"{folder}/labels.txt", "cat")
    assert find_model(str(folder)) == str(folder)
    (folder / "model_int8.tflite").write_bytes(b"")
    assert find_model(str(folder)) == str(folder / "model_int8.tflite")
    (folder / "model_float32.tflite").write_bytes(b"")
    found = r"found 2 \.tflite files; pass one of them: model_float32\.tflite, "
    refused(ContractError, found, find_model, str(folder))


@cases("saved_model.pb", "Format-Serving/saved_model.pb")
def test_every_other_path_stays_as_it_is(tmp_path, *, inside):
    path = tmp_path / inside
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"")
    (tmp_path / "model.tflite").write_bytes(b"")
    ensemble = tmp_path / "ensemble"
    ensemble.mkdir()
    ENSEMBLE.write(str(ensemble), Ensemble(detectors=("a.tflite",), iou_threshold=0.5))
    (ensemble / "a.tflite").write_bytes(b"")
    for given in ("", "missing", tmp_path, tmp_path / "model.tflite", ensemble):
        assert find_model(str(given)) == str(given)
