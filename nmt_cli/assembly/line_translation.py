"""Lines through a translator."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import islice, repeat
from pathlib import Path
from typing import IO, TYPE_CHECKING

from nmt_cli.assembly.inputs import refuse_standard_input_twice
from nmt_cli.assembly.named_models import named_models
from nmt_cli.assembly.overwriting import refuse_overwriting
from nmt_cli.data.lines import input_name, is_special_file, is_standard_input, iter_lines, open_input
from nmt_cli.system.console import Progress, counted, log, warn
from nmt_cli.system.errors import InputError
from nmt_cli.translation.prefix import other_length, with_prefixes
from nmt_cli.translation.windows import windows_of_lines

if TYPE_CHECKING:
    from nmt_cli.assembly.document import Job
    from nmt_cli.translation.output_formats import Formatter
    from nmt_cli.translation.translator import Translator

    WithPrefixes = Callable[[Iterable[list[bytes]]], Iterator[tuple[list[bytes], list[str] | None]]]
    "A function that gives each window of lines the prefixes of its translations."


def models_beside(
    output: Path | None, inputs: Sequence[str | Path | None], model_dirs: Sequence[Path], job: Job | None
) -> list[Path]:
    """Return the directories of the models; refuse outputs that would overwrite an input or data of the models."""

    experiments = named_models(list(model_dirs))
    refuse_overwriting(output, inputs, experiments)
    if job is not None and job.confidence:
        refuse_overwriting(job.report_path, [*inputs, output], experiments)
    return [experiment.directory for experiment in experiments]


def check_choice(option: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise InputError(f"{option} {value}: must be one of {', '.join(allowed)}")


def check_beam(translator: Translator, n_best: int) -> None:
    """Refuse to give more translations of a line than the search finds."""
    options = translator.options
    if options.sampling_temperature is None and n_best > options.beam_size:
        raise InputError(f"--n-best {n_best}: is more than the beam, {options.beam_size}; raise --beam-size")


def check_confidence(format_: str, *, of_lines: bool, sample: bool) -> None:
    if sample:
        raise InputError("--confidence: tells how good the best translation is, so it does not go with --sample")
    if of_lines and format_ != "jsonl":
        raise InputError(f"--confidence: has no place in the format {format_}; add --format jsonl")


def check_constraints(
    file: str | None, shortlist: Path | None, given: Mapping[str, str | None], *, sample: bool, weight: float | None
) -> None:
    """Refuse options that do not go with a constraint, and standard input for several files."""

    if weight is not None and given["--glossary"] is None:
        raise InputError("--glossary-weight: needs --glossary FILE.tsv, whose terms it makes likelier")
    for option, path in given.items():
        if path is not None and sample:
            raise InputError(f"{option}: constrains a search, so it does not go with --sample; leave out one of them")
        if path is not None and shortlist is not None:
            raise InputError(f"{option}: may need any piece, so it does not go with --shortlist; leave out one of them")
    refuse_standard_input_twice([file, *(path for path in given.values() if path is not None)])


def check_number_of_prefixes(file: str | None, prefix: str | None) -> None:
    """Refuse prefixes that are more or fewer than the lines, before any work, if both can be read twice."""

    if prefix is None or any(is_standard_input(path) or is_special_file(path) for path in (file, prefix)):
        return  # if given, they are counted as they come
    num_lines = []
    for name in (file, prefix):
        with open_input(name, warns_of_format=False) as stream:
            num_lines.append(sum(1 for _ in iter_lines(stream)))
    if num_lines[0] != num_lines[1]:
        raise other_length((input_name(file), input_name(prefix)), *num_lines)


@contextmanager
def windows_of_prefixes(path: str | None, chosen: range | None, file: str | None) -> Iterator[WithPrefixes | None]:
    """Yield a function that gives each window the prefixes of its lines, or of a shard's lines if there is one."""

    if path is None:
        yield None
        return
    with open_input(path) as stream:
        lines = iter_lines(stream)
        own = lines if chosen is None else islice(lines, chosen.start, chosen.stop)
        first_line = 1 if chosen is None else chosen.start + 1
        yield partial(with_prefixes, prefixes=own, names=(input_name(file), input_name(path)), first_line=first_line)


def translate_lines(
    translator: Translator,
    lines: Iterable[bytes],
    out: IO[bytes],
    write: Formatter,
    prefixes: WithPrefixes | None = None,
) -> None:
    """Write the translation of every line, a window at a time, and say at the end how fast that was."""
    from time import monotonic

    began = monotonic()
    with Progress("translating", unit="line") as progress:
        windows = windows_of_lines(lines)
        for window, beginnings in zip(windows, repeat(None)) if prefixes is None else prefixes(windows):
            first = translator.first_line + translator.counts.lines
            found = translator.translate_window(window, prefixes=beginnings)
            for number, translated in enumerate(found, start=first):
                out.write(write(number, translated).encode("utf-8", errors="replace"))
            out.flush()
            progress.advance(len(window))
    translator.report()
    counts, seconds = translator.counts, max(monotonic() - began, 1e-9)
    log(
        f"{counted(counts.lines, 'line')} in {seconds:.1f} s: {counts.lines / seconds:,.1f} sentences/s, "
        f"{counts.target_pieces / seconds:,.0f} pieces/s"
    )


def warn_of_options(
    translator: Translator, sampling: Mapping[str, float | None], search: Mapping[str, float | None]
) -> None:

    from nmt_cli.assembly.translator import warn_of_idle_options

    warn_of_idle_options(translator.options, sampling, search)
    if translator.options.copy_unknown and translator.tokenizers[0].spells_bytes:
        warn("--copy-unknown does nothing: this model spells unknown words with bytes, so no word is unknown to it")
