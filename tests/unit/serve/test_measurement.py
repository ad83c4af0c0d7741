"""The confidence of several requests, measured together."""

from __future__ import annotations

import pytest

from nmt_cli.assembly.trained_translator import open_translator
from nmt_cli.serve.asking import Wanted
from nmt_cli.serve.measurement import Measurement
from nmt_cli.serve.waiting import Job
from nmt_cli.translation.step_model import TrainedModels


@pytest.fixture(scope="module")
def translator(model):
    return open_translator([model], threads=1, confidence=True)


def translated(translator, text):
    """A request that is translated, and waits for its confidence."""
    jobs = []

    def translate(parts):
        jobs.append(Job.of(translator, Wanted(with_confidence=True), list(parts)))
        jobs[0].found += [translator.finish(*found) for found in translator.search(parts)]
        return jobs[0].found

    translator.translate_by(translate, [text.encode()])
    return jobs[0]


def measured(job):
    return [one.features is not None for _, found in job.found for one in found]


def test_a_request_that_fails_does_not_spoil_what_is_measured_already(translator, monkeypatch):
    """The short one is measured first. Seen to fail where it was measured again, without its pieces."""
    original = TrainedModels.observe

    def observe(models, sources, *more):
        if sources.ids_BS.shape[1] > 16:
            raise RuntimeError("boom")
        return original(models, sources, *more)

    monkeypatch.setattr(TrainedModels, "observe", observe)
    short, long = (translated(translator, "the car " * count) for count in (1, 12))
    ends = {}
    measurement = Measurement([long, short], 0.0, lambda job, error: ends.update({job: error}))
    while not measurement.advance():
        pass
    assert (measured(short), ends[short]) == ([True], None)
    assert str(ends[long]) == "boom"
