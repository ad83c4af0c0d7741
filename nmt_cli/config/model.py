"""The sections of the configuration that describe the model."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from nmt_cli.config.section import DataPath, Layers, PositiveFloat, Probability, Section, Units, raise_problems

RnnType = Literal["gru", "lstm"]
AttentionType = Literal["none", "additive", "dot", "general", "concat", "local-m", "local-p", "location", "multihead"]


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
    """Recurrent layers, one above the other. `conditional`: the first one attends. `luong`: the last.
    `bahdanau`: the attention sees the top layer's last state, and its result is the input of the bottom layer."""
    initial_state: Literal["auto", "mean", "backward", "final", "zero"] = "auto"
    """A learned projection of the mean annotation (`mean`), of the backward state at the first word (`backward`, as in
    the paper) or of the last states (`final`), or zeros (`zero`). `auto`: `final` without attention; `backward` for
    `bahdanau` over a bidirectional encoder without `reverse_source`; else `mean`."""
    readout: Literal["auto", "maxout", "tanh"] = "auto"
    """Deep output before the softmax; `auto` is maxout for `bahdanau`, tanh for `conditional`. `luong` has its own."""
    readout_size: Units | None = None
    """Units of the readout; the embedding size where the output embedding is tied or this is null."""
    input_feeding: bool = True
    """`luong` only: the attentional vector enters the next step."""


class AttentionConfig(Section):
    """The attention of the decoder to the source."""

    type: AttentionType = "additive"
    """The score of an encoder state (an "annotation" in the papers). Each type can be used with each recurrence.
    `additive`: Bahdanau et al. (2015);
    `dot`, `general`, `concat`, `local-m`, `local-p`: Luong et al. (2015); `location`: Chorowski et al. (2015);
    `multihead`: several additive heads, Chen et al. (2018). If decoder states and annotations have different sizes,
    `dot` projects the annotations, as `general` does."""
    size: Units = 512
    """Units of the attention; unused by `dot`, `general` and `none`."""
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
        raise_problems(problems)
        return self


class DropoutConfig(Section):
    """Probabilities with which training drops units."""

    embedding: Probability = 0.2
    """Dropout of embedded pieces, with one mask for each sentence (Gal & Ghahramani, 2016)."""
    recurrent: Probability = 0.2
    """Dropout of the state of every recurrent cell, and of the inputs of upper layers; one mask a sentence."""
    annotation: Probability = 0.2
    """Dropout of the annotations. Without attention, only an `initial_state` that is their mean reads them."""
    readout: Probability = 0.2
    """Dropout of the readout, the units that the output matrix turns into logits."""
    source_word: Probability = 0.0
    """Dropout of whole source pieces (Sennrich & Zhang, 2019)."""
    target_word: Probability = 0.0
    """Dropout of whole target pieces that are fed back."""


class PretrainedConfig(Section):
    """Embeddings from text files in word2vec or GloVe format, found by piece."""

    source: DataPath | None = None
    """Vectors for source pieces."""
    target: DataPath | None = None
    """Vectors for target pieces."""
    freeze: bool = False
    """Keep the embeddings that were found as they are."""


class ModelConfig(Section):
    """The encoder-decoder."""

    embedding_size: Units = 256
    """Units of an embedded piece, on both sides."""
    tied_embeddings: Literal["none", "target", "source-target", "all"] = "all"
    """Matrices that share their parameters. `target`: target embedding and output layer; `source-target`: the two
    embeddings; `all`: all three; `none`: no sharing."""
    layer_norm: bool = True
    """Layer normalisation inside the recurrent cells (Ba et al., 2016)."""
    encoder: EncoderConfig = EncoderConfig()
    decoder: DecoderConfig = DecoderConfig()
    attention: AttentionConfig = AttentionConfig()
    lexical_model: bool = False
    """The source pieces under the attention also score the next piece directly (Nguyen & Chiang, 2018); both
    scores use the same output matrix."""
    dropout: DropoutConfig = DropoutConfig()
    pretrained: PretrainedConfig = PretrainedConfig()
    initialization: Literal["auto", "paper"] = "auto"
    """`paper`: Bahdanau et al. (2015), appendix B.1; `auto`: Glorot uniform and orthogonal recurrences."""

    @property
    def annotation_size(self) -> int:
        """Units of an annotation h_j, the encoder's output at one source position."""
        return self.encoder.hidden_size * (2 if self.encoder.bidirectional else 1)

    @property
    def initial_state(self) -> str:
        """The value of `decoder.initial_state`, with `auto` replaced by `backward`, `final` or `mean`."""
        decoder, encoder = self.decoder, self.encoder
        if decoder.initial_state != "auto":
            return decoder.initial_state
        if self.attention.type == "none":
            return "final"
        is_paper = decoder.recurrence == "bahdanau" and encoder.bidirectional and not encoder.reverse_source
        return "backward" if is_paper else "mean"

    @property
    def readout(self) -> str:
        """The value of `decoder.readout`, with `auto` replaced by `maxout` or `tanh`; `luong` does not use it."""
        if self.decoder.readout != "auto":
            return self.decoder.readout
        return "maxout" if self.decoder.recurrence == "bahdanau" else "tanh"

    @property
    def readout_size(self) -> int:
        """Units of the readout: as many as an embedding has, if they share a matrix or no other number is given."""
        is_tied = self.tied_embeddings in ("target", "all")
        return self.embedding_size if is_tied else (self.decoder.readout_size or self.embedding_size)

    @model_validator(mode="after")
    def _parts_fit(self) -> Self:
        problems = []
        attention, decoder = self.attention, self.decoder
        if decoder.recurrence == "luong" and decoder.readout != "auto":
            problems.append("decoder.readout: luong's readout is its attentional vector; leave it at auto")
        tied_output = self.tied_embeddings in ("target", "all")
        if tied_output and decoder.readout_size not in (None, self.embedding_size):
            problems.append(
                f"decoder.readout_size: is {decoder.readout_size}, but tied_embeddings: {self.tied_embeddings} "
                f"needs embedding_size, {self.embedding_size}"
            )
        if self.lexical_model and attention.type == "none":
            problems.append("lexical_model: needs attention, which says where the decoder looks")
        if self.lexical_model and decoder.readout_size not in (None, self.embedding_size):
            problems.append(
                f"decoder.readout_size: is {decoder.readout_size}, but lexical_model adds to the readout and needs "
                f"embedding_size, {self.embedding_size}"
            )
        if attention.type == "none" and attention.context == "initial" and decoder.initial_state == "zero":
            problems.append(
                "decoder.initial_state: zero leaves the decoder without the source, because attention.type is none and "
                "attention.context initial"
            )
        if decoder.initial_state == "backward" and not self.encoder.bidirectional:
            problems.append("decoder.initial_state: backward needs encoder.bidirectional: true")
        if decoder.initial_state == "backward" and self.encoder.reverse_source:
            problems.append("decoder.initial_state: backward is the state at the first word; leave out reverse_source")
        raise_problems(problems)
        return self
