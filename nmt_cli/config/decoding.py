"""Options of a translation, in one object that is passed unchanged from the command down to the search."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import Field

from nmt_cli.config.section import Count, PositiveInt, Section


class DecodingConfig(Section):
    """Defaults of the model for translation. Options of the command line take their place."""

    beam_size: Annotated[int, Field(gt=0, le=1_000)] = 5
    """Partial translations that the search keeps at each step; 1 is greedy."""
    length_penalty: Annotated[float, Field(ge=0.0, le=10.0)] = 1.0
    """Each score is divided by ((5 + pieces) / 6)^A (Wu et al., 2016, eq. 14); more than 0 favours long
    translations."""
    max_source_pieces: Count = 250
    """Longer sources are cut into parts that are translated one by one."""
    max_length_a: Annotated[float, Field(ge=0.0, le=100.0)] = 2.0
    """See `max_length_b`."""
    max_length_b: Count = 20
    """Longest output, in pieces: `max_length_a` times the source pieces, plus `max_length_b`, plus the pieces of
    required terms."""
    no_repeat_ngram: Annotated[int, Field(ge=0, le=1_000)] = 0
    """Length in pieces of the sequences that may not occur twice in an output; 0 is off."""
    normalize_input: bool = False
    """Before translation, change each line to what the training text looks like: a line in capitals to ordinary case,
    unknown quotes and dashes to known ones, misspelt words to known words. The translation gets the capitals back.
    Numbers stay, unless the training text nearly always writes them otherwise."""
    batch_tokens: PositiveInt = 16384
    """Size of a batch: source pieces, with padding, times the beam size. Less needs less memory."""


class DecodingOptions(DecodingConfig):
    """The options of one translation: the model's decoding defaults, and what only a command or request sets."""

    n_best: int = 1
    """Number of translations to return for each line."""
    with_alignment: bool = False
    """True keeps the attention weights of each translation, as its word alignment."""
    copy_unknown: bool = False
    """True replaces each unknown word by the source word with the most attention. This needs `with_alignment`."""
    keep_markup: bool = False
    """True carries tags and placeholders into the translation. This needs `with_alignment`, which counts words without
    tags."""
    glossary_weight: float | None = None
    """None: the translation must contain the terms of a glossary. A number is added to the log-probability of their
    pieces, and the model may choose other words."""
    sampling_temperature: float | None = None
    """None: beam search. A number: draw `n_best` translations for each line at random, with this softmax
    temperature."""
    seed: int = 1
    """Seed of the random draws."""

    @classmethod
    def of(cls, decoding: DecodingConfig, **requested: Any) -> Self:
        """Return the model's defaults, overridden by the `requested` options that are not None.

        The caller has checked the ranges of requested values.
        """
        return cls(**decoding.model_dump()).model_copy(
            update={name: value for name, value in requested.items() if value is not None}
        )
