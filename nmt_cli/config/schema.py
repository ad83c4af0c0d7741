"""The configuration as frozen, typed sections. Unknown keys are refused; `nmt schema` prints all keys.

The model, the search, the training, the translation and the server take plain keyword arguments instead of sections.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import Discriminator, Field, Tag, model_validator

from nmt_cli.config.decoding import DecodingConfig
from nmt_cli.config.model import ModelConfig
from nmt_cli.config.section import (
    DataPath,
    DirectoryPath,
    Name,
    PositiveFloat,
    PositiveInt,
    Probability,
    Section,
    pattern_field,
    raise_problems,
)
from nmt_cli.system.errors import InputError
from nmt_cli.text.direction import Direction, format_directions
from nmt_cli.text.language_codes import bleu_tokenizer

ONE, SEVERAL, WITH_LANGUAGE = FORMS = "(one)", "(several)", "(with a language)"
"""Tags of the alternative forms of a value, such as one file or several. They appear in the `loc` of pydantic's
errors."""


class TextPair(Section):
    """Two files of parallel text, a sentence a line; names ending in .gz are decompressed."""

    source: DataPath
    """A text file in the source language."""
    target: DataPath
    """Its translation, line by line."""
    source_lang: Name | None = None
    """Language of the source, in a model of several directions; null: that of `data`."""
    target_lang: Name | None = None
    """Language of the target, in a model of several directions; null: that of `data`."""


class TrainingCorpus(TextPair):
    """A training corpus."""

    weight: Annotated[float, Field(gt=0.0, le=1_000_000.0)] = 1.0
    """Number of times that an epoch goes through it: 2.0 is twice, 0.5 is a random half."""
    alignment: DataPath | None = None
    """Word alignments in Pharaoh format (`0-0 1-2`), a line a pair, for guided alignment."""


class TestSet(TextPair):
    """A test set with the name by which reports call it."""

    __test__ = False  # not a class of tests, whatever its name begins with
    name: Name
    """The name in reports."""


Text = TypeVar("Text", bound=TextPair)


class LanguageText(Section):
    """A file of text in one language, a sentence a line, whose language has to be named."""

    text: DataPath
    """A text file; a name ending in .gz is decompressed."""
    lang: Name
    """Its language."""


_AnyText = Annotated[
    Annotated[DataPath, Tag(ONE)] | Annotated[LanguageText, Tag(WITH_LANGUAGE)],
    Discriminator(lambda given: WITH_LANGUAGE if isinstance(given, (dict, LanguageText)) else ONE),
]


class MonolingualText(Section):
    """Text in one language, a sentence a line, which `nmt improve` puts to use. `nmt train` ignores it."""

    target: tuple[_AnyText, ...] = ()
    """Files in the target language; `{text: FILE, lang: XX}` where a model has several target languages."""
    source: tuple[_AnyText, ...] = ()
    """Files in the source language; `{text: FILE, lang: XX}` where a model has several source languages."""

    @property
    def paths(self) -> tuple[str, ...]:
        """The paths of all files, first those in the target language."""
        return tuple(one if isinstance(one, str) else one.text for one in (*self.target, *self.source))

    @model_validator(mode="after")
    def _has_files_that_differ(self) -> Self:
        files = self.paths
        problems = [] if files else ["target: name at least one file here or under source, or leave monolingual out"]
        twice = [path for path in dict.fromkeys(files) if files.count(path) > 1]
        problems += [f"target: {path} is named twice; name it once" for path in twice]
        raise_problems(problems)
        return self


MAX_LICENCE = 200
"""Most characters of the name of a licence."""


class DataConfig(Section):
    """The corpora and what is left out of them."""

    source_lang: Name | None = None
    """Language code of the source, such as `en`; null where every corpus has its own."""
    target_lang: Name | None = None
    """Language code of the target; null where every corpus has its own."""
    licence: (
        Annotated[
            str,
            Field(min_length=1, max_length=MAX_LICENCE),
            pattern_field(r"^[^\x00-\x1f\x7f]*\S[^\x00-\x1f\x7f]*$", "must be one line of text"),
        ]
        | None
    ) = None
    """Licence of the training data, best by its SPDX name such as `CC-BY-4.0`; `nmt card` shows it."""
    train: Annotated[tuple[TrainingCorpus, ...], Field(min_length=1)]
    """One corpus or several."""
    corpus_temperature: Annotated[float, Field(ge=1.0, le=1_000_000.0)] = 1.0
    """T: a corpus of n pairs is drawn as if it had n^(1/T), times its weight (Arivazhagan et al., 2019). The length of
    an epoch does not change. 1: no change; 5: nearly even."""
    source_tags: bool = False
    """Also put a tag of the source language before each source. With several target languages, a tag of the target
    language is there in any case."""
    word_pairs: bool = False
    """Train on words with their translations too, which are learned from the training text. Without it, a model often
    makes a sentence of a single word."""
    dev: (
        Annotated[
            Annotated[TextPair, Tag(ONE)] | Annotated[tuple[TextPair, ...], Field(min_length=1), Tag(SEVERAL)],
            Discriminator(lambda given: SEVERAL if isinstance(given, (list, tuple)) else ONE),
        ]
        | None
    ) = None
    """Held-out text for validation, or a list of such texts; never filtered. A model of several directions
    needs one for each."""
    test: tuple[TestSet, ...] = ()
    """Sets that `nmt evaluate` translates and scores. You may change them after training: run the same `nmt train`
    command again, which then only takes over the new list."""
    monolingual: MonolingualText | None = None
    """Text in one language alone, for `nmt improve`. It may change at any time, because `nmt train` ignores it."""
    max_length: PositiveInt = 100
    """Pieces on either side; longer training pairs are left out and counted."""
    max_length_ratio: Annotated[float, Field(ge=1.0)] | None = None
    """Training pairs whose sides differ by more than this factor in pieces are left out and counted; off when null."""
    invalid_utf8: Literal["error", "skip", "replace"] = "error"
    """Training text that is not UTF-8: stop with file and line, leave the pair out, or put U+FFFD in its place."""

    @model_validator(mode="after")
    def _texts_have_languages(self) -> Self:
        named = [
            *((f"train.{number}", corpus) for number, corpus in enumerate(self.train)),
            *(
                (f"dev.{number}" if isinstance(self.dev, tuple) else "dev", text)
                for number, text in enumerate(self.dev_sets)
            ),
            *((f"test.{number}", test) for number, test in enumerate(self.test)),
        ]
        problems = [
            f"{side}: is missing; name the language here, or with every corpus"
            for side in ("source_lang", "target_lang")
            if getattr(self, side) is None and all(getattr(corpus, side) is None for corpus in self.train)
        ]
        if not problems:
            problems = [
                f"{key}: has no languages; give it source_lang and target_lang"
                for key, text in named
                if not all(self.direction_of(text))
            ]
        raise_problems(problems or [*self._problems_of_directions(named), *self._problems_of_monolingual_text()])
        return self

    @model_validator(mode="after")
    def _test_names_differ(self) -> Self:
        names = [test.name for test in self.test]
        if len(set(names)) < len(names):
            raise ValueError("test: every test set needs a name of its own")
        return self

    def _problems_of_directions(self, named: Sequence[tuple[str, TextPair]]) -> list[str]:
        """Return a message for each text whose direction is not trained, and for each direction that is wrong.

        `named` has the key of each text and the text.
        """
        directions = self.directions
        problems = [
            f"{key}: no training corpus has its direction, {self.direction_of(text)}; the directions are "
            f"{format_directions(directions)}"
            for key, text in named
            if self.direction_of(text) not in directions
        ]
        if len(directions) == 1:
            return problems
        for direction in directions:
            if direction.source == direction.target:
                problems.append(f"train: the direction {direction} has the same language twice")
            elif not direction.has_plain_codes:
                problems.append(f"train: {direction}: a model of several directions needs codes such as zh or zh_TW")
            if direction not in map(self.direction_of, self.dev_sets):
                problems.append(f"dev: has no text in the direction {direction}; every direction needs one")
        return problems

    def _problems_of_monolingual_text(self) -> list[str]:
        """Return a message for each monolingual file whose language is missing or is not trained."""
        problems = []
        for side in ("source", "target") if self.monolingual is not None else ():
            known = self._languages_of(side)
            for number, text in enumerate(getattr(self.monolingual, side)):
                key = f"monolingual.{side}.{number}"
                if isinstance(text, LanguageText) and text.lang not in known:
                    problems.append(f"{key}: {text.lang} is not a {side} language; there are: {', '.join(known)}")
                if isinstance(text, str) and len(known) > 1:
                    problems.append(
                        f"{key}: the {side} is in several languages ({', '.join(known)}); write "
                        f"{{text: {text}, lang: {known[0]}}}, with the language of the file"
                    )
        return problems

    def _languages_of(self, side: str) -> tuple[str, ...]:
        """Return the distinct languages of a side, `source` or `target`, in the order of the directions."""
        return tuple(dict.fromkeys(getattr(direction, side) for direction in self.directions))

    def monolingual_files(self, side: str) -> tuple[tuple[str, str], ...]:
        """Return the path and the language of each monolingual file of a side, `source` or `target`."""
        if self.monolingual is None:
            return ()
        only, *_ = self._languages_of(side)
        texts = getattr(self.monolingual, side)
        return tuple((text, only) if isinstance(text, str) else (text.text, text.lang) for text in texts)

    @property
    def dev_sets(self) -> tuple[TextPair, ...]:
        """All held-out texts for validation; empty if there is none."""
        return () if self.dev is None else self.dev if isinstance(self.dev, tuple) else (self.dev,)

    def direction_of(self, text: TextPair) -> Direction:
        """Return the direction of a text: its own, else that of this section, else the only one of the corpora."""
        source, target = text.source_lang or self.source_lang, text.target_lang or self.target_lang
        if not isinstance(text, TrainingCorpus) and not (source and target) and len(self.directions) == 1:
            source, target = source or self.directions[0].source, target or self.directions[0].target
        return Direction(source or "", target or "")

    @property
    def directions(self) -> tuple[Direction, ...]:
        """The directions in which a model is trained, in the order of the corpora; at least one."""
        without_corpora = Direction(self.source_lang or "", self.target_lang or "")  # as of a direction to try
        return tuple(dict.fromkeys(map(self.direction_of, self.train))) or (without_corpora,)

    @property
    def direction(self) -> Direction:
        """The only direction; raises `InputError` if there are several."""
        self.require_one_direction()
        return self.directions[0]

    def require_one_direction(self) -> None:
        """Raise `InputError` where there are several directions, and say how one is chosen."""
        if len(self.directions) > 1:
            raise InputError(
                f"the model translates in several directions ({format_directions(self.directions)}); choose one with "
                "--source-lang and --target-lang"
            )

    @property
    def languages(self) -> tuple[str, ...]:
        """All languages of the directions, each once, sources first."""
        return tuple(dict.fromkeys(language for side in zip(*self.directions, strict=True) for language in side))

    @property
    def tags(self) -> tuple[str, ...]:
        """The language tags that the model may see before a source, such as `<2fr>`; empty for one direction."""
        if len(self.directions) == 1:
            return ()
        of_sources, of_targets = (dict.fromkeys(side) for side in zip(*(d.tags for d in self.directions), strict=True))
        return (*(of_sources if self.source_tags else ()), *(of_targets if len(of_targets) > 1 else ()))

    def for_direction(self, direction: Direction) -> Self:
        """Return this section with the texts of one direction only, as for a model of this direction alone."""

        def own(texts: Sequence[Text]) -> tuple[Text, ...]:
            return tuple(text for text in texts if self.direction_of(text) == direction)

        dev = own(self.dev_sets)
        return self.model_copy(
            update={
                "source_lang": direction.source,
                "target_lang": direction.target,
                "train": own(self.train),
                "dev": dev[0] if len(dev) == 1 else dev or None,
                "test": own(self.test),
            }
        )


class TokenizerConfig(Section):
    """SentencePiece, trained on the training corpora."""

    model_type: Literal["unigram", "bpe", "char", "word"] = "unigram"
    """The way words are cut into pieces. `word` leaves them whole, and `char` takes every character for a piece."""
    vocab_size: Annotated[int, Field(ge=8, le=10_000_000)] = 8000
    """Pieces in the vocabulary (of each side where there are two)."""
    joint: bool = True
    """One tokenizer for both languages; false: one for each."""
    normalization: Literal["nmt_nfkc", "nmt_nfkc_cf", "nfkc", "nfkc_cf", "identity"] = "nmt_nfkc"
    """SentencePiece's rule; `_cf` folds case, `identity` leaves the text alone."""
    character_coverage: Annotated[float, Field(ge=0.98, le=1.0)] = 1.0
    """Share of the text's characters that get pieces of their own; the rest is spelt in bytes. 0.9995 suits Chinese.
    SentencePiece takes 0.98 to 1."""
    sampling_alpha: Annotated[float, Field(ge=0.0, le=1.0)] = 0.0
    """Subword regularisation in training; 0 is off. unigram: smoothing of the sampling (Kudo, 2018), 0.1-0.5, smaller
    is wilder. bpe: probability to drop a merge (Provilkov et al., 2020), 0.1 is usual."""
    symbols: tuple[Annotated[str, pattern_field(r"^\S+$", "must be text without spaces")], ...] = ()
    """Strings that are always pieces of their own, such as the tag of back-translated text."""
    max_training_lines: PositiveInt = 2_000_000
    """Lines that the tokenizer is trained on, drawn evenly from larger corpora."""

    @model_validator(mode="after")
    def _options_fit_the_type(self) -> Self:
        problems = []
        if self.sampling_alpha and self.model_type in ("char", "word"):
            problems.append(
                f"sampling_alpha: a {self.model_type} tokenizer can cut a line in one way only; set it to 0"
            )
        reserved = [symbol for symbol in self.symbols if re.fullmatch(r"<(pad|unk|s|/s|0x[0-9A-F]{2})>", symbol)]
        problems += [f"symbols: {symbol} is reserved; choose another" for symbol in reserved]
        twice = [symbol for symbol in dict.fromkeys(self.symbols) if self.symbols.count(symbol) > 1]
        problems += [f"symbols: {symbol} is given twice" for symbol in twice]
        if self.symbols and self.model_type == "word":
            problems.append("symbols: a word tokenizer keeps words whole, so it takes no symbols; leave them out")
        raise_problems(problems)
        return self


class TrainingConfig(Section):
    """The training of the model, and the checkpoints that are kept."""

    batch_size: PositiveInt = 4096
    """Size of one update over all devices: target pieces with padding and </s>, or sentences."""
    batch_type: Literal["tokens", "sentences"] = "tokens"
    """The unit of `batch_size`; `tokens` are pieces."""
    accumulate: PositiveInt = 1
    """Compute each update in this many parts, one after the other, to save memory."""
    optimizer: Literal["adam", "adamw", "adadelta", "sgd"] = "adam"
    """Adam (Kingma & Ba, 2015), AdamW, Adadelta (Zeiler, 2012), or gradient descent with momentum."""
    learning_rate: PositiveFloat = 1.0e-3
    """The peak, reached after the warm-up."""
    adam_beta1: Probability = 0.9
    """`adam` and `adamw`: decay of the mean of gradients."""
    adam_beta2: Probability = 0.98
    """`adam` and `adamw`: decay of the mean of their squares."""
    adadelta_rho: Probability = 0.95
    """`adadelta`: decay of its means of squares."""
    epsilon: PositiveFloat | None = None
    """Epsilon of the optimizer. null is 1e-8, and 1e-6 for Adadelta."""
    momentum: Probability = 0.0
    """`sgd` only."""
    weight_decay: Annotated[float, Field(ge=0.0)] = 0.0
    """L2 penalty: this much of each weight is added to its gradient. With `adamw` the weights shrink directly
    (Loshchilov & Hutter, 2019)."""
    schedule: Literal["constant", "plateau", "inverse_sqrt", "linear", "cosine"] = "cosine"
    """Course of the learning rate after its warm-up. `linear` and `cosine` fall to `final_learning_rate` at the end."""
    warmup_steps: Annotated[int, Field(ge=0)] = 0
    """Updates in which the learning rate rises from 0 to `learning_rate`."""
    final_learning_rate: Annotated[float, Field(ge=0.0)] = 0.0
    """The learning rate at which `linear` and `cosine` end."""
    plateau_factor: Annotated[float, Field(gt=0.0, lt=1.0)] = 0.5
    """`plateau`: the learning rate is multiplied by it when `plateau_patience` validations bring nothing better."""
    plateau_patience: PositiveInt = 2
    """`plateau`: validations without improvement before the rate falls."""
    max_epochs: PositiveInt | None = 20
    """Passes through the training corpora, by their weights. If only `max_steps` is given, there is no limit."""
    max_steps: PositiveInt | None = None
    """Updates; training ends at whichever of the two limits comes first."""
    max_minutes: PositiveFloat | None = None
    """Minutes after which `nmt train` saves a checkpoint and ends as after SIGTERM, with exit code 143. They count from
    the start of the command; run the same command again to resume. null: no limit."""
    label_smoothing: Probability = 0.1
    """Probability of the target that is spread over all pieces (Szegedy et al., 2016, section 7)."""
    sampled_softmax: bool = False
    """CPU only: the softmax of an update has the pieces of its batch, the frequent ones, and a tenth of the others,
    drawn at random (Jean et al., 2015). It is faster. The training loss is an estimate; the loss on the dev set is
    exact. The output's bias begins with the frequencies of the pieces."""
    clip_grad_norm: PositiveFloat | None = 1.0
    """Longer gradients are scaled down to this norm; null: never."""
    on_divergence: Literal["stop", "rewind"] = "stop"
    """After ten updates in a row that are not finite: end, or go back to the last good checkpoint and on from there
    with half the learning rate, at most five times."""
    ema_decay: Probability = 0.0
    """Decay of an exponential moving average of the weights, which is used for translation; 0 is off. It covers about
    the last ninth of all updates so far, at most 1 / (1 - decay) updates."""
    guided_alignment_weight: Annotated[float, Field(ge=0.0)] = 0.5
    """Weight of the alignment loss (Chen et al., 2016), where a corpus brings alignments."""
    validation_freq: PositiveInt = 500
    """Updates between two validations."""
    checkpoint_freq: PositiveInt = 500
    """Updates between two checkpoints; a checkpoint is also written with each validation."""
    early_stopping_metric: Literal["bleu", "chrf", "loss", "perplexity"] = "bleu"
    """The score on the dev set that `patience`, `plateau` and the best checkpoints go by."""
    early_stopping_direction: str | None = None
    """The direction, such as `vi-en`, whose score on the dev set counts; null: the mean of all directions."""
    patience: PositiveInt | None = 5
    """Validations without a better score after which training ends."""
    keep_best: PositiveInt = 1
    """Checkpoints that are kept for their score on the dev set."""
    keep_last: PositiveInt = 1
    """Newest checkpoints that are kept."""
    num_samples: Annotated[int, Field(ge=0)] = 3
    """Dev sentences shown with their translation at each validation."""
    logging_freq: PositiveInt = 50
    """Updates between two lines of the log."""
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    """auto takes bf16 where the hardware multiplies it natively and, on a CPU, is at least 1.15 times as fast with it.
    That is measured when the run begins, with the products of its own model and batches; it takes less than a second.
    The run keeps the choice to its end."""
    device: Annotated[
        str, pattern_field(r"^(auto|cpu|cuda(:\d+)?)$", "must be auto, cpu, cuda, or a GPU such as cuda:0")
    ] = "auto"
    """auto takes the first GPU where there is one, else the CPU."""
    deterministic: bool = True
    """CUDA: deterministic kernels, without which a resumed run differs in the last digits."""
    threads: Annotated[int, Field(gt=0, le=4_096)] | None = None
    """CPU threads. null: one or all processors that the process may use, whichever is measured to be faster when the
    run begins, or `OMP_NUM_THREADS` where that is set. The run keeps the choice. It resumes exactly with the same
    number; with another one, the result differs in the last digits."""
    init_from: DirectoryPath | None = None
    """Model directory of another run, whose weights this one begins with. If the languages and the section `tokenizer`
    are the same, its tokenizer is taken too. If not, it is a parent with another vocabulary: the embeddings of pieces
    that both have are copied, and the other embeddings begin with random values."""
    tensorboard: bool = False
    """Write the figures of metrics.jsonl for TensorBoard too, to logs/tensorboard; needs the extra `logs`."""

    @model_validator(mode="before")
    @classmethod
    def _drop_default_max_epochs(cls, given: Any) -> Any:
        """Drop the default of `max_epochs` where only `max_steps` is given."""
        has_steps = isinstance(given, Mapping) and given.get("max_steps") is not None
        return {"max_epochs": None, **given} if has_steps else given

    @model_validator(mode="after")
    def _ends(self) -> Self:
        problems = []
        if self.max_epochs is None and self.max_steps is None:
            problems.append("max_epochs: give this or max_steps, else training has no end")
        if self.schedule in ("linear", "cosine") and self.final_learning_rate > self.learning_rate:
            problems.append("final_learning_rate: is above learning_rate; set it to less")
        raise_problems(problems)
        return self


class ScoringConfig(Section):
    """Options of scoring in validation and `nmt evaluate`: the values of `nmt score --tokenize` and `--lowercase`."""

    tokenize: str | None = None
    """The way BLEU cuts words. null is `13a`, sacreBLEU's default. `none` is for text that is tokenised already, and
    `zh` or `char` are for languages that do not separate words with spaces."""
    lowercase: bool = False
    """Score without case."""


REMOVED_KEYS: dict[tuple[str, ...], float] = {
    ("training", "r_drop"): 0.0,
    ("model", "encoder", "transition_depth"): 1,
    ("model", "decoder", "transition_depth"): 1,
}
"""Keys of earlier versions with the value that switched them off; stored configurations still hold them."""
IGNORED_KEYS: dict[tuple[str, ...], str] = {("training", "cuda_graphs"): "CUDA graphs were removed"}
"""Keys of earlier versions that are accepted but have no effect, with the reason, which a warning tells the user."""
RENAMED_KEYS: dict[tuple[str, ...], str] = {("decoding", "adapt_writing"): "normalize_input"}
"""Keys of earlier versions with their present names; the old names still work."""


class Config(Section):
    """The configuration of a run: data, tokenizer, model, training, decoding and scoring."""

    name: Name
    """Name of the run in logs and reports."""
    model_dir: DirectoryPath
    """Directory of everything that the run makes."""
    seed: Annotated[int, Field(ge=0, lt=2**31)] = 1
    """Random seed for the initial weights, the order of the text, and dropout."""
    data: DataConfig
    tokenizer: TokenizerConfig = TokenizerConfig()
    model: ModelConfig = ModelConfig()
    training: TrainingConfig = TrainingConfig()
    decoding: DecodingConfig = DecodingConfig()
    scoring: ScoringConfig = ScoringConfig()

    @model_validator(mode="after")
    def _sections_agree(self) -> Self:
        problems = []
        if self.model.tied_embeddings in ("source-target", "all") and not self.tokenizer.joint:
            problems.append(f"model.tied_embeddings: {self.model.tied_embeddings} needs tokenizer.joint: true")
        if self.data.dev is None and (self.training.schedule == "plateau"):
            problems.append("training.schedule: plateau needs data.dev")
        chosen, directions = self.training.early_stopping_direction, self.data.directions
        if chosen is not None and chosen not in map(str, directions):
            problems.append(
                f"training.early_stopping_direction: {chosen} is not trained; there are: "
                f"{format_directions(directions)}"
            )
        if self.model.attention.type == "none" and self.training.guided_alignment_weight:
            problems += [
                f"data.train.{place}.alignment: is for guided attention, but model.attention.type is none; leave it out"
                for place, corpus in enumerate(self.data.train)
                if corpus.alignment
            ]
        if self.model.pretrained.freeze and self.training.weight_decay:
            problems.append("model.pretrained.freeze: training.weight_decay would shrink what is frozen; leave one out")
        raise_problems(problems)
        return self

    def for_direction(self, direction: Direction) -> Self:
        """Return the configuration for one direction only: its data, and BLEU's tokenization of its target language."""
        if len(self.data.directions) == 1:
            return self
        tokenize = self.scoring.tokenize or bleu_tokenizer(direction.target)
        scoring = self.scoring.model_copy(update={"tokenize": tokenize})
        return self.model_copy(update={"data": self.data.for_direction(direction), "scoring": scoring})
