"""A small table model with attention, and the rules of terms in plain Python: every output that they allow."""

import math
from typing import NamedTuple

import torch
from table_model import BOS, EOS, VOCABULARY

from nmt_cli.search.constraint_masks import (
    DISCOUNT,
    DISCOUNT_UNKNOWN,
    MAX_ATTENTION,
    MIN_KNOWN_LOG_PROB,
    MIN_TERM_LOG_PROB,
)
from nmt_cli.search.hypothesis import Prediction


class Rows(NamedTuple):
    """The sentence of each row, and the pieces that it has read."""

    sentences: tuple[int, ...]
    read: tuple[tuple[int, ...], ...]

    def keep(self, rows):
        numbers = rows.tolist()
        return Rows(tuple(self.sentences[n] for n in numbers), tuple(self.read[n] for n in numbers))

    select = extract = keep

    def replace(self, rows, other):
        sentences, read = list(self.sentences), list(self.read)
        for place, row in enumerate(rows.tolist()):
            sentences[row], read[row] = other.sentences[place], other.read[place]
        return Rows(tuple(sentences), tuple(read))


class AttentiveModel:
    """The last two pieces it has read decide where it looks, and all of this what it says."""

    def __init__(self, num_sentences, vocab_size, width, *, seed=1, sharpness=2.0):
        generator = torch.Generator().manual_seed(seed)
        shape = (num_sentences, vocab_size, vocab_size)
        self.energies = sharpness * torch.randn(*shape, width, generator=generator)
        self.logits = torch.randn(*shape, vocab_size, generator=generator)
        self.words = 3 * torch.randn(num_sentences, width, vocab_size, generator=generator)
        self.vocab_size = vocab_size

    def next(self, sentence, read, hidden=()):
        """The log-probabilities and the attention after some pieces, with some source positions hidden."""
        before, last = ((BOS, *read) if len(read) < 2 else read)[-2:]
        energies = self.energies[sentence, before, last].clone()
        energies[list(hidden)] = -math.inf
        weights = energies.softmax(dim=0).nan_to_num(0.0)
        logits = self.logits[sentence, before, last] + weights @ self.words[sentence]
        return logits.log_softmax(dim=0), weights

    def start(self, sentences):
        return Rows(tuple(sentences), ((),) * len(sentences))

    def step(self, ids_N, state, masked_NS=None):
        read = tuple((*pieces, piece) for pieces, piece in zip(state.read, ids_N.tolist(), strict=True))
        hidden = [()] * len(read) if masked_NS is None else [row.nonzero().flatten().tolist() for row in masked_NS]
        found = [self.next(*row) for row in zip(state.sentences, read, hidden, strict=True)]
        log_probs, weights = (torch.stack(part) for part in zip(*found, strict=True))
        return Prediction(log_probs, weights, Rows(state.sentences, read))

    def join(self, first, second):
        return Rows(first.sentences + second.sentences, first.read + second.read)


class Row(NamedTuple):
    ids: tuple = ()
    read: tuple = ()
    feed: int = BOS
    generated: tuple = ()
    """(term, begin, end) of each generated term."""
    term: int = -1
    form: tuple = ()
    """Pieces of the form of this term so far; a whole form stays here for the next step."""
    instead: bool = False
    is_free: bool = False
    """The last piece costs what the guide makes of it, and not what the model says."""
    total: float = 0.0
    log_prob: float = 0.0
    score: float = 0.0


def outputs(model, sentence, own, limit, vocabulary=VOCABULARY, beam_size=None):
    """(score, log_prob, ids, terms generated) of every hypothesis, which ends or is cut at the limit, best first; with
    `beam_size` of those that such a beam finds."""
    found, rows = [], [Row()]
    for length in range(1, limit + 1):
        candidates = [
            (
                piece,
                row.ids,
                after._replace(
                    ids=(*row.ids, piece),
                    total=total,
                    log_prob=log_prob,
                    score=row.score
                    + log_prob
                    - row.log_prob
                    + (after.is_free and total - row.total - log_prob + row.log_prob),
                ),
            )
            for row in rows
            for piece, total, log_prob, after in extensions(model, sentence, own, limit, vocabulary, row)
        ]
        candidates.sort(key=lambda one: -one[2].total)
        for piece, before, row in candidates[:beam_size]:
            if piece == EOS or length == limit:
                found.append(
                    (row.score, row.log_prob, before if piece == EOS else row.ids, tuple(sorted(row.generated)))
                )
        if beam_size is not None and len(found) >= beam_size:
            break
        rows = [row for piece, _, row in candidates[: beam_size and 2 * beam_size] if piece != EOS][:beam_size]
    return sorted(found, reverse=True)


def extensions(model, sentence, own, limit, vocabulary, row):
    """Yield each piece that may follow, with the total, the log-probability and the row after it."""
    terms, width = own.terms, model.energies.shape[-1]
    generated = {term for term, _, _ in row.generated}
    missing = [term for term in range(len(terms)) if term not in generated]
    within = row.term >= 0 and row.form not in terms[row.term].forms
    everything = set(range(width))
    if within:
        hidden = everything - set(terms[row.term].places)
    else:
        left = {place for term in missing for place in terms[term].places}
        hidden = {place for term in generated for place in terms[term].places} - left
    read = (*row.read, row.feed)
    log_probs, weights = model.next(sentence, read, hidden)
    begun, owed, seen = -1, False, log_probs.tolist()
    probs, best = seen, max(seen)
    if missing and not within:
        begun = heaviest(own, missing, weights)
        owed, again = looks_again(own, missing, begun, probs, weights, vocabulary, limit - len(row.ids))
        hidden = everything - {place for term in again for place in terms[term].places}
        then_probs, then_weights = model.next(sentence, read, hidden) if again else (log_probs, weights)
        if again and (owed or says(terms[again[0]], probs, then_probs.tolist())):
            owed, seen, weights = True, then_probs.tolist(), then_weights
            begun = max(again, key=lambda term: float(weights[list(terms[term].places)].sum()))
    may = allowed(own, row, missing, vocabulary, model.vocab_size)
    if within:
        pieces = following(terms[row.term], row.form)
        gain = best - max(probs[piece] for piece in pieces)
        other = -math.inf
    elif begun >= 0:
        pieces = following(terms[begun], ())
        look = min(float(weights[list(terms[begun].places)].sum()), MAX_ATTENTION)
        of_form = max(probs[piece] for piece in pieces)
        if owed or of_form >= best:
            gain, other = best - of_form, -math.inf
        else:
            discount = DISCOUNT_UNKNOWN if is_unknown(terms[begun], pieces, seen) else DISCOUNT
            gain, other = max(0.0, math.log(look) + discount - of_form), math.log1p(-look)
    else:
        pieces, gain, other = following(terms[row.term], row.form) if row.term >= 0 else set(), 0.0, 0.0
    for piece in range(model.vocab_size):
        log_prob = row.log_prob + probs[piece]
        if piece in pieces:
            instead = row.instead if begun < 0 else is_unknown(terms[begun], pieces, seen)
            term, form = (row.term, (*row.form, piece)) if begun < 0 else (begun, (piece,))
            spoken = row.generated
            if form in terms[term].forms:
                place = len(row.ids) + 1
                spoken = (*(one for one in spoken if one[0] != term), (term, place - len(form), place))
            again = instead and within
            feed = row.feed if again else seen.index(max(seen)) if instead else piece
            new_read = row.read if again else read
            after = row._replace(
                read=new_read, feed=feed, generated=spoken, term=term, form=form, instead=instead,
                is_free=instead and not owed,
            )  # fmt: skip
            yield piece, row.total + probs[piece] + gain, log_prob, after
        elif piece in may and other > -math.inf:
            after = row._replace(read=read, feed=piece, term=-1, form=(), instead=False, is_free=False)
            yield piece, row.total + probs[piece] + other, log_prob, after


def is_unknown(term, pieces, seen):
    """Return True if the model would not say a term and does not read it either."""
    return not term.is_known and max(seen[piece] for piece in pieces) < MIN_KNOWN_LOG_PROB


def looks_again(own, missing, begun, probs, weights, vocabulary, room):
    """Return True if the row must say a term now, and the terms at which it looks again."""
    best = probs.index(max(probs))
    is_last = bool(own.piece_words) and heaviest_word(own, weights) >= own.piece_words[-1]
    would_end = begun < 0 and (best == EOS or (is_last and best in vocabulary.sentence_terminals))
    if would_end or room <= sum(own.terms[term].size for term in missing) + 1:
        return True, missing
    wanted = [t for t in missing if any(probs[piece] >= MIN_TERM_LOG_PROB for piece in following(own.terms[t], ()))]
    if not wanted or begun in wanted:
        return False, []
    return False, [max(wanted, key=lambda term: float(weights[list(own.terms[term].places)].sum()))]


def says(term, before, now):
    """Return True if a row that wants a term elsewhere says it. A longer form stays wanted when it is all one sees."""
    whole = {form[0] for form in term.forms if len(form) == 1}
    return any(
        before[p] >= MIN_TERM_LOG_PROB and (p in whole or now[p] >= MIN_TERM_LOG_PROB) for p in following(term, ())
    )


def heaviest_word(own, weights):
    """The number of the word with the most attention; positions without a number are words of their own."""
    piece_words = own.piece_words or range(len(weights))
    of_words = {}
    for place, weight in enumerate(weights.tolist()):
        word = piece_words[place] if place < len(piece_words) else place
        of_words[word] = of_words.get(word, 0.0) + weight
    return max(of_words, key=of_words.get)


def heaviest(own, missing, weights):
    """The unsaid term with the heaviest word, or -1."""
    piece_words, word = own.piece_words or range(len(weights)), heaviest_word(own, weights)
    mine = [
        t
        for t in missing
        if any(place < len(piece_words) and piece_words[place] == word for place in own.terms[t].places)
    ]
    return max(mine, key=lambda term: float(weights[list(own.terms[term].places)].sum()), default=-1)


def following(term, form):
    return {one[len(form)] for one in term.forms if len(one) > len(form) and one[: len(form)] == form}


def allowed(own, row, missing, vocabulary, vocab_size):
    """The pieces that are not of a term."""
    found = set(range(vocab_size)) - set(VOCABULARY.banned)
    if missing:
        found.discard(EOS)
    if row.term >= 0:
        found -= set(vocabulary.continuation_pieces)
    if own.keeps_numbers:
        found -= set(vocabulary.digits)
    for form in {form for term in own.terms for form in term.forms}:
        if row.ids[len(row.ids) - len(form) + 1 :] == form[:-1] and len(row.ids) >= len(form) - 1:
            found.discard(form[-1])
    return found
