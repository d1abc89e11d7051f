from detection_core.artifacts.data_statistics import Histogram, SampleStatistics
from detection_core.artifacts.span_statistics import SPAN_STATISTICS, SpanStatistics
from detection_core.errors import ContractError
from tests.support.cases import refused


def test_statistics_of_a_span_are_read_as_they_were_written(tmp_path):
    histogram = Histogram(bins=["cat"], counts=[3], squares=[5], products=[5], images=[2], total_squares=5)
    statistics = SampleStatistics(images=4, empty_images=2, objects=3, histograms={"class": histogram})
    kept = SpanStatistics(span="2026-11-21", statistics=statistics)
    SPAN_STATISTICS.write(str(tmp_path), kept)
    assert SPAN_STATISTICS.read(str(tmp_path)) == kept
    (tmp_path / SPAN_STATISTICS.name).write_text('{"span": 1}')
    refused(ContractError, "remove it", SPAN_STATISTICS.read, str(tmp_path))
