"""Counts stay whole when many threads count."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor

from nmt_cli.serve.limits import Limits
from nmt_cli.serve.metrics import Metrics
from nmt_cli.serve.service import Service, Task
from nmt_cli.serve.texts import Request


class NoDirections:
    """Every text is in the target language already."""

    def between(self, source, target):
        return None


def test_no_character_is_lost():
    """Seen to fail where a thread adds to a number that another has read."""
    service = Service(NoDirections(), Limits(), Metrics(), needs_key=False)
    task = Task(["hello", "you"], True, None, ["fr", "fr"], "fr", False, Request())
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda _: [service.translate(task, None) for _ in range(500)], range(8)))
    finally:
        sys.setswitchinterval(usual)
    assert f"\nnmt_characters_total {8 * 500 * 8}\n" in service.metrics.text([])
