from detection_core.artifacts.data_findings import FoundExample
from detection_core.errors import ConfigError
from detection_core.validation.checks import CHECKS, EXAMPLES_LISTED, FindingList, Limit, make_limits
from tests.support.cases import cases, refused


def test_checks_warn_until_the_settings_say_otherwise_and_are_ordered_by_severity():
    limits = make_limits({})
    assert limits.keys() == CHECKS.keys()
    assert {limit.severity for limit in limits.values()} == {"warn"}
    changed = make_limits({"leakage": {"severity": "stop"}, "rare_class": {"threshold": 3}})
    assert changed["leakage"] == Limit(threshold=CHECKS["leakage"].threshold, severity="stop")
    assert changed["rare_class"] == Limit(threshold=3.0, severity="warn")
    findings = _list(duplicates={"severity": "stop"}, empty_images={"severity": "off"})
    for check in ("leakage", "duplicates", "empty_images"):
        findings.add(check, "eval", "found", measured=0.5)
    assert [f.id for f in findings.findings()] == ["duplicates:eval", "leakage:eval"]
    outcomes = findings.outcomes()
    assert (outcomes["duplicates"], outcomes["leakage"], outcomes["empty_images"]) == ("stop", "warn", "off")
    assert outcomes["rare_class"] == "passed"
    findings = _list()
    findings.could_not("leakage", "there is one split")
    assert findings.outcomes()["leakage"] == "there is one split"
    findings = _list(leakage={"threshold": 0.5})
    findings.add_above("leakage", "eval", "found", measured=0.5)
    assert findings.findings() == []
    findings.add_above("leakage", "test", "found", measured=0.51)
    assert [(f.measured, f.threshold) for f in findings.findings()] == [(0.51, 0.5)]
    findings = _list()
    many = [FoundExample(split="eval", source_id=str(i), record=i) for i in range(500)]
    findings.add("leakage", "eval", "found", measured=1.0, count=500, examples=many)
    [finding] = findings.findings()
    assert len(finding.examples) == EXAMPLES_LISTED and finding.count == 500


@cases(
    ({"leekage": {}}, "found 'leekage'; did you mean leakage?"),
    ({"leakage": {"limit": 1}}, "expected threshold and severity, found 'limit'"),
    ({"leakage": {"threshold": 2}}, "expected 0 to 1 "), ({"leakage": {"threshold": "much"}}, "found 'much'"),
    ({"leakage": {"threshold": True}}, "found True"), ({"leakage": {"threshold": float("nan")}}, "found nan"),
    ({"leakage": {"severity": "halt"}}, "expected one of off, warn, stop, found 'halt'"),
)  # fmt: skip
def test_what_is_no_check_is_refused_with_its_place(*, given, message):
    assert refused(ConfigError, message.replace("?", r"\?"), make_limits, given).where.startswith("checks")


def _list(**given):
    return FindingList(make_limits(given))
