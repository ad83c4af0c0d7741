"""The size of model and the length of training that suit a corpus, and the memory that training needs. Plain
arithmetic."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from nmt_cli.config.model import DropoutConfig
from nmt_cli.config.schema import Config
from nmt_cli.corpora.survey import TextSurvey

PIECES_PER_WORD = 1.3
CHARACTERS_PER_PIECE = 4
"""Assumed characters per piece, for the number of pieces of a text with long words or no blanks between words."""
IDEOGRAPHS_PER_PIECE = 2
"""Assumed ideographs per piece, for the number of pieces of a text with many ideographs. In a small vocabulary the true
number is lower. The error adds epochs, which such text needs: in docs/studies/defaults.md the best number was 36,
and other text with as many pieces would get 21."""
MANY_IDEOGRAPHS = 500
"""A text has many ideographs if it takes more distinct characters than this to cover 99.95 % of it. Alphabets have
fewer."""
IDEOGRAPHIC_SHARE = 0.5
"""Factor on the vocabulary size for a text with many ideographs, of which nearly each is then a separate piece. It was
measured on 25,000 pairs of Chinese (docs/studies/defaults.md)."""
MIN_PIECES, MIN_PIECES_WITH_IDEOGRAPHS = 700, 300
"""Least number of pieces of several characters in a vocabulary; the second applies to a text with many ideographs."""
BASIC_PIECES = 261
"""Pieces of any vocabulary in addition to its characters: 256 bytes, 4 special pieces, and the mark of a word's
beginning."""
MORE_PIECES = 39
"""Pieces that the limit of vocabulary size allows beyond `BASIC_PIECES`, if there are at least 78 distinct words."""
MIN_UPDATES = 3_000
MAX_EPOCHS = 100
NUM_VALIDATIONS = 15
MANY_CHARACTERS = 1_000
"""A text has very many characters if it has more distinct ones than this, as only Chinese, Japanese or dirty text
does."""


@dataclass(frozen=True, slots=True)
class _Anchor:
    """Model sizes and training settings for a corpus of `num_pairs` pairs; between two anchors numbers are interpolated
    over the logarithm of `num_pairs`."""

    num_pairs: int
    vocab_size: int
    embedding_size: int
    hidden_size: int
    num_layers: int
    batch_size: int
    dropout: tuple[float, float, float, float, float, float]
    """Dropout probabilities in the order of the names in `DROPOUTS`."""
    learning_rate: float
    schedule: str
    warmup_steps: int
    max_epochs: int


_ANCHORS = (
    _Anchor(5_000, 4_000, 256, 256, 1, 1_000, (0.38, 0.25, 0.5, 0.62, 0.12, 0.12), 4.0e-3, "constant", 200, 50),
    _Anchor(29_000, 8_000, 256, 256, 1, 1_500, (0.25, 0.1, 0.0, 0.4, 0.05, 0.05), 4.0e-3, "constant", 200, 18),
    _Anchor(140_000, 12_000, 384, 384, 1, 1_500, (0.11, 0.05, 0.0, 0.17, 0.01, 0.01), 4.0e-3, "constant", 200, 14),
    _Anchor(350_000, 16_000, 512, 512, 1, 3_000, (0.1, 0.05, 0.0, 0.15, 0.0, 0.0), 2.0e-3, "constant", 500, 12),
    _Anchor(3_000_000, 32_000, 512, 1_024, 1, 8_192, (0.1, 0.05, 0.0, 0.15, 0.0, 0.0), 1.0e-3, "cosine", 4_000, 8),
    _Anchor(30_000_000, 32_000, 512, 1_024, 2, 16_384, (0.1, 0.0, 0.0, 0.1, 0.0, 0.0), 1.0e-3, "cosine", 8_000, 4),
)  # fmt: skip
"""The first two anchors were chosen by measurement, and so were the learning rate, batch size, dropout and hidden size
of the third (docs/studies/). The other values have not been compared with alternatives."""
DROPOUTS = ("embedding", "recurrent", "annotation", "readout", "source_word", "target_word")
WIDTH_UNIT = 64
"""Embedding and hidden sizes are rounded to multiples of this, with which matrix products are fast."""


@dataclass(frozen=True, slots=True)
class _Interpolation:
    """Interpolation between two anchors, linear in the logarithm of the number of pairs."""

    low: _Anchor
    high: _Anchor
    share: float
    """Weight of `high`, from 0 to 1."""

    @classmethod
    def of(cls, num_pairs: int) -> _Interpolation:
        """Return the interpolation for this number of pairs; beyond the first or last anchor, it is that anchor."""
        place = min(max(num_pairs, _ANCHORS[0].num_pairs), _ANCHORS[-1].num_pairs)
        low, high = next(pair for pair in pairwise(_ANCHORS) if place <= pair[1].num_pairs)
        return cls(low, high, math.log(place / low.num_pairs) / math.log(high.num_pairs / low.num_pairs))

    def size(self, low: float, high: float) -> float:
        """Return a size between `low` and `high`, interpolated in the logarithm of the size."""
        return float(low * (high / low) ** self.share)

    def width(self, low: int, high: int) -> int:
        """Return the length of a vector, as `size` gives it, rounded to a multiple of `WIDTH_UNIT`."""
        return round(self.size(low, high) / WIDTH_UNIT) * WIDTH_UNIT

    def rate(self, low: float, high: float) -> float:
        """Return a probability between `low` and `high`, interpolated linearly, rounded to two decimals."""
        return round(low + (high - low) * self.share, 2)

    @property
    def nearest(self) -> _Anchor:
        """The nearer of the two anchors, for settings that cannot be interpolated."""
        return self.low if self.share < 0.5 else self.high


@dataclass(frozen=True, slots=True)
class Sizes:
    """The model sizes and training settings chosen for a corpus."""

    vocab_size: int
    usual_vocab_size: int
    """The vocabulary size before it is adapted to the number of distinct words and characters of the text."""
    character_coverage: float
    embedding_size: int
    hidden_size: int
    num_layers: int
    dropout: DropoutConfig
    max_length: int
    batch_size: int
    learning_rate: float
    schedule: str
    warmup_steps: int
    max_epochs: int
    num_updates: int
    """Approximate number of updates in `max_epochs` epochs."""
    validation_freq: int

    def with_updates(self, updates_per_epoch: float) -> Sizes:
        """Return the same sizes, with `num_updates` and `validation_freq` for this number of updates per epoch.

        The number of epochs does not change: it depends on the amount of text, not on the number of pieces.
        """
        num_updates = max(1, round(updates_per_epoch * self.max_epochs))
        return replace(self, num_updates=num_updates, validation_freq=_validation_freq(num_updates))

    @property
    def checkpoint_freq(self) -> int:
        return min(self.validation_freq, 1_000)


def _validation_freq(num_updates: int) -> int:
    """Return the number of updates between validations, so that there are about 15 validations."""
    return max(1, _round(num_updates / NUM_VALIDATIONS))


def sizes_for(text: TextSurvey, *, smallest_direction_pairs: int | None = None) -> Sizes:
    """Return the sizes for a text: interpolated between `_ANCHORS` by its number of pairs, then adapted to the text.

    The number of distinct words limits the vocabulary (`_vocab_size`). The vocabulary has at least 700 pieces in
    addition to characters and bytes. With many ideographs it is half as large, and has at least 300 pieces in addition.
    If there are very many characters, only the most frequent ones, which make 99.95 % of the text, get pieces of their
    own.

    Epochs are added, up to 100, until there are 3,000 updates. The warm-up is at most a tenth of the updates; there are
    about 15 validations, and a checkpoint at least every 1,000 updates.

    For several directions, `text` is the text of all of them, and `smallest_direction_pairs` the number of pairs of the
    direction with the least text. This direction is read more often than the others. So the dropout is chosen for the
    geometric mean of `smallest_direction_pairs` and the number of all pairs. A vocabulary of several directions is
    never halved for ideographs.
    """
    at = _Interpolation.of(text.num_pairs)
    low, high, nearest = at.low, at.high, at.nearest
    is_single = smallest_direction_pairs is None
    share = IDEOGRAPHIC_SHARE if _has_ideographs(text) and is_single else 1.0
    usual = int(_two_digits(share * at.size(low.vocab_size, high.vocab_size)))
    batch_size = int(_two_digits(at.size(low.batch_size, high.batch_size)))
    has_many = text.distinct_characters > MANY_CHARACTERS
    vocab_size = _vocab_size(usual, text, text.covering_characters if has_many else text.distinct_characters)
    updates_per_epoch = max(1.0, text.num_pairs * (_pieces_per_line(text) + 1) / batch_size)
    usual_epochs = round(at.size(low.max_epochs, high.max_epochs))
    max_epochs = min(MAX_EPOCHS, max(usual_epochs, -int(-MIN_UPDATES // updates_per_epoch)))
    num_updates = max(1, round(updates_per_epoch * max_epochs))
    dropout_at = (
        at
        if smallest_direction_pairs is None
        else _Interpolation.of(round(math.sqrt(smallest_direction_pairs * text.num_pairs)))
    )
    rates = (dropout_at.rate(*pair) for pair in zip(dropout_at.low.dropout, dropout_at.high.dropout, strict=True))
    return Sizes(
        vocab_size=vocab_size,
        usual_vocab_size=usual,
        character_coverage=0.9995 if has_many else 1.0,
        embedding_size=at.width(low.embedding_size, high.embedding_size),
        hidden_size=at.width(low.hidden_size, high.hidden_size),
        num_layers=nearest.num_layers,
        dropout=DropoutConfig(**dict(zip(DROPOUTS, rates, strict=True))),
        # Small vocabularies cut words into more pieces.
        max_length=100 if vocab_size >= 4_000 else 150 if vocab_size >= 1_000 else 250,
        batch_size=batch_size,
        learning_rate=_two_digits(at.size(low.learning_rate, high.learning_rate)),
        schedule=nearest.schedule,
        warmup_steps=min(int(_two_digits(at.size(low.warmup_steps, high.warmup_steps))), num_updates // 10),
        max_epochs=max_epochs,
        num_updates=num_updates,
        validation_freq=_validation_freq(num_updates),
    )


SIZE_TOLERANCE, RATE_TOLERANCE = 0.15, 0.05
"""Largest differences at which a size (relative) and a dropout probability (absolute) of a configuration still count as
the values that `sizes_for` gives, and so as not chosen by the user."""


def size_changes(config: Config, old_sizes: Sizes, new_sizes: Sizes) -> dict[str, Any]:
    """Return new values, by dotted key, of the settings that should change because the text has grown.

    `old_sizes` are the sizes for the text for which the configuration was written, and `new_sizes` the sizes for the
    larger text. A setting whose value is not that of `old_sizes` was chosen by the user and is not returned.
    """
    model, training = config.model, config.training
    # A value that the user chose is seldom so close to the rule's value. The rule's own value may differ a little from
    # `old_sizes`, because `nmt init` counts the pairs without those that it holds out.
    usual = _is_near(config.tokenizer.vocab_size, old_sizes.vocab_size) and new_sizes.vocab_size > old_sizes.vocab_size
    changes: dict[str, Any] = {"tokenizer.vocab_size": new_sizes.vocab_size} if usual else {}
    heads = model.attention.heads if model.attention.type == "multihead" else 1
    pairs = {
        "model.embedding_size": (model.embedding_size, old_sizes.embedding_size, new_sizes.embedding_size),
        "model.encoder.hidden_size": (model.encoder.hidden_size, old_sizes.hidden_size, new_sizes.hidden_size),
        "model.decoder.hidden_size": (model.decoder.hidden_size, old_sizes.hidden_size, new_sizes.hidden_size),
        "model.encoder.num_layers": (model.encoder.num_layers, old_sizes.num_layers, new_sizes.num_layers),
        "model.decoder.num_layers": (model.decoder.num_layers, old_sizes.num_layers, new_sizes.num_layers),
        "model.attention.size": (
            model.attention.size,
            old_sizes.hidden_size,
            -(-new_sizes.hidden_size // heads) * heads,
        ),
        "training.batch_size": (training.batch_size, old_sizes.batch_size, new_sizes.batch_size),
        "training.learning_rate": (training.learning_rate, old_sizes.learning_rate, new_sizes.learning_rate),
    }
    if model.pretrained.source or model.pretrained.target:
        del pairs["model.embedding_size"]  # the vectors have it
    changes |= {key: new for key, (given, old, new) in pairs.items() if _is_near(given, old) and given != new}
    if "model.embedding_size" in changes and model.decoder.readout_size == model.embedding_size:
        changes["model.decoder.readout_size"] = new_sizes.embedding_size
    rates = zip(*(each.model_dump().values() for each in (model.dropout, old_sizes.dropout)), strict=True)
    if all(abs(given - old) <= RATE_TOLERANCE for given, old in rates) and model.dropout != new_sizes.dropout:
        changes["model.dropout"] = new_sizes.dropout.model_dump()
    if training.schedule == old_sizes.schedule != new_sizes.schedule:
        changes["training.schedule"] = new_sizes.schedule
    return changes


def _is_near(given: float, usual: float) -> bool:
    """Return True if a value of the configuration is the usual value, or close enough to stem from a few pairs more or
    fewer."""
    return abs(given - usual) <= SIZE_TOLERANCE * usual


def _has_ideographs(text: TextSurvey) -> bool:
    return text.covering_characters > MANY_IDEOGRAPHS


def _pieces_per_line(text: TextSurvey) -> float:
    """Return the approximate number of pieces of a target line, estimated from words or characters, whichever gives
    more: if words are not separated by blanks, only the characters count."""
    characters_per_piece = IDEOGRAPHS_PER_PIECE if _has_ideographs(text) else CHARACTERS_PER_PIECE
    by_characters = text.characters_per_line / characters_per_piece
    return max(text.words_per_line * PIECES_PER_WORD, by_characters)


def _vocab_size(wanted: int, text: TextSurvey, characters: int) -> int:
    """Return the wanted size of the vocabulary, limited to the range that suits the text.

    Up to 4,000 distinct words allow a quarter of a piece each. More words allow more each: 10,000 allow 4,000 pieces.
    These two numbers were measured (docs/studies/defaults.md); in between and beyond, the share grows with the square
    root of the number of words.
    """
    words, basic = text.distinct_words, characters + BASIC_PIECES
    allowed = basic + min(MORE_PIECES, words // 2) + max(words // 4, round(words * math.sqrt(words) / 250))
    needed = basic + min(MIN_PIECES_WITH_IDEOGRAPHS if _has_ideographs(text) else MIN_PIECES, words // 4)
    return max(min(wanted, allowed), needed)


def _two_digits(number: float) -> float:
    """Return a number rounded to two leading digits: 2963.4 to 3000, 0.00184 to 0.0018."""
    return float(f"{number:.2g}")


def _round(number: float) -> int:
    """Return a number rounded to thousands from 5,000, hundreds from 500, tens from 50: 1234 to 1200, 87 to 90."""
    for unit in (1_000, 100, 10):
        if number >= 5 * unit:
            return round(number / unit) * unit
    return round(number)


# Memory -----------------------------------------------------------------------------------------------------------

FLOAT_BYTES = 4
_MOMENTS = {"adam": 2, "adamw": 2, "adadelta": 2, "sgd": 0}
ROWS_OF_LOGITS = 512
ACTIVATION_OVERHEAD = 1.3
"""Factor on the memory of activations, for their gradients, buffers of products and memory that the allocator cannot
reuse."""


@dataclass(frozen=True, slots=True)
class TrainingMemory:
    """Bytes of memory that training needs, by use, without about 0.5 GB for PyTorch (and as much on a GPU)."""

    weights: int
    gradients: int
    optimizer: int
    average: int
    activations: int

    @property
    def total(self) -> int:
        return self.weights + self.gradients + self.optimizer + self.average + self.activations


def training_memory(config: Config, *, num_parameters: int, target_vocab_size: int, longest: int) -> TrainingMemory:
    """Return the memory that training needs for a batch of pairs of `longest` pieces, in float32 (bfloat16 needs less).

    Parameters: 4 bytes each for the weights, the gradients, the moments (Adam two) and the average, where there is one.
    Activations: 4 bytes for each number that the backward pass needs. With E embedding, H hidden units, C annotation
    and A attention, a source piece needs 5E + 22H for each direction and layer + 2A; a target piece 6E (with a lexical
    model 9E) + 2C + 21H for each cell, of which the first layer has two if it is conditional; and each pair of a source
    and a target piece 3, and A more if something else than query and key enters the score (location, coverage) or if
    there are several heads. An LSTM needs a quarter more, a cell without layer normalisation six tenths. 512 rows of
    logits are held at a time. These numbers were counted among the tensors that exist when the backward pass begins.
    """
    model, training = config.model, config.training
    moments = 1 if training.optimizer == "sgd" and training.momentum else _MOMENTS[training.optimizer]
    longest = max(1, longest)
    positions = training.batch_size * (longest if training.batch_type == "sentences" else 1) / training.accumulate

    def cell(units: int, rnn_type: str) -> float:
        return units * (1.25 if rnn_type == "lstm" else 1.0) * (1.0 if model.layer_norm else 0.6)

    encoder, decoder, attention = model.encoder, model.decoder, model.attention
    source_cells = encoder.num_layers * (2 if encoder.bidirectional else 1) * 22
    source = 5 * model.embedding_size + source_cells * cell(encoder.hidden_size, encoder.rnn_type)
    target_cells = 21 * (decoder.num_layers + (decoder.recurrence == "conditional"))
    target = (
        (6 + 3 * model.lexical_model) * model.embedding_size
        + 2 * model.annotation_size
        + target_cells * cell(decoder.hidden_size, decoder.rnn_type)
    )
    score = attention.score if attention.type.startswith("local") else attention.type
    keys = 2 * attention.size if score in ("additive", "concat", "location", "multihead") else 0
    keeps_sums = attention.type in ("location", "multihead") or attention.coverage != "none"
    pair = 3 + attention.size * keeps_sums if attention.type != "none" else 0
    numbers = positions * (source + target + keys + longest * pair)
    logits = ROWS_OF_LOGITS * target_vocab_size
    return TrainingMemory(
        weights=FLOAT_BYTES * num_parameters,
        gradients=FLOAT_BYTES * num_parameters,
        optimizer=FLOAT_BYTES * num_parameters * moments,
        average=FLOAT_BYTES * num_parameters if training.ema_decay else 0,
        activations=round(FLOAT_BYTES * ACTIVATION_OVERHEAD * (numbers + logits)),
    )
