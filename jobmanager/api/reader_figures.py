"""What reader processes report of themselves, shown among the server's own figures."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.samples import Sample

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]
"""Values by the name of the sample and its labels."""


@dataclass(frozen=True, slots=True)
class ReaderFigures:
    pid: int
    cpu_seconds: float
    resident_bytes: int
    phases: Mapping[str, int]
    """Open connections."""
    closed: Mapping[str, int]
    """Connections that the process refused or broke off, by the reason."""
    requests: Samples
    """Of the histogram of requests."""

    def told(self) -> dict[str, Any]:
        return {
            "pid": self.pid,
            "cpu_seconds": self.cpu_seconds,
            "resident_bytes": self.resident_bytes,
            "phases": dict(self.phases),
            "closed": dict(self.closed),
            "requests": [[name, labels, n] for (name, labels), n in self.requests.items()],
        }


def figures_in(told: Mapping[str, Any]) -> ReaderFigures:
    requests: Samples = {
        (name, tuple((label, value) for label, value in labels)): n
        for name, labels, n in told["requests"]
    }
    return ReaderFigures(
        told["pid"], told["cpu_seconds"], told["resident_bytes"], told["phases"], told["closed"],
        requests,
    )  # fmt: skip


@dataclass
class FiguresOfReaders:
    """The last report of each reader, and the sums of those that have ended."""

    wanted: int = 0
    starts: int = 0
    """Readers that were started, the first ones and their successors."""
    current: dict[int, ReaderFigures] = field(default_factory=dict)
    """By number; only of readers that accept connections."""
    _ended: Samples = field(default_factory=dict)
    _closed: dict[str, int] = field(default_factory=dict)

    def ended(self, number: int) -> None:
        """Keep the counts of a reader that has ended: the sums must not go down."""
        gone = self.current.pop(number, None)
        if gone is not None:
            _add(self._ended, _counts(gone.requests))
            for reason, count in gone.closed.items():
                self._closed[reason] = self._closed.get(reason, 0) + count

    def phases(self) -> Mapping[str, int]:
        found: dict[str, int] = {}
        for one in self.current.values():
            for phase, count in one.phases.items():
                found[phase] = found.get(phase, 0) + count
        return found

    def closed(self) -> Mapping[str, int]:
        found = dict(self._closed)
        for one in self.current.values():
            for reason, count in one.closed.items():
                found[reason] = found.get(reason, 0) + count
        return found

    def with_requests(self, families: Iterable[Metric]) -> Iterator[Metric]:
        """Add the requests of readers to the server's own histogram of requests."""
        more: Samples = {}
        _add(more, self._ended)
        for one in self.current.values():
            _add(more, _counts(one.requests))
        of_requests = {name.rpartition("_")[0] for name, _ in more}
        for family in families:
            yield _sum(family, more) if family.name in of_requests else family

    def metrics(self) -> Iterator[Metric]:
        if not self.wanted:
            return
        yield GaugeMetricFamily("headgate_readers", "Reader processes wanted.", self.wanted)
        yield GaugeMetricFamily(
            "headgate_readers_ready", "Reader processes that accept connections.",
            len(self.current),
        )  # fmt: skip
        yield CounterMetricFamily(
            "headgate_reader_starts", "Starts of reader processes.", self.starts
        )
        cpu = CounterMetricFamily(
            "headgate_reader_cpu_seconds", "CPU time of a reader process.", labels=["reader"]
        )
        memory = GaugeMetricFamily(
            "headgate_reader_resident_bytes", "Memory of a reader process.", labels=["reader"]
        )
        for number, one in sorted(self.current.items()):
            cpu.add_metric([str(number)], one.cpu_seconds)
            memory.add_metric([str(number)], one.resident_bytes)
        yield from (cpu, memory)


def samples_of(families: Iterable[Metric]) -> Samples:
    return {
        (one.name, tuple(sorted(one.labels.items()))): float(one.value)
        for family in families
        for one in family.samples
    }


def _counts(samples: Samples) -> Samples:
    """Leave out when a series began: that cannot be added."""
    return {key: value for key, value in samples.items() if not key[0].endswith("_created")}


def _add(sums: Samples, more: Samples) -> None:
    for key, value in more.items():
        sums[key] = sums.get(key, 0.0) + value


def _sum(family: Metric, more: Samples) -> Metric:
    """Return the family with its own samples and these, in the order that Prometheus wants."""
    own = samples_of([family])
    _add(own, more)
    summed = Metric(family.name, family.documentation, family.type, family.unit)
    summed.samples = [Sample(name, dict(labels), value) for (name, labels), value in own.items()]
    return summed
