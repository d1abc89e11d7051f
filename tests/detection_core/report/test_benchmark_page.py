from detection_core.report.benchmark_page import benchmark_page
from tests.support.artifact_samples import benchmark


def test_the_page_has_every_figure_and_escapes_what_it_shows():
    page = benchmark_page(benchmark())
    figures = ("2.00", "3.50", "500.0", "1.250 (2, 2)")
    for text in ("a/m.tflite", *figures, "CONV_2D", "a &lt;note&gt;", "unknown"):
        assert text in page
    assert "<m>" not in page and "b/&lt;m&gt;.tflite" in page
    assert "<script" not in page and page.count("<table>") == 3
