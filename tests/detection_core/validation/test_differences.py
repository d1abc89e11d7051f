from benchmarks.drift_false_alarms import draw_images
from detection_core.artifacts.data_statistics import DataStatistics
from detection_core.validation.differences import Before, check_differences
from tests.detection_core.validation.samples import findings_of

CATS, DOGS = {"cat": 0.9, "dog": 0.1}, {"cat": 0.1, "dog": 0.9}


def _statistics(train=CATS, **fields):
    splits = {"train": draw_images(300, train, seed=1), "eval": draw_images(100, train, seed=2)}
    return DataStatistics(classes=["cat", "dog"], splits=splits, **fields)


def _found(statistics, baseline=None, earlier=None):
    findings = findings_of(check_differences, statistics, Before(spans=earlier or {}, baseline=baseline))
    return {f.id for f in findings.findings()}, findings.outcomes()


def test_alike_samples_differ_in_nothing_and_a_split_of_another_kind_is_found():
    found, outcomes = _found(_statistics())
    assert found == set() and outcomes["split_drift"] == "passed"
    assert outcomes["span_drift"] == "the training data are not of spans"
    assert "fifty folders" in outcomes["folder_drift"]
    assert outcomes["baseline_drift"] == "there are no statistics of a deployed model's data"
    assert _found(_statistics(), _statistics())[0] == set()
    splits = {**_statistics().splits, "eval": draw_images(100, DOGS, seed=6)}
    other = DataStatistics(classes=["cat", "dog"], splits=splits)
    [finding] = findings_of(check_differences, other, Before()).findings()
    assert finding.id == "split_drift:eval against train"
    assert "% in train, " in finding.message and "% in eval" in finding.message
    assert " before" not in finding.message


def test_the_newest_span_is_compared_with_all_before_it_or_known_from_earlier():
    kinds = {"1": CATS, "2": CATS, "3": DOGS}
    spans = {name: draw_images(100, kind, seed=2 + int(name)) for name, kind in kinds.items()}
    assert _found(_statistics(spans=spans))[0] == {"span_drift:span 3 against spans 1 to 2"}
    del spans["1"]
    assert _found(_statistics(spans=spans))[0] == {"span_drift:span 3 against span 2"}
    alone = _statistics(spans={"9": draw_images(100, DOGS, seed=5)})
    found, outcomes = _found(alone)
    assert found == set() and outcomes["span_drift"] == "span 9 is the first that is known; see data.window"
    earlier = {"7": draw_images(100, CATS, seed=3), "8": draw_images(100, CATS, seed=4)}
    assert _found(alone, earlier=earlier)[0] == {"span_drift:span 9 against spans 7 to 8"}
    # What the examples still have of a span counts, not what was kept of it.
    both = _statistics(spans={"8": draw_images(100, DOGS, seed=8), "9": draw_images(100, DOGS, seed=5)})
    assert _found(both, earlier={"8": earlier["8"]})[0] == set()


def test_data_that_differ_from_the_deployed_model_s_or_other_folders_are_found():
    found, _ = _found(_statistics(train=DOGS), _statistics(train=CATS))
    assert found == {"baseline_drift:train against what the deployed model was trained on"}
    found, _ = _found(_statistics(train={"cat": 1.0}), _statistics())
    assert "vanished_class:train against what the deployed model was trained on" in found
    folders = {name: draw_images(100, CATS, seed=n) for n, name in enumerate("abc")}
    assert _found(_statistics(folders=folders))[0] == set()
    folders["b"] = draw_images(100, DOGS, seed=9)
    folders["d"] = draw_images(5, DOGS, seed=9)
    found, _ = _found(_statistics(folders=folders))
    assert "folder_drift:the folder b against the others" in found
    assert not any("folder d" in name for name in found)
