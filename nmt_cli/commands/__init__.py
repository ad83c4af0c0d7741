"""One file a command: its options, its help, and the place where its parts are put together."""

from collections.abc import Callable
from typing import Any

from nmt_cli.commands.score import score
from nmt_cli.commands.tokenizer import tokenizer
from nmt_cli.commands.train import train
from nmt_cli.commands.translate import translate

COMMANDS: dict[str, Callable[..., Any]] = {
    "tokenizer": tokenizer,
    "train": train,
    "translate": translate,
    "score": score,
}
"""In the order in which help lists them: the way of a project."""
