"""The configuration: frozen, typed, documented. Unknown keys are refused; `nmt schema` prints it all.

Only commands and `model.build` know these classes; everything else takes plain keyword arguments.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

Probability = Annotated[float, Field(ge=0.0, lt=1.0)]
PositiveInt = Annotated[int, Field(gt=0)]
PositiveFloat = Annotated[float, Field(gt=0.0)]
# Bounds beyond any use: a configuration may come with a stranger's model, and what it says is built.
Units = Annotated[int, Field(gt=0, le=65_536)]
Layers = Annotated[int, Field(gt=0, le=64)]
Count = Annotated[int, Field(gt=0, le=1_000_000)]
# One name of a path, neither `.` nor `..`.
Name = Annotated[str, Field(min_length=1, pattern=r"^(?:\.{0,2}[^./\\\x00-\x1f]|\.{3})[^/\\\x00-\x1f]*$")]
PathText = Annotated[str, Field(min_length=1, pattern=r"^[^\x00\n]+$")]

RnnType = Literal["gru", "lstm"]
AttentionType = Literal["none", "additive", "dot", "general", "concat", "local-m", "local-p", "location", "multihead"]


def _refuse(problems: Sequence[str]) -> None:
    """One error for all that does not agree within a section, each as `key: what is wrong`."""
    if problems:
        raise ValueError("\n".join(problems))


class Section(BaseModel):
    """A part of the configuration: frozen, strict about types, closed to unknown keys."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, use_attribute_docstrings=True, allow_inf_nan=False
    )


class TextPair(Section):
    """Two files of parallel text, a sentence a line; names ending in .gz are decompressed."""

    source: PathText
    """A text file in the source language."""
    target: PathText
    """Its translation, line by line."""


class TrainingCorpus(TextPair):
    """A training corpus."""

    weight: Annotated[float, Field(gt=0.0, le=1_000_000.0)] = 1.0
    """How often an epoch goes through it: 2.0 twice, 0.5 through a random half."""
    alignment: PathText | None = None
    """Word alignments in Pharaoh format (`0-0 1-2`), a line a pair, for guided alignment."""


class TestSet(TextPair):
    """A test set with the name by which reports call it."""

    __test__ = False  # not a class of tests, whatever its name begins with
    name: Name
    """What reports call it."""


class DataConfig(Section):
    """The corpora and what is left out of them."""

    source_lang: Name
    """Language code of the source, such as `en`."""
    target_lang: Name
    """Language code of the target."""
    train: Annotated[tuple[TrainingCorpus, ...], Field(min_length=1)]
    """One corpus or several."""
    dev: TextPair | None = None
    """Held-out text for validation; never filtered."""
    test: tuple[TestSet, ...] = ()
    """Sets that `nmt evaluate` translates and scores. They may change at any time: run `nmt train` again."""
    max_length: PositiveInt = 100
    """Pieces on either side; longer training pairs are left out and counted."""
    max_length_ratio: Annotated[float, Field(ge=1.0)] | None = None
    """Training pairs whose sides differ by more than this factor in pieces are left out and counted; off when null."""
    invalid_utf8: Literal["error", "skip", "replace"] = "error"
    """Training text that is not UTF-8: stop with file and line, leave the pair out, or put U+FFFD in its place."""

    @model_validator(mode="after")
    def _test_names_differ(self) -> Self:
        names = [test.name for test in self.test]
        if len(set(names)) < len(names):
            raise ValueError("test: every test set needs a name of its own")
        return self


class TokenizerConfig(Section):
    """SentencePiece, trained on the training corpora."""

    model_type: Literal["unigram", "bpe", "char", "word"] = "unigram"
    """How words are cut into pieces; `word` leaves them whole, `char` takes every character for a piece."""
    vocab_size: Annotated[int, Field(ge=8, le=10_000_000)] = 8000
    """Pieces in the vocabulary (of each side where there are two)."""
    joint: bool = True
    """One model for both sides, or one a side."""
    normalization: Literal["nmt_nfkc", "nmt_nfkc_cf", "nfkc", "nfkc_cf", "identity"] = "nmt_nfkc"
    """SentencePiece's rule; `_cf` folds case, `identity` leaves the text alone."""
    character_coverage: Annotated[float, Field(gt=0.0, le=1.0)] = 1.0
    """Share of the text's characters that get pieces of their own; the rest is spelt in bytes. 0.9995 suits Chinese."""
    sampling_alpha: Annotated[float, Field(ge=0.0, le=1.0)] = 0.0
    """Subword regularisation in training; 0 is off. unigram: smoothing of the sampling (Kudo, 2018), 0.1-0.5, smaller
    is wilder. bpe: probability to drop a merge (Provilkov et al., 2020), 0.1 is usual."""
    symbols: tuple[Annotated[str, Field(pattern=r"^\S+$")], ...] = ()
    """Strings that are pieces of their own wherever they stand, such as the tag of back-translated text."""
    max_training_lines: PositiveInt = 2_000_000
    """Lines that the tokenizer is trained on, drawn evenly from larger corpora."""

    @model_validator(mode="after")
    def _options_fit_the_type(self) -> Self:
        problems = []
        if self.sampling_alpha and self.model_type in ("char", "word"):
            problems.append(f"sampling_alpha: a {self.model_type} model has one segmentation only; set it to 0")
        reserved = [symbol for symbol in self.symbols if re.fullmatch(r"<(pad|unk|s|/s|0x[0-9A-F]{2})>", symbol)]
        problems += [f"symbols: {symbol} is a piece of every vocabulary; choose another" for symbol in reserved]
        twice = [symbol for symbol in dict.fromkeys(self.symbols) if self.symbols.count(symbol) > 1]
        problems += [f"symbols: {symbol} stands twice" for symbol in twice]
        if self.symbols and self.model_type == "word":
            problems.append("symbols: the pieces of a word model are the words as they stand; leave them out")
        _refuse(problems)
        return self


class EncoderConfig(Section):
    """A stack of recurrent layers; residual connections from the second layer on."""

    rnn_type: RnnType = "gru"
    """The recurrent cell."""
    bidirectional: bool = True
    """Read the source in both directions."""
    hidden_size: Units = 512
    """Units in each direction; an annotation joins both, so it has twice as many."""
    num_layers: Layers = 1
    """Recurrent layers, one above the other."""
    reverse_source: bool = False
    """Read the source from its end (Sutskever et al., 2014)."""


class DecoderConfig(Section):
    """The recurrent decoder."""

    rnn_type: RnnType = "gru"
    """The recurrent cell."""
    recurrence: Literal["bahdanau", "conditional", "luong"] = "conditional"
    """`bahdanau`: attend with s_{i-1}, then update (Bahdanau et al., 2015). `conditional`: two steps around the
    attention (Nematus). `luong`: update, attend, attentional vector (Luong et al., 2015)."""
    hidden_size: Units = 512
    """Units of the state of each layer."""
    num_layers: Layers = 1
    """Recurrent layers, one above the other; the first one attends, in `luong` the last."""
    initial_state: Literal["auto", "mean", "backward", "final", "zero"] = "auto"
    """A learned projection of the mean annotation, of the backward state at the first word (the paper's), of the last
    states, or zeros. `auto`: backward for `bahdanau` over a bidirectional encoder, final without attention, or mean."""
    readout: Literal["auto", "maxout", "tanh"] = "auto"
    """Deep output before the softmax; `auto` is maxout for `bahdanau`, tanh for `conditional`. `luong` has its own."""
    readout_size: Units | None = None
    """Units of the readout; the embedding size where the output embedding is tied or this is null."""
    input_feeding: bool = True
    """`luong` only: the attentional vector enters the next step."""


class AttentionConfig(Section):
    """How the decoder looks at the source."""

    type: AttentionType = "additive"
    """How an annotation is scored; each type goes with each recurrence. `additive`: Bahdanau et al. (2015);
    `dot`, `general`, `concat`, `local-m`, `local-p`: Luong et al. (2015); `location`: Chorowski et al. (2015);
    `multihead`: Vaswani et al. (2017)."""
    size: Units = 512
    """Units of the alignment model; unused by `dot`, `general` and `none`."""
    score: Literal["additive", "dot", "general", "concat"] = "general"
    """The score inside `local-m` and `local-p`."""
    window: Units = 10
    """D of `local-m` and `local-p`: positions on either side of the centre."""
    heads: Units = 4
    """Heads of `multihead`; they share `size`."""
    filters: Units = 10
    """`location`: convolution filters over the previous alignment."""
    filter_width: Units = 11
    """`location`: width of a filter in source positions; odd."""
    sharpening: PositiveFloat = 1.0
    """`location`: inverse temperature beta of the softmax (Chorowski et al., 2015, 2.3)."""
    smoothing: bool = False
    """`location`: sigmoids over their sum in place of the softmax (Chorowski et al., 2015, 2.3)."""
    coverage: Literal["none", "linguistic", "neural"] = "none"
    """`additive` only: the attention so far enters the score, as its sum (See et al., 2017; Tu et al., 2016, 3.1.1)
    or as a recurrent vector of each source position (Tu et al., 2016, 3.1.2)."""
    coverage_loss: Annotated[float, Field(ge=0.0)] = 0.0
    """Weight of See et al.'s penalty for attending again; needs `coverage`."""
    context: Literal["every_step", "initial"] = "every_step"
    """`none` only: the source vector enters every step and the readout (Cho et al., 2014), or the first state alone
    (Sutskever et al., 2014)."""

    @model_validator(mode="after")
    def _options_fit_the_type(self) -> Self:
        problems = []
        if self.coverage != "none" and self.type != "additive":
            problems.append(f"coverage: is an option of additive attention, not of {self.type}")
        if self.coverage_loss and self.coverage == "none":
            problems.append("coverage_loss: needs coverage: linguistic or neural")
        if self.filter_width % 2 == 0:
            problems.append(f"filter_width: must be odd, is {self.filter_width}")
        if self.type == "multihead" and self.size % self.heads:
            problems.append(f"size: {self.size} is not a multiple of heads, {self.heads}")
        _refuse(problems)
        return self


class DropoutConfig(Section):
    """Where training drops units; each a probability."""

    embedding: Probability = 0.2
    """Of embedded pieces, one mask a sentence (Gal & Ghahramani, 2016)."""
    recurrent: Probability = 0.2
    """Of the state of every recurrent cell and the inputs of the layers above the first, one mask a sentence."""
    annotation: Probability = 0.2
    """Of the encoder's states."""
    readout: Probability = 0.2
    """Of the last layer before the softmax."""
    source_word: Probability = 0.0
    """Of whole source pieces (Sennrich & Zhang, 2019)."""
    target_word: Probability = 0.0
    """Of whole target pieces that are fed back."""


class PretrainedConfig(Section):
    """Embeddings from text files in word2vec or GloVe format, found by piece."""

    source: PathText | None = None
    """Vectors for source pieces."""
    target: PathText | None = None
    """Vectors for target pieces."""
    freeze: bool = False
    """Keep the embeddings that were found as they are."""


class ModelConfig(Section):
    """The encoder-decoder."""

    embedding_size: Units = 256
    """Units of an embedded piece, on both sides."""
    tied_embeddings: Literal["none", "target", "source-target", "all"] = "all"
    """`target`: target embedding and softmax; `source-target`: the two embeddings; `all`: the three."""
    layer_norm: bool = True
    """Layer normalisation inside the recurrent cells (Ba et al., 2016)."""
    encoder: EncoderConfig = EncoderConfig()
    decoder: DecoderConfig = DecoderConfig()
    attention: AttentionConfig = AttentionConfig()
    lexical_model: bool = False
    """The source pieces under the attention also score the next piece directly (Nguyen & Chiang, 2018); they share the
    output matrix."""
    dropout: DropoutConfig = DropoutConfig()
    pretrained: PretrainedConfig = PretrainedConfig()
    initialization: Literal["auto", "paper"] = "auto"
    """`paper`: Bahdanau et al. (2015), appendix B.1; `auto`: Glorot uniform and orthogonal recurrences."""

    @property
    def annotation_size(self) -> int:
        """Units of an annotation h_j, the encoder's output at one source position."""
        return self.encoder.hidden_size * (2 if self.encoder.bidirectional else 1)

    @model_validator(mode="after")
    def _parts_fit(self) -> Self:
        problems = []
        attention, decoder = self.attention, self.decoder
        score = attention.score if attention.type.startswith("local") else attention.type
        if score == "dot" and decoder.hidden_size != self.annotation_size:
            problems.append(
                f"attention: dot multiplies decoder states of {decoder.hidden_size} units with annotations of "
                f"{self.annotation_size}; set decoder.hidden_size to {self.annotation_size}, or use general"
            )
        if decoder.recurrence == "luong" and decoder.readout != "auto":
            problems.append("decoder.readout: luong's readout is its attentional vector; leave it at auto")
        tied_output = self.tied_embeddings in ("target", "all")
        if tied_output and decoder.readout_size not in (None, self.embedding_size):
            problems.append(
                f"decoder.readout_size: is {decoder.readout_size}, but tied_embeddings: {self.tied_embeddings} "
                f"needs the embedding size, {self.embedding_size}"
            )
        if self.lexical_model and attention.type == "none":
            problems.append("lexical_model: needs attention, which says where the decoder looks")
        if self.lexical_model and decoder.readout_size not in (None, self.embedding_size):
            problems.append(
                f"decoder.readout_size: is {decoder.readout_size}, but lexical_model adds to the readout and needs the "
                f"embedding size, {self.embedding_size}"
            )
        if decoder.initial_state == "backward" and not self.encoder.bidirectional:
            problems.append("decoder.initial_state: backward needs encoder.bidirectional: true")
        if decoder.initial_state == "backward" and self.encoder.reverse_source:
            problems.append("decoder.initial_state: backward is the state at the first word; leave out reverse_source")
        _refuse(problems)
        return self


class TrainingConfig(Section):
    """How the parameters are found, and what is kept."""

    batch_size: PositiveInt = 4096
    """Of the whole update on all devices: padded target pieces with </s>, or sentences."""
    batch_type: Literal["tokens", "sentences"] = "tokens"
    """What `batch_size` counts."""
    accumulate: PositiveInt = 1
    """Parts into which an update's batch is cut, one after the other in memory."""
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
    """Of the optimizer; null: 1e-8, Adadelta 1e-6."""
    momentum: Probability = 0.0
    """`sgd` only."""
    weight_decay: Annotated[float, Field(ge=0.0)] = 0.0
    """Times the weights, added to their gradients; `adamw` shrinks the weights instead (Loshchilov & Hutter, 2019)."""
    schedule: Literal["constant", "plateau", "inverse_sqrt", "linear", "cosine"] = "cosine"
    """Of the learning rate after its warm-up; `linear` and `cosine` fall to `final_learning_rate` at the end."""
    warmup_steps: Annotated[int, Field(ge=0)] = 0
    """Updates in which the learning rate rises from 0 to `learning_rate`."""
    final_learning_rate: Annotated[float, Field(ge=0.0)] = 0.0
    """Where `linear` and `cosine` end."""
    plateau_factor: Annotated[float, Field(gt=0.0, lt=1.0)] = 0.5
    """`plateau`: the learning rate is multiplied by it when `plateau_patience` validations bring nothing better."""
    plateau_patience: PositiveInt = 2
    """`plateau`: validations."""
    max_epochs: PositiveInt | None = 20
    """Passes through the training corpora, by their weights."""
    max_steps: PositiveInt | None = None
    """Updates; training ends at whichever of the two limits comes first."""
    label_smoothing: Probability = 0.1
    """Probability of the target that is spread over all pieces (Szegedy et al., 2016, section 7)."""
    clip_grad_norm: PositiveFloat | None = 1.0
    """Longer gradients are scaled down to this norm; null: never."""
    on_divergence: Literal["stop", "rewind"] = "stop"
    """After ten updates in a row that are not finite: end, or go back to the last good checkpoint and on from there
    with half the learning rate, at most five times."""
    ema_decay: Probability = 0.0
    """Exponential moving average of the weights, which then translate; 0 is off. Of the first
    updates it averages about the last ninth, in the end 1 / (1 - decay)."""
    guided_alignment_weight: Annotated[float, Field(ge=0.0)] = 0.5
    """Of the alignment loss (Chen et al., 2016), where a corpus brings alignments."""
    validation_freq: PositiveInt = 500
    """Steps."""
    checkpoint_freq: PositiveInt = 500
    """Steps; a checkpoint is also written with each validation."""
    early_stopping_metric: Literal["bleu", "chrf", "loss", "perplexity"] = "bleu"
    """Of the dev set: what `patience`, `plateau` and the best checkpoints go by."""
    patience: PositiveInt | None = 5
    """Validations without a better score after which training ends."""
    keep_best: PositiveInt = 1
    """Checkpoints that are kept for their score on the dev set."""
    keep_last: PositiveInt = 1
    """Newest checkpoints that are kept."""
    num_samples: Annotated[int, Field(ge=0)] = 3
    """Dev sentences shown with their translation at each validation."""
    logging_freq: PositiveInt = 50
    """Steps between two lines of the log."""
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    """auto takes bf16 where the hardware multiplies it natively."""
    device: str = Field(default="auto", pattern=r"^(auto|cpu|cuda(:\d+)?)$")
    """auto takes the first GPU where there is one, else the CPU."""
    deterministic: bool = True
    """CUDA: deterministic kernels, without which a resumed run differs in the last digits."""
    threads: Annotated[int, Field(gt=0, le=4_096)] | None = None
    """CPU threads; null: all cores. A run resumes exactly with the same number; another one rounds differently."""
    init_from: PathText | None = None
    """Fine-tuning: another run's model directory; its tokenizer is taken too."""
    tensorboard: bool = False
    """Write the figures of metrics.jsonl for TensorBoard too, to logs/tensorboard; needs the extra `logs`."""

    @model_validator(mode="after")
    def _ends(self) -> Self:
        problems = []
        if self.max_epochs is None and self.max_steps is None:
            problems.append("max_epochs: give this or max_steps, else training has no end")
        if self.schedule in ("linear", "cosine") and self.final_learning_rate > self.learning_rate:
            problems.append("final_learning_rate: is above learning_rate")
        _refuse(problems)
        return self


class DecodingConfig(Section):
    """How the model translates when the command line does not say otherwise."""

    beam_size: Annotated[int, Field(gt=0, le=1_000)] = 5
    """Prefixes that the search keeps at each step; 1 is greedy."""
    length_penalty: Annotated[float, Field(ge=0.0, le=10.0)] = 1.0
    """alpha of ((5+n)/6)^alpha (Wu et al., 2016, eq. 14)."""
    max_source_pieces: Count = 250
    """Longer sources are cut into parts that are translated one by one."""
    max_length_a: Annotated[float, Field(ge=0.0, le=100.0)] = 2.0
    """See `max_length_b`."""
    max_length_b: Count = 20
    """An output has at most a times its source's pieces plus b."""
    no_repeat_ngram: Annotated[int, Field(ge=0, le=1_000)] = 0
    """No sequence of so many pieces twice in an output; 0 is off."""
    batch_tokens: PositiveInt = 16384
    """Rows of the beam times positions of the padded sources in one batch."""


class ScoringConfig(Section):
    """How validation and `nmt evaluate` score; the values of `nmt score --tokenize` and `--lowercase`."""

    tokenize: str | None = None
    """How BLEU cuts words: null is `13a`, sacreBLEU's default; `none` is for text that is tokenised already, `zh` or
    `char` for languages that do not part words by blanks."""
    lowercase: bool = False
    """Score without case."""


REMOVED_KEYS: dict[tuple[str, ...], float] = {
    ("training", "r_drop"): 0.0,
    ("model", "encoder", "transition_depth"): 1,
    ("model", "decoder", "transition_depth"): 1,
}
"""Keys of earlier versions with the value that switched them off; stored configurations still hold them."""


class Config(Section):
    """One experiment."""

    name: Name
    """Of the run, in logs and reports."""
    model_dir: PathText
    """Where everything the run makes is kept."""
    seed: Annotated[int, Field(ge=0, lt=2**31)] = 1
    """Of first parameters, order, dropout, and pairs held out."""
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
        if self.model.attention.type == "none" and self.training.guided_alignment_weight:
            problems += [
                f"data.train.{place}.alignment: guides attention, of which model.attention.type none has nothing; "
                "leave it out"
                for place, corpus in enumerate(self.data.train)
                if corpus.alignment
            ]
        if self.model.pretrained.freeze and self.training.weight_decay:
            problems.append("model.pretrained.freeze: training.weight_decay would shrink what is frozen; leave one out")
        _refuse(problems)
        return self
