"""Measures how sure the models are of the translations of some requests, in turns with the searches of the server."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from nmt_cli.serve.waiting import Job

End = Callable[[Job, Exception | None], None]
"""Lets a request go, with its translations or with an error."""


class Measurement:
    """The measurement of how sure the models are of some requests' translations, as far as it has come."""

    def __init__(self, jobs: Sequence[Job], seconds: float, end: End) -> None:
        self.seconds, self.num_requests = seconds, len(jobs)
        self._jobs, self._end = jobs, end
        self._steps = _measured(jobs)

    def advance(self) -> bool:
        """Measure one batch, and return True at the end."""
        try:
            next(self._steps)
        except StopIteration:
            for job in self._jobs:
                self._end(job, None)
            return True
        except Exception:
            self._measure_each()
            return True
        return False

    def _measure_each(self) -> None:
        for job in self._jobs:
            try:
                for _ in _measured([job]):
                    pass
                self._end(job, None)
            except Exception as error:
                self._end(job, error)


def _measured(jobs: Sequence[Job]) -> Iterator[None]:
    """Measure the confidence of translations by the same models, and pause after each batch."""
    translator = jobs[0].translator
    assert translator.estimator is not None
    found = [of_part for job in jobs for of_part in job.found]
    return translator.estimator.measure(translator.models, found, translator.options.batch_tokens)
