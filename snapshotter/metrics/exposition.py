"""Figures as Prometheus reads them: its text form, or OpenMetrics where the scraper asks for that."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from snapshotter.metrics.catalogue import CATALOGUE
from snapshotter.metrics.figures import Figure, Kind
from snapshotter.reporting.status import Metrics

_TYPES = {Kind.GAUGE: "gauge", Kind.COUNTER: "counter", Kind.UNTYPED: "unknown"}


class _Shown(Collector):
    """What is shown in answer to one scrape."""

    def __init__(self, metrics: Metrics, labels: Mapping[str, str]) -> None:
        self._metrics = metrics
        self._labels = dict(labels)

    def collect(self) -> Iterator[Metric]:
        for figure in CATALOGUE:
            value = self._metrics.get(figure.context, {}).get(figure.name)
            if value is not None:
                yield self._family(figure, value if isinstance(value, dict) else {"": value})

    def _family(self, figure: Figure, values: Mapping[str, int | float]) -> Metric:
        family = Metric(figure.full_name.removesuffix("_total"), figure.meaning, _TYPES[figure.kind])
        for part, value in values.items():
            labels = {**self._labels, figure.label: part} if figure.label else self._labels
            family.add_sample(figure.full_name, labels, value)
        return family


def exposed(metrics: Metrics, labels: Mapping[str, str], accept: str) -> tuple[bytes, str]:
    """The text of ``metrics``, each series with these ``labels``, and its content type; in the form that the header
    ``accept`` of the request prefers."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Shown(metrics, labels))
    encode, content_type = choose_encoder(accept)
    return encode(registry), content_type
