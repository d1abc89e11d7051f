from pipeline.settings import kubernetes_names as names

RULES = [
    (names.OBJECT_NAME, ["a", "ca.crt", "x" * 253], ["", "A", "a_b", "-a", "a-", "x" * 254, "a..b"]),
    (names.NAMESPACE_OR_NOTHING, ["", "detflow", "x" * 63], ["a.b", "x" * 64, "-a", "Default"]),
    (names.KEY, ["tls.crt", "_x", "9"], ["", "a b", "a/b"]),
    (names.VARIABLE, ["PATH", "_a", "a.b-c"], ["", "1A", "A=B", "é"]),
    (names.LABEL_KEY, ["disk", "kubernetes.io/arch"], ["", "a/b/c", "-a", "x" * 64, "/a"]),
    (names.LABEL_VALUE, ["", "amd64", "a_b"], ["a b", "-a", "x" * 64]),
    (names.RESOURCE, ["nvidia.com/gpu"], ["gpu", "", "a/"]),
    (names.FOLDER, ["/", "/data"], ["", "data", "~/x"]),
    (names.CPUS, ["", "2", "0.5", "500m"], ["two", "-1", "1e3", "0.5m"]),
    (names.MEMORY, ["", "8Gi", "500M"], ["8GB", "1.5Gi", "8K", "-1", "1024"]),
    (names.SECONDS, ["30s"], ["30", "1m", ""]),
    (names.IMAGE, ["detflow:latest", "r.io/a/b@sha256:0"], ["", " a", "a b"]),
]


def test_names_and_quantities_as_kubernetes_takes_them():
    for rule, good, bad in RULES:
        assert [text for text in good if not rule.holds(text)] == []
        assert [text for text in bad if rule.holds(text)] == []
