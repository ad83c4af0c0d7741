"""A server that runs commands under faults."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import CONFIG
from faults import Faulty


@pytest.fixture(scope="session")
def faulty(tmp_path_factory: pytest.TempPathFactory, corpus: Path) -> Iterator[Faulty]:
    directory = tmp_path_factory.mktemp("faulty")
    config = directory / "config.yaml"
    config.write_text(CONFIG.format(model_dir=directory / "run", corpus=corpus), encoding="utf-8")
    server = Faulty(["train", "--config", str(config)])
    yield server
    server.close()
