"""Options that several commands share, so that they read the same everywhere, and the way to find a misspelt one."""

import difflib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Optional

import typer
from typer.core import TyperCommand

ConfigFile = Annotated[
    Path, typer.Option("--config", "-c", help="The configuration, a YAML file; - for standard input.", metavar="FILE")
]
Overrides = Annotated[
    Optional[list[str]],  # noqa: UP045 (typer reads this at run time)
    typer.Option("--set", help="Override a key, such as training.max_steps=100. May be repeated.", metavar="KEY=VALUE"),
]
ModelDir = Annotated[Path, typer.Option("--model", "-m", help="The model directory.", metavar="DIR")]
ModelDirs = Annotated[
    Optional[list[Path]],  # noqa: UP045
    typer.Option(
        "--model", "-m", metavar="DIR",
        help="The model directory; several make an ensemble. Without it $NMT_MODEL, else the newest finished run "
        "below runs/.",
    ),
]  # fmt: skip
InputFile = Annotated[
    Optional[str],  # noqa: UP045
    typer.Argument(help="A text file, a sentence a line; - or nothing for standard input.", metavar="[FILE]"),
]
Checkpoint = Annotated[
    str, typer.Option("--checkpoint", help="Which weights: best, last, a step, or a name.", metavar="C")
]
Device = Annotated[str, typer.Option("--device", help="auto, cpu, cuda or cuda:N.")]
Threads = Annotated[
    Optional[int],  # noqa: UP045
    typer.Option("--threads", min=1, max=4_096, help="CPU threads; all cores unless told."),
]
BeamSize = Annotated[
    Optional[int],  # noqa: UP045
    typer.Option("--beam-size", "-k", min=1, max=1_000, help="1 is greedy; the model's own unless told."),
]
LengthPenalty = Annotated[
    Optional[float],  # noqa: UP045
    typer.Option("--length-penalty", min=0.0, max=10.0, help="alpha of ((5+n)/6)^alpha."),
]
NoRepeatNgram = Annotated[
    Optional[int],  # noqa: UP045
    typer.Option("--no-repeat-ngram", min=0, help="No sequence of N pieces twice; 0 is off."),
]
BatchTokens = Annotated[
    Optional[int],  # noqa: UP045
    typer.Option("--batch-tokens", min=1, help="Beam rows times source positions in a batch."),
]
Sample = Annotated[bool, typer.Option("--sample", help="Draw from the model instead of searching.")]
Temperature = Annotated[
    Optional[float],  # noqa: UP045
    typer.Option("--temperature", min=0.01, max=1_000.0, help="Of --sample; 1 unless told."),
]
Seed = Annotated[Optional[int], typer.Option("--seed", min=0, help="Of --sample; 1 unless told.")]  # noqa: UP045
CopyUnknown = Annotated[
    bool, typer.Option("--copy-unknown", help="Copy words that the model does not know from where it looked.")
]
Markup = Annotated[
    bool, typer.Option("--markup", help="Carry tags (<b>...</b>) and placeholders (__URL__) across by alignment.")
]
Shortlist = Annotated[
    Optional[Path],  # noqa: UP045
    typer.Option(
        "--shortlist", help="Say only what `nmt shortlist` found to go with the source: faster.", metavar="FILE"
    ),
]
Precision = Annotated[str, typer.Option("--precision", help="auto (fp32), fp32, bf16 or int8.")]
OutputFile = Annotated[
    Optional[Path],  # noqa: UP045
    typer.Option(
        "--output", "-o", help="Write here instead of to standard output; whole or not at all.", metavar="OUT"
    ),
]

FORMER_NAMES = {"--set": "--only"}
"""Options under the names that they had: `nmt evaluate --set NAME` chose a test set."""


class Command(TyperCommand):
    """A command that answers an option that does not exist with the nearest one that does.

    The guesses of click are wider (`--src`: `--shard`), and their wording changes from version to version.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments as typer does."""
        try:
            return super().parse_args(ctx, args)
        except Exception as error:
            if type(error).__name__ == "NoSuchOption":  # click's, or the one of the click that typer carries
                self._suggest(error)
            raise

    def _suggest(self, error: Any) -> None:
        options = [name for parameter in self.params for name in parameter.opts if name.startswith("--")]
        near = nearest_options(error.option_name, options)
        error.possibilities = None
        if near:
            error.message += f"; did you mean {' or '.join(near)}?"


def nearest_options(wrong: str, options: Sequence[str]) -> list[str]:
    """Return the options that a shortened, misspelt or former name may stand for; all begin with `--`."""
    renamed = [name for name in options if name == FORMER_NAMES.get(wrong)]
    longer = [name for name in options if wrong != "--" and name.startswith(wrong)]
    by_letters = {name.strip("-"): name for name in options}
    alike = [by_letters[name] for name in difflib.get_close_matches(wrong.strip("-"), by_letters, n=1)]
    return renamed or longer or alike
