"""One file a command: its options, its help, and one call to `assembly`."""

from collections.abc import Callable
from typing import Any

from nmt_cli.commands.align import align
from nmt_cli.commands.average import average
from nmt_cli.commands.card import card
from nmt_cli.commands.check import check
from nmt_cli.commands.clean import clean
from nmt_cli.commands.demo import demo
from nmt_cli.commands.evaluate import evaluate
from nmt_cli.commands.export import export
from nmt_cli.commands.import_ import import_
from nmt_cli.commands.improve import improve
from nmt_cli.commands.init import init
from nmt_cli.commands.inspect import inspect
from nmt_cli.commands.plot import plot
from nmt_cli.commands.rescore import rescore
from nmt_cli.commands.schema import schema
from nmt_cli.commands.score import score
from nmt_cli.commands.serve import serve
from nmt_cli.commands.shortlist import shortlist
from nmt_cli.commands.text import decode, encode
from nmt_cli.commands.tokenizer import tokenizer
from nmt_cli.commands.train import train
from nmt_cli.commands.translate import translate
from nmt_cli.commands.translate_corpus import translate_corpus

COMMANDS: dict[str, Callable[..., Any]] = {
    "demo": demo,
    "import": import_,
    "clean": clean,
    "init": init,
    "check": check,
    "schema": schema,
    "tokenizer": tokenizer,
    "encode": encode,
    "decode": decode,
    "train": train,
    "translate": translate,
    "translate-corpus": translate_corpus,
    "serve": serve,
    "score": score,
    "evaluate": evaluate,
    "align": align,
    "rescore": rescore,
    "shortlist": shortlist,
    "average": average,
    "improve": improve,
    "inspect": inspect,
    "card": card,
    "export": export,
}
"""The commands by name, in the order of `nmt --help`, which follows the steps of a project."""

GROUPS = {"plot": plot}
"""Commands with subcommands, by name: `nmt plot` has `nmt plot curves` and others."""
