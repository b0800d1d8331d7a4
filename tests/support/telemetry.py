"""What OpenTelemetry's own in-memory exporters got: spans by name, metrics as numbers."""

from __future__ import annotations

from typing import Any

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from foreplan import Telemetry

__all__ = ["Told"]


class Told:
    """A `Telemetry`, and what was exported of it."""

    def __init__(self, **options: Any) -> None:
        self._spans = InMemorySpanExporter()
        self._reader = InMemoryMetricReader()
        self.tracers = TracerProvider(shutdown_on_exit=False)
        self.tracers.add_span_processor(SimpleSpanProcessor(self._spans))
        self.meters = MeterProvider([self._reader], shutdown_on_exit=False)
        self.telemetry = Telemetry(self.tracers, self.meters, **options)

    @property
    def spans(self) -> list[ReadableSpan]:
        """All spans that ended, the first to end first."""
        return list(self._spans.get_finished_spans())

    def named(self, name: str) -> list[ReadableSpan]:
        """The spans of this name."""
        return [span for span in self.spans if span.name == name]

    def below(self, span: ReadableSpan) -> list[str]:
        """The names of the spans right below this one."""
        return [s.name for s in self.spans if s.parent and s.parent.span_id == span.context.span_id]

    @property
    def everything(self) -> str:
        """All that was exported, as text: nothing that must not leave may be in it."""
        data = self._reader.get_metrics_data()
        return "\n".join([*(span.to_json() for span in self.spans), data.to_json() if data else ""])

    def metric(self, name: str) -> dict[tuple[Any, ...], Any]:
        """The points of a metric by their attributes' values, those in order of their names; of a histogram, the count."""
        found = self._points()
        return {
            tuple(value for _, value in sorted(p.attributes.items())): _number(p)
            for of, p in found
            if of == name
        }

    def total(self, name: str) -> float:
        """What a histogram adds up to, over all of its points."""
        return float(sum(point.sum for of, point in self._points() if of == name))

    @property
    def points(self) -> set[tuple[str, str]]:
        """The names and attributes of all points: how many of them somebody has to keep."""
        return {(of, str(sorted(point.attributes.items()))) for of, point in self._points()}

    def _points(self) -> list[tuple[str, Any]]:
        data = self._reader.get_metrics_data()
        return [
            (metric.name, point)
            for resource in (data.resource_metrics if data else ())
            for scope in resource.scope_metrics
            for metric in scope.metrics
            for point in metric.data.data_points
        ]


def _number(point: Any) -> Any:
    return point.count if hasattr(point, "bucket_counts") else point.value
