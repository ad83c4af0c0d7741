"""Joining a Ray cluster, with a library that is none."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from nmt_cli.system.cluster import connect
from nmt_cli.system.errors import NmtError


def test_a_node_that_does_not_start_in_time_is_told_in_one_line(monkeypatch):
    def init(**_):
        raise Exception("The current node timed out during startup.\nDetails follow.")  # as Ray does

    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(init=init, shutdown=lambda: None))
    with pytest.raises(NmtError) as failed, connect("local"):
        pass
    assert str(failed.value) == ("Ray cannot be started on this machine: The current node timed out during startup.")
