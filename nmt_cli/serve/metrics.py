"""Metrics of the server, such as counts of requests, in the text format of Prometheus."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from threading import Lock

BOUNDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""Upper bounds of the buckets in the histogram of answer times, in seconds."""


def _escaped(value: str) -> str:
    """Return the value of a Prometheus label, escaped for its place between double quotes.

    The values are language codes, which a configuration may choose freely.
    """
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


class Metrics:
    """Counts the requests, their times, the translated characters and the loaded models since the server started."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._requests: Counter[tuple[str, int]] = Counter()
        self._seconds: dict[str, float] = {}
        self._buckets: dict[str, list[int]] = {}
        self._characters = 0
        """Number of characters of source text that came in requests to /translate and were translated by a model."""
        self.reloads: Counter[str] = Counter()
        """Number of times that `--watch` has loaded a model (`loaded`) or failed to (`failed`)."""

    def count_request(self, path: str, status: int, seconds: float) -> None:
        """Count a request to a URL path with the HTTP status of its answer and the seconds that the answer took."""
        with self._lock:
            self._requests[path, status] += 1
            self._seconds[path] = self._seconds.get(path, 0.0) + seconds
            buckets = self._buckets.setdefault(path, [0] * (len(BOUNDS) + 1))
            for number, bound in enumerate((*BOUNDS, float("inf"))):
                buckets[number] += seconds <= bound

    def count_characters(self, characters: int) -> None:
        """Add to the number of characters of source text that were translated."""
        with self._lock:
            self._characters += characters

    def text(self, engines: Iterable[tuple[Mapping[str, str], Mapping[str, float]]]) -> str:
        """Return all metrics in the text format of Prometheus.

        `engines` has, for each direction, its labels by name, and its values by the name of the metric.
        """
        lines = [
            "# HELP nmt_requests_total Requests that were answered.",
            "# TYPE nmt_requests_total counter",
        ]
        with self._lock:
            for (path, status), count in sorted(self._requests.items()):
                lines.append(f'nmt_requests_total{{path="{path}",status="{status}"}} {count}')
            name = "nmt_request_seconds"
            lines += [f"# HELP {name} Time until the answer.", f"# TYPE {name} histogram"]
            for path, buckets in sorted(self._buckets.items()):
                for bound, count in zip((*map(str, BOUNDS), "+Inf"), buckets, strict=True):
                    lines.append(f'{name}_bucket{{path="{path}",le="{bound}"}} {count}')
                lines.append(f'{name}_sum{{path="{path}"}} {self._seconds[path]:.6f}')
                lines.append(f'{name}_count{{path="{path}"}} {buckets[-1]}')
        name = "nmt_characters_total"
        lines += [f"# HELP {name} Characters of texts that were translated, without files.", f"# TYPE {name} counter"]
        lines.append(f"nmt_characters_total {self._characters}")
        lines += ["# HELP nmt_reloads_total Checkpoints that --watch found.", "# TYPE nmt_reloads_total counter"]
        lines += [f'nmt_reloads_total{{result="{result}"}} {self.reloads[result]}' for result in ("loaded", "failed")]
        lines += self._engine_metrics(list(engines))
        return "\n".join([*lines, ""])

    @staticmethod
    def _engine_metrics(engines: list[tuple[Mapping[str, str], Mapping[str, float]]]) -> list[str]:
        described = {
            "nmt_sentences_total": ("counter", "Sentences that were translated."),
            "nmt_batches_total": ("counter", "Groups of sentences that entered a search together."),
            "nmt_search_seconds_total": ("counter", "Time that workers have spent in the search."),
            "nmt_search_failures_total": ("counter", "Worker processes that have crashed."),
            "nmt_waiting_sentences": ("gauge", "Sentences that wait."),
        }
        lines = []
        for name, (kind, meaning) in described.items():
            lines += [f"# HELP {name} {meaning}", f"# TYPE {name} {kind}"]
            for labels, values in engines:
                shown = ",".join(f'{key}="{_escaped(value)}"' for key, value in labels.items())
                value = values[name]
                lines.append(f"{name}{{{shown}}} {value:{'.6f' if isinstance(value, float) else 'd'}}")
        return lines
