"""A model that is a table: the next piece depends on the sentence, the last two pieces and nothing else."""

import itertools
import math
from typing import NamedTuple

import torch

from nmt_cli.search.hypothesis import ForcedPrefix, Prediction, Vocabulary

BOS, EOS, PAD = 0, 1, 2
VOCABULARY = Vocabulary(bos=BOS, eos=EOS, banned=(BOS, PAD))


class Rows(NamedTuple):
    """The sentence and the pieces so far of each row, in Python, so that a wrong reordering shows at once."""

    sentences: tuple[int, ...]
    prefixes: tuple[tuple[int, ...], ...]

    def select(self, rows):
        assert len(rows) == len(self.sentences)
        selected = self.keep(rows)
        assert selected.sentences == self.sentences, "a row left its sentence"
        return selected

    def extract(self, rows):
        return self.keep(rows)

    def replace(self, rows, other):
        sentences, prefixes = list(self.sentences), list(self.prefixes)
        for place, row in enumerate(rows.tolist()):
            sentences[row], prefixes[row] = other.sentences[place], other.prefixes[place]
        return Rows(tuple(sentences), tuple(prefixes))

    def keep(self, rows):
        numbers = rows.tolist()
        return Rows(tuple(self.sentences[n] for n in numbers), tuple(self.prefixes[n] for n in numbers))


class TableModel:
    """Log-probabilities by sentence and the last two pieces; the weights say how long the prefix is and which it is."""

    def __init__(self, num_sentences, vocab_size, *, seed=1, temperature=1.0):
        generator = torch.Generator().manual_seed(seed)
        logits = torch.randn(num_sentences, vocab_size, vocab_size, vocab_size, generator=generator)
        self.table = (logits / temperature).log_softmax(dim=-1)
        self.vocab_size = vocab_size
        self.calls = 0

    def start(self, sentences, copies=1):
        rows = tuple(sentence for sentence in sentences for _ in range(copies))
        return Rows(rows, ((),) * len(rows))

    def step(self, ids_N, state, masked_NS=None):
        self.calls += 1
        log_probs, weights, prefixes = [], [], []
        for piece, sentence, prefix in zip(ids_N.tolist(), state.sentences, state.prefixes, strict=True):
            prefixes.append((*prefix, piece))
            log_probs.append(self.next(sentence, prefixes[-1]))
            weights.append(torch.tensor([float(len(prefix)), float(piece), float(sentence)]))
        weights_NS = torch.stack(weights)
        if masked_NS is not None:
            weights_NS = weights_NS.masked_fill(masked_NS, 0.0)
        return Prediction(torch.stack(log_probs), weights_NS, Rows(state.sentences, tuple(prefixes)))

    def force_prefix(self, beginnings, state):
        totals = [self.log_prob(s, ids[1:]) for s, ids in zip(state.sentences, beginnings, strict=True)]
        longest = max(map(len, beginnings)) - 1
        weights = torch.zeros(len(beginnings), longest, 3)
        for row, (sentence, ids) in enumerate(zip(state.sentences, beginnings, strict=True)):
            for place, piece in enumerate(ids[:-1]):
                weights[row, longest - len(ids) + 1 + place] = torch.tensor([float(place), float(piece), sentence])
        prefixes = tuple(tuple(ids[:-1]) for ids in beginnings)
        return ForcedPrefix(torch.tensor(totals), weights, Rows(state.sentences, prefixes))

    def join(self, first, second):
        return Rows(first.sentences + second.sentences, first.prefixes + second.prefixes)

    def next(self, sentence, prefix):
        """The distribution after a prefix that begins with <s>."""
        before = prefix[-2] if len(prefix) > 1 else prefix[-1]
        return self.table[sentence, before, prefix[-1]]

    def log_prob(self, sentence, ids):
        """The sum over pieces that are given with their </s>, where they have one."""
        prefix, total = (BOS,), 0.0
        for piece in ids:
            total += float(self.next(sentence, prefix)[piece])
            prefix = (*prefix, piece)
        return total

    def enumerate(self, sentence, max_length, *, alpha, banned=VOCABULARY.banned):
        """(score, ids without </s>, log_prob, ended) of every output that there is, the best first."""
        words = [piece for piece in range(self.vocab_size) if piece not in banned and piece != EOS]
        outputs = []
        for length in range(max_length):
            outputs.extend(((*ids, EOS), True) for ids in itertools.product(words, repeat=length))
        outputs.extend((ids, False) for ids in itertools.product(words, repeat=max_length))
        scored = []
        for ids, ended in outputs:
            log_prob = self.log_prob(sentence, ids)
            score = log_prob / ((5 + len(ids)) / 6) ** alpha
            scored.append((score, ids[:-1] if ended else ids, log_prob, ended))
        return sorted(scored, key=lambda one: -one[0] if one[0] > -math.inf else math.inf)
