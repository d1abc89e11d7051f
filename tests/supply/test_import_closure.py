"""Which files a test needs, which tests a change concerns, and what is kept in the store for that."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tests.support import changed_files, store
from tests.support.executed import Record, function_lines
from tests.support.import_closure import ROOT, closure_digest, import_closure, imported_files


def _closure(*names: str) -> set[str]:
    return {str(path.relative_to(ROOT)) for path in import_closure(ROOT / name for name in names)}


def test_a_closure_has_what_is_imported_at_any_depth_late_or_by_name_and_a_digest_follows_it(tmp_path):
    found = _closure("tests/detection_core/ops/test_iou.py")
    assert {"detection_core/ops/iou.py", "detection_core/ops/boxes.py", "tests/conftest.py"} <= found
    assert "detection_core/api.py" not in found  # the package's face imports it only when it is asked for
    families = _closure("detection_core/detectors/family.py")
    assert "detection_core/families/efficientdet/family.py" in families  # named in a table
    verbs = _closure("pipeline/cli/standalone.py")
    assert "components/trainer/run.py" in verbs  # named by a pattern
    module = tmp_path / "module.py"
    types = "if TYPE_CHECKING:\n    from detection_core.api import train\n\n"
    module.write_text(f"{types}from detection_core.errors import (\n    DataError,\n    StorageError,\n)\n")
    assert imported_files(module) == {ROOT / "detection_core" / "errors.py"}
    iou, masks = (ROOT / "detection_core" / "ops" / name for name in ("iou.py", "mask_runs.py"))
    assert closure_digest(iou) == closure_digest(iou) != closure_digest(masks)


def test_a_change_concerns_the_tests_that_need_it() -> None:
    leaf = changed_files.tests_of(["detection_core/ops/objects.py"])
    assert "tests/detection_core/ops/test_keypoints.py" in leaf
    assert "tests/detection_core/ops/test_iou.py" not in leaf
    page = changed_files.tests_of(["docs/migrating.md"])
    readers = {
        f"tests/docs/test_{name}.py" for name in ("automl_page", "family_cost", "language", "reference")
    }
    readers.add("tests/pipeline/cli/test_config.py")
    assert readers <= set(page) <= readers | {"tests/supply/test_import_closure.py"}
    all_tests = changed_files.tests_of(["requirements.lock"])
    assert len(all_tests) > 250 and set(leaf) < set(all_tests)
    assert changed_files.tests_of(["tests/conftest.py"]) == all_tests


def test_lines_of_functions_run_when_they_are_called_and_the_record_names_what_runs_a_module():
    source = "LIMIT = 1\n\n\ndef bound(value, low=LIMIT):\n    low += 1\n    # why\n    return value < low\n"
    assert function_lines(source) == {5, 6, 7}
    record, module = Record(), "detection_core/augment/mixing.py"
    assert "tests/detection_core/builders/test_training_stream.py" in (record.tests_of(module) or ())
    assert record.tests_of("detection_core/no_such.py") is None


def _fill(folder: Path, *, word: str) -> None:
    (folder / "word.txt").write_text(word)


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(store, "_root", lambda: tmp_path)
    return tmp_path


def test_old_entries_go_a_maker_that_fails_leaves_none_and_one_is_made_once_for_its_settings(root):
    old = store.stored(_fill, word="old")
    os.utime(old, (0, time.time() - store.UNUSED_SECONDS - 1))
    with pytest.raises(TypeError):
        store.stored(_fill, sentence="no such setting")
    assert not [entry for entry in root.glob("test_*._fill-*") if entry.is_dir()]
    one, other = store.stored(_fill, word="one"), store.stored(_fill, word="other")
    (one / "mark").touch()
    assert store.stored(_fill, word="one") == one and (one / "mark").exists()
    assert (one / "word.txt").read_text() == "one" and (other / "word.txt").read_text() == "other"
