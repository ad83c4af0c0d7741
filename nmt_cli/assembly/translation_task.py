"""The options of a translation: how to decode, which files to read, and the form of the output."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nmt_cli.assembly.file_checks import refuse_standard_input_twice
from nmt_cli.data.lines import is_special_file
from nmt_cli.formats.recognise import ending_of
from nmt_cli.system.console import warn
from nmt_cli.system.errors import InputError

if TYPE_CHECKING:
    from nmt_cli.assembly.model_options import ModelOptions
    from nmt_cli.experiment import Experiment
    from nmt_cli.translation.translator import Translator

_CATALOGUES = (".po", ".pot", ".xlf", ".xliff")


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodingOverrides:
    """The options of a command that take the place of a model's decoding defaults; None leaves the default."""

    beam_size: int | None = None
    n_best: int = 1
    length_penalty: float | None = None
    sample: bool = False
    temperature: float | None = None
    seed: int | None = None
    no_repeat_ngram: int | None = None
    batch_tokens: int | None = None
    normalize_input: bool | None = None
    glossary_weight: float | None = None
    copy_unknown: bool = False
    markup: bool = False
    alignment: bool = False

    def values(self) -> dict[str, Any]:
        """Return the options by the names of the fields of `DecodingOptions`."""
        return {
            "beam_size": self.beam_size,
            "n_best": self.n_best,
            "length_penalty": self.length_penalty,
            "sampling_temperature": (self.temperature or 1.0) if self.sample else None,
            # Without sampling it changes nothing, and must not be a condition of a bulk translation.
            "seed": self.seed if self.sample else None,
            "no_repeat_ngram": self.no_repeat_ngram,
            "batch_tokens": self.batch_tokens,
            "normalize_input": self.normalize_input,
            "glossary_weight": self.glossary_weight,
            "copy_unknown": self.copy_unknown,
            "keep_markup": self.markup,
            "with_alignment": self.alignment or self.copy_unknown or self.markup,
        }

    def warn_of_unused_options(self) -> None:
        """Warn of options of the search with `--sample`, and of options of sampling without it: they change nothing."""
        of_search = {"--beam-size": self.beam_size, "--length-penalty": self.length_penalty}
        of_sampling = {"--temperature": self.temperature, "--seed": self.seed}
        for option, value in (of_search if self.sample else of_sampling).items():
            if value is not None:
                warn(f"{option} does nothing {'with' if self.sample else 'without'} --sample")


@dataclass(frozen=True, slots=True, kw_only=True)
class TranslationTask:
    """A text to translate, further files that the translation reads, and the form of the output."""

    file: str | None
    """Name of the file; None is standard input."""
    output: Path | None
    format: str = "text"
    alignment: str = "none"
    confidence: bool = False
    """True to write confidences: for lines into their JSON, otherwise to `confidence_report_path`."""
    shortlist: Path | None = None
    glossary: str | None = None
    prefix: str | None = None
    shard: str | None = None
    paragraphs: bool = False
    overwrite: bool = False
    """True to translate texts in PO and XLIFF files that have a translation already, too."""

    @property
    def is_document(self) -> bool:
        """True if the file is translated in its format: it has the ending of a document, and an output is named."""
        return self.output is not None and self.is_named_as_document

    @property
    def is_named_as_document(self) -> bool:
        """True if the name of the file has the ending of a document."""
        return self.file is not None and ending_of(self.file) is not None

    @property
    def is_translated_by_line(self) -> bool:
        """True if each line of the file is translated by itself, and not as a part of a document or paragraph."""
        return not self.paragraphs and not self.is_document

    @property
    def confidence_report_path(self) -> Path:
        """File for the confidences in a document or paragraphs: the output with `.confidence.jsonl` appended."""
        assert self.output is not None
        return self.output.with_name(f"{self.output.name}.confidence.jsonl")

    @property
    def inputs(self) -> list[str | Path | None]:
        """The files that are read, except the models."""
        return [self.file, *(path for path in (self.shortlist, self.glossary, self.prefix) if path is not None)]

    def check(self, decoding: DecodingOverrides) -> None:
        """Refuse options that do not go together, before any file is read.

        Raises:
            InputError: an option has an unknown value, or does not go with another one or with the kind of the text.
        """
        _check_choice("--format", self.format, ("text", "jsonl", "moses"))
        _check_choice("--alignment", self.alignment, ("none", "hard", "soft"))
        self._check_constraints(decoding)
        if not self.is_translated_by_line or self.overwrite:
            self._check_document(decoding)
        if self.confidence and decoding.sample:
            raise InputError("--confidence: tells how good the best translation is, so it does not go with --sample")
        if self.confidence and self.is_translated_by_line and self.format != "jsonl":
            raise InputError(f"--confidence: has no place in the format {self.format}; add --format jsonl")

    def _check_constraints(self, decoding: DecodingOverrides) -> None:
        """Refuse options that do not go with a glossary or with prefixes."""
        if decoding.glossary_weight is not None and self.glossary is None:
            raise InputError("--glossary-weight: needs --glossary FILE.tsv, whose terms it makes likelier")
        for option, path in (("--glossary", self.glossary), ("--prefix", self.prefix)):
            if path is not None and decoding.sample:
                raise InputError(
                    f"{option}: constrains a search, so it does not go with --sample; leave out one of them"
                )
            if path is not None and self.shortlist is not None:
                raise InputError(
                    f"{option}: may need any piece, so it does not go with --shortlist; leave out one of them"
                )
        refuse_standard_input_twice([self.file, *(path for path in (self.glossary, self.prefix) if path is not None)])

    def _check_document(self, decoding: DecodingOverrides) -> None:
        """Refuse options that do not go with a document or with paragraphs, and `--overwrite` with anything else."""
        ending = ending_of(self.file) if self.file is not None and self.output is not None else None
        if self.overwrite and ending not in _CATALOGUES:
            raise InputError("--overwrite: goes with a PO or XLIFF file as FILE and with -o OUT")
        if self.paragraphs and ending is not None:
            raise InputError(
                f"--paragraphs: {self.file} is translated as a document, whose paragraphs are known; leave it out"
            )
        of_lines = {
            "--n-best": decoding.n_best > 1,
            "--format": self.format != "text",
            "--alignment": self.alignment != "none",
            "--shard": self.shard is not None,
            "--copy-unknown": decoding.copy_unknown,
            "--prefix": self.prefix is not None,
        }
        if given := [option for option, is_given in of_lines.items() if is_given]:
            what = "--paragraphs" if ending is None else f"{self.file} is translated as a document, which"
            raise InputError(f"{', '.join(given)}: {what} gives one text; take the option away, or give plain lines")
        output = self.output
        if self.confidence and (
            output is None or str(output) == "-" or is_special_file(output) or output.parent == Path("/dev")
        ):
            raise InputError("--confidence: for paragraphs it is written to OUT.confidence.jsonl; give -o OUT")


def open_task_translator(
    task: TranslationTask, experiments: Sequence[Experiment], models: ModelOptions, decoding: DecodingOverrides
) -> Translator:
    """Return the translator of some models for a task, and warn of options that change nothing.

    Raises:
        InputError: as for `open_translator`.
    """
    from nmt_cli.assembly.trained_translator import open_translator

    translator = open_translator(
        experiments, shortlist=task.shortlist, glossary=task.glossary,
        confidence=task.confidence, **models.loading_options, **decoding.values(),
    )  # fmt: skip
    decoding.warn_of_unused_options()
    if translator.options.copy_unknown and translator.tokenizers[0].has_byte_fallback:
        warn("--copy-unknown does nothing: this model spells unknown words with bytes, so no word is unknown to it")
    return translator


def open_line_translator(
    task: TranslationTask, experiments: Sequence[Experiment], models: ModelOptions, decoding: DecodingOverrides
) -> Translator:
    """Return the translator of some models for a task of lines.

    Raises:
        InputError: as for `open_task_translator`; the models lack an attention that is needed, or more translations of
            a line are wanted than the beam holds.
    """
    translator = open_task_translator(task, experiments, models, decoding)
    require_attention(translator)
    options = translator.options
    if options.sampling_temperature is None and decoding.n_best > options.beam_size:
        raise InputError(f"--n-best {decoding.n_best}: is more than the beam, {options.beam_size}; raise --beam-size")
    return translator


def require_attention(translator: Translator) -> None:
    """Refuse options that need alignments if the models have no attention to make them.

    Raises:
        InputError: the translator is to return alignments, and its models have no attention.
    """
    if translator.options.with_alignment and not translator.models.has_attention:
        without = translator.models.no_attention_message
        raise InputError(f"{without}, so --alignment, --copy-unknown and --markup are not possible")


def _check_choice(option: str, value: str, allowed: tuple[str, ...]) -> None:
    """Refuse a value of an option that is none of the allowed ones."""
    if value not in allowed:
        raise InputError(f"{option} {value}: must be one of {', '.join(allowed)}")
