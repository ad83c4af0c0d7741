"""Starts the process that loads a model, before the rest of a command is loaded. It imports next to nothing itself."""

from __future__ import annotations

from nmt_cli.system.workers import start_ahead


def start_loading_torch() -> None:
    """Have the process that will load the model import torch, while this one imports what the command needs."""
    start_ahead("torch")
