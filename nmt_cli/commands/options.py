"""Options that several commands share, so that they read the same everywhere, and suggestions for misspelt ones."""

import difflib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from nmt_cli.system.console import warn
from nmt_cli.system.errors import InputError

SEARCH, OUTPUT, SPEED = "Search", "Output", "Speed"
"""Groups of options in the help of a command. Options without a group come first."""

ConfigFile = Annotated[
    Path, typer.Option("--config", "-c", help="The configuration, a YAML file; - for standard input.", metavar="FILE")
]
Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", help="Override a key, such as training.max_steps=100. May be repeated.", metavar="KEY=VALUE"),
]


def _directories(several: str = "") -> Any:
    """Return the option `--model`; `several` is the part of its help that says what several directories do."""
    return typer.Option(
        "--model", "-m", metavar="DIR",
        help=f"The model directory{several}. Without it, nmt takes $NMT_MODEL, or else the newest finished run in "
        "runs/.",
    )  # fmt: skip


ModelDir = Annotated[Path | None, _directories()]
ModelDirs = Annotated[list[Path] | None, _directories("; several make an ensemble")]
DescribedDirs = Annotated[list[Path] | None, _directories("; several give a section each")]
DirectionDirs = Annotated[list[Path] | None, _directories("; several give several directions of translation")]
SourceLang = Annotated[str | None, typer.Option("--source-lang", metavar="XX", help="The language to translate from.")]


def _target_lang(of_several_directions: str) -> Any:
    """Return the option `--target-lang`; its help ends with what a model of several directions does."""
    return typer.Option("--target-lang", metavar="YY", help=f"The language to translate into. {of_several_directions}")


TargetLang = Annotated[
    str | None,
    _target_lang(
        "With a model of several directions, give both languages, unless one is enough to choose a direction."
    ),
]
EvaluatedTargetLang = Annotated[
    str | None, _target_lang("Without both languages, the test sets of every direction are evaluated.")
]
ExportedTargetLang = Annotated[
    str | None, _target_lang("Without both languages, a page translates in every direction of the model.")
]
ZeroShot = Annotated[
    bool,
    typer.Option(
        "--zero-shot", help="Allow a direction that was never trained, of two languages that the model knows."
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show only warnings and errors.")]
InputFile = Annotated[
    str | None,
    typer.Argument(help="A text file, a sentence on each line; - or nothing for standard input.", metavar="FILE"),
]
TranslatedFile = Annotated[
    str | None,
    typer.Argument(
        help="A text file, a sentence on each line, or a document; - or nothing for standard input.", metavar="FILE"
    ),
]
PiecesFile = Annotated[
    str | None,
    typer.Argument(help="A file of pieces, as nmt encode writes it; - or nothing for standard input.", metavar="FILE"),
]
SourceText = Annotated[str, typer.Argument(help="Source text, a sentence on each line.", metavar="SOURCE")]
TargetText = Annotated[str, typer.Argument(help="The translation, line by line.", metavar="TARGET")]
Checkpoint = Annotated[
    str,
    typer.Option(
        "--checkpoint", metavar="C",
        help="The checkpoint to use: best, last, the number of an update such as 600, or a name that nmt average gave.",
    ),
]  # fmt: skip
Device = Annotated[str, typer.Option("--device", help="auto, cpu, cuda or cuda:N.", metavar="D", rich_help_panel=SPEED)]
Threads = Annotated[
    int | None,
    typer.Option(
        "--threads", min=1, max=4_096, help="CPU threads. The default is all cores.", metavar="N",
        rich_help_panel=SPEED,
    ),
]  # fmt: skip
WorkerThreads = Annotated[
    int | None,
    typer.Option(
        "--threads", min=1, max=4_096, help="CPU threads of each worker. The default is 1.", metavar="N",
        rich_help_panel=SPEED,
    ),
]  # fmt: skip
Workers = Annotated[
    int | None,
    typer.Option(
        "--workers", min=1, max=4_096, metavar="N", rich_help_panel=SPEED,
        help="Processes that translate at the same time. The default is as many as the cores (divided by --threads), "
        "the memory and the amount of text allow.",
    ),
]  # fmt: skip
BeamSize = Annotated[
    int | None,
    typer.Option(
        "--beam-size", "-k", min=1, max=1_000, metavar="N", rich_help_panel=SEARCH,
        help="How many partial translations the search keeps. 1 is greedy. The default is the model's own.",
    ),
]  # fmt: skip
LengthPenalty = Annotated[
    float | None,
    typer.Option(
        "--length-penalty", min=0.0, max=10.0, metavar="A", rich_help_panel=SEARCH,
        help="A score is divided by ((5 + pieces) / 6)^A. More than 0 favours long translations. The default is the "
        "model's own.",
    ),
]  # fmt: skip
NoRepeatNgram = Annotated[
    int | None,
    typer.Option(
        "--no-repeat-ngram", min=0, metavar="N", rich_help_panel=SEARCH,
        help="Never repeat the same N pieces in a line. 0 is off.",
    ),
]  # fmt: skip
BatchTokens = Annotated[
    int | None,
    typer.Option(
        "--batch-tokens", min=1, metavar="N", rich_help_panel=SPEED,
        help="Size of a batch: source pieces, with padding, times the beam size. Less needs less memory. The default "
        "is the model's own.",
    ),
]  # fmt: skip
Sample = Annotated[
    bool,
    typer.Option("--sample", help="Draw translations at random instead of searching.", rich_help_panel=SEARCH),
]
Temperature = Annotated[
    float | None,
    typer.Option(
        "--temperature", min=0.01, max=1_000.0, metavar="T", rich_help_panel=SEARCH,
        help="With --sample: below 1 draws likelier pieces, above 1 wilder ones. The default is 1.",
    ),
]  # fmt: skip
Seed = Annotated[
    int | None,
    typer.Option(
        "--seed", min=0, metavar="N", rich_help_panel=SEARCH,
        help="With --sample: the same number gives the same translations. The default is 1.",
    ),
]  # fmt: skip
CopyUnknown = Annotated[
    bool,
    typer.Option(
        "--copy-unknown", rich_help_panel=OUTPUT,
        help="Copy unknown words from the source, from where the attention points.",
    ),
]  # fmt: skip
Markup = Annotated[
    bool,
    typer.Option(
        "--markup", rich_help_panel=OUTPUT,
        help="Carry tags (<b>...</b>) and placeholders (__URL__) across by the alignment.",
    ),
]  # fmt: skip
NormalizeInput = Annotated[
    bool | None,
    typer.Option(
        "--normalize-input/--keep-input", rich_help_panel=SEARCH,
        help="Before translation, change each line to what the training text looks like: a line in capitals to "
        "ordinary case, unknown quotes and dashes to known ones, misspelt words to known words. The translation gets "
        "the capitals back. Numbers stay, unless the training text nearly always writes them otherwise. The default "
        "is the model's own.",
    ),
]  # fmt: skip
AdaptWriting = Annotated[bool | None, typer.Option("--adapt-writing/--keep-writing", hidden=True)]
"""The name of `NormalizeInput` in earlier versions."""
GlossaryFile = Annotated[
    str | None,
    typer.Option(
        "--glossary", metavar="FILE.tsv", rich_help_panel=SEARCH,
        help="Terms and their translations: the source term, a tab, and the translation, or several separated by |. "
        "Each term of a line is translated so. A third column, exact, makes case matter. - for standard input.",
    ),
]  # fmt: skip
GlossaryWeight = Annotated[
    float | None,
    typer.Option(
        "--glossary-weight", min=0.0, max=100.0, metavar="W", rich_help_panel=SEARCH,
        help="With --glossary: make the translations likelier by this much, instead of forcing them. 2 is mild.",
    ),
]  # fmt: skip
Confidence = Annotated[
    bool,
    typer.Option(
        "--confidence", rich_help_panel=OUTPUT,
        help="With --format jsonl: add the probability that each line and each word is correct. For documents and "
        "paragraphs, write them to OUT.confidence.jsonl.",
    ),
]  # fmt: skip
Prefixes = Annotated[
    str | None,
    typer.Option(
        "--prefix", metavar="FILE", rich_help_panel=SEARCH,
        help="The beginning of each translation, one for each line of the input. The output keeps it byte for byte and "
        "continues from there, in the middle of a word too. An empty line means no beginning. - for standard input.",
    ),
]  # fmt: skip
Shortlist = Annotated[
    Path | None,
    typer.Option(
        "--shortlist", metavar="FILE", rich_help_panel=SPEED,
        help="Use only the target pieces that `nmt shortlist` found to go with the source. This is faster.",
    ),
]  # fmt: skip
Precision = Annotated[
    str,
    typer.Option(
        "--precision",
        help="fp32 (also auto, the default), bf16, or int8 (on the CPU).",
        metavar="P",
        rich_help_panel=SPEED,
    ),
]


def output_file(name: str) -> Path:
    """Return the path of a file to write.

    Raises:
        InputError: the name ends in a slash, so it is that of a directory.
    """
    if name.endswith("/"):
        raise InputError(f"-o {name}: names a directory; give the name of a file")
    return Path(name)


OutputFile = Annotated[
    Path | None,
    typer.Option(
        "--output", "-o", metavar="OUT", parser=output_file,
        help="Write to this file, whole or not at all, instead of to standard output.",
    ),
]  # fmt: skip

FORMER_NAMES = {"--set": "--only"}
"""Present name of an option by its former one: `nmt evaluate --set NAME` once chose a test set."""


class Command(TyperCommand):
    """A command that shows its options in groups, answers an unknown option with the nearest one that exists, tells how
    a configuration is given, and says when an option is given twice.

    The guesses of click are wider (`--src`: `--shard`), and their wording changes from version to version.
    """

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments and each group of options."""
        for name, records in self.groups(ctx).items():
            with formatter.section(name):
                formatter.write_dl(records)

    def groups(self, ctx: Any) -> dict[str, list[tuple[str, str]]]:
        """Return the arguments and options by the heading of their group: pairs of a name and its help text."""
        groups: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
        for parameter in self.get_params(ctx):
            is_argument = parameter.param_type_name == "argument"
            name = "Arguments" if is_argument else getattr(parameter, "rich_help_panel", None) or "Options"
            if record := parameter.get_help_record(ctx):
                term, text = record
                groups.setdefault(name, []).append((re.sub(r" <[^<>]*>$", "", term) if is_argument else term, text))
        return {name: records for name, records in groups.items() if records}

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments as typer does, warn of repeated options, and add suggestions to error messages."""
        try:
            if not ctx.resilient_parsing:
                self._warn_of_repeats(ctx, args)
            return super().parse_args(ctx, list(args))  # which empties its list
        except Exception as error:
            if type(error).__name__ == "NoSuchOption":  # click's, or the one of the click that typer carries
                self._suggest(error)
            elif type(error).__name__ == "MissingParameter":
                self._suggest_config(error, args)
            raise

    def _warn_of_repeats(self, ctx: Any, args: Sequence[str]) -> None:
        """Warn of each option that takes one value and is given more than once."""
        *_, given = self.make_parser(ctx).parse_args(args=list(args))
        for parameter in dict.fromkeys(given):
            is_single = (
                parameter.param_type_name == "option"
                and not getattr(parameter, "is_flag", False)
                and not parameter.multiple
            )
            if is_single and given.count(parameter) > 1:
                warn(f"{max(parameter.opts, key=len)} is given more than once; the last one counts")

    @staticmethod
    def _suggest_config(error: Any, args: Sequence[str]) -> None:
        files = [word for word in args if word.endswith((".yaml", ".yml"))]
        if files and "--config" in error.param.opts:
            error.message = f"Write --config {files[0]}."

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
