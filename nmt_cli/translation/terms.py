"""Encodes the constraints of lines in pieces: terms of a glossary, and numbers, which must stay as they are."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import accumulate

from nmt_cli.config.decoding import DecodingOptions
from nmt_cli.data.tokenizer import UNK, Tokenizer
from nmt_cli.normalization.glossary_terms import GlossaryTerms
from nmt_cli.normalization.inner_symbols import InnerSymbols
from nmt_cli.normalization.normalizer import Normalizer
from nmt_cli.normalization.numbers import Numbers
from nmt_cli.search.constraints import Term
from nmt_cli.system.errors import InputError
from nmt_cli.text.edits import Span
from nmt_cli.text.letters import WITHOUT_SPACES
from nmt_cli.text.line import Constraint, Line
from nmt_cli.translation.glossary import Entry, Glossary, is_word_character
from nmt_cli.translation.results import Part, PartConstraint
from nmt_cli.translation.step_model import TrainedModels

_SENTENCE_TERMINALS = frozenset(
    ".!?\u2026\u037e\u055c\u055e\u0589\u061f\u06d4\u0964\u0965\u104b\u1362\u1367\u17d4\u203c\u2047\u2048\u2049\u3002\uff01\uff0e\uff1f\uff61"
)
"""Characters that end a sentence."""
_HYPHENS = "-\u00ad\u2010\u2011"


class TermEncoder:
    """Turns the constraints of lines into pieces, as the search needs them."""

    def __init__(self, tokenizers: tuple[Tokenizer, Tokenizer], glossary: Glossary | None = None) -> None:
        """Cut the translations of a glossary into pieces.

        Raises:
            InputError: the model cannot spell a translation (file and line are named).
        """
        self._source, self._target = tokenizers
        self._forms: dict[str, tuple[tuple[int, ...], ...]] = {}
        for entry in () if glossary is None else glossary.entries:
            for form in entry.forms:
                self._forms[form] = pieces = tuple(_spellings(form, self._target))
                if glossary is not None and any(UNK in ids or not ids for ids in pieces):
                    raise InputError(
                        f"{glossary.name}:{entry.line}: the model cannot write {form!r}: a character of it, or "
                        "all of the word, is not in its vocabulary; remove this translation from the glossary"
                    )

    @property
    def continuation_pieces(self) -> tuple[int, ...]:
        """Ids of the target pieces that continue the word before them."""
        return self._target.compute_once(continuation_pieces)

    @property
    def sentence_terminals(self) -> tuple[int, ...]:
        """Ids of the target pieces that end a sentence."""
        return self._target.compute_once(sentence_terminals)

    @property
    def digits(self) -> tuple[int, ...]:
        """Ids of the target pieces that contain a digit."""
        return self._target.compute_once(digits)

    def with_constraints(self, parts: Sequence[Part], lines: Sequence[Line]) -> list[Part]:
        """Return the parts with the constraints of their lines; `Part.covered_constraints` has those a prefix meets.

        A constraint belongs to the part that has its first piece.
        """
        found = []
        ends: dict[int, int] = {}
        for part in parts:
            line = lines[part.line]
            if not line.constraints or not part.spans:
                found.append(part)
                continue
            own = self._constraints_of_part(part, line, ends.get(part.line, part.spans[0][0] * bool(part.part)))
            ends[part.line] = part.spans[-1][1]
            left, covered_constraints = (own, ()) if part.prefix is None else split_by_prefix(own, line.prefix)
            # A prefix may cover all numbers: then the model must generate none of its own.
            has_numbers = any(term.constraint.step == Numbers.name for term in own) or part.prefix is not None
            words = self.words(part.ids) if left else ()
            found.append(
                replace(
                    part, terms=left, covered_constraints=covered_constraints,
                    keeps_numbers=line.keeps_digits and has_numbers, piece_words=words,
                )
            )  # fmt: skip
        return found

    def _constraints_of_part(self, part: Part, line: Line, begin: int) -> tuple[PartConstraint, ...]:
        """Return the constraints of a line that begin in a part, from character `begin`, where the part before ends."""
        begins, ends = [first for first, _ in part.spans], [last for _, last in part.spans]
        found = []
        for term in line.constraints[bisect_left(line.constraints, begin, key=_begin) :]:
            if term.begin >= ends[-1]:
                break
            first, last = bisect_right(ends, term.begin), bisect_left(begins, term.end)
            places = range(part.num_tags + first, part.num_tags + last)
            if places:
                found.append(PartConstraint(term, Term(tuple(places), self._pieces(term, line.text), term.is_known)))
        return tuple(found)

    def _pieces(self, term: Constraint, text: str) -> tuple[tuple[int, ...], ...]:
        """Return the pieces of each form of a constraint; `text` is the text of its line."""
        if term.step == GlossaryTerms.name:
            return tuple(ids for form in term.forms for ids in self._forms[form])
        ends = text[term.end : term.end + 1] in _SENTENCE_TERMINALS
        return self._number_spellings(term, ends=ends)

    def _number_spellings(self, term: Constraint, *, ends: bool) -> tuple[tuple[int, ...], ...]:
        """Return the pieces of each spelling in which the model may generate a number.

        If pieces join a full stop to a digit, as `3.`, the model has learned to end sentences with them. So it may
        generate a number that `ends` a sentence with this full stop too.
        """
        (number,) = term.forms
        found: list[tuple[int, ...]] = []
        for mark in ("", *(self._target.compute_once(_terminals_joined_to_digits) if ends else ())):
            own = list(_spellings(number + mark, self._target, may_lack_blank_before=term.may_lack_blank_before))
            if not mark or own[0][: len(found[0])] != found[0]:
                found += own
        return tuple(found)

    def words(self, ids: Sequence[int]) -> tuple[int, ...]:
        """Return the number of each source piece's word, from 0; a piece of a script without spaces is a word."""
        inside = self._source.compute_once(_continuation_pieces)
        begun = accumulate(id_ not in inside for id_ in ids)
        return tuple(max(number - 1, 0) for number in begun)


def split_by_prefix(
    terms: Sequence[PartConstraint], prefix: str
) -> tuple[tuple[PartConstraint, ...], tuple[tuple[Constraint, Span], ...]]:
    """Return the constraints that a prefix does not meet, and the glossary terms that it meets, with their spans in it.

    Constraints other than glossary terms are all among the first.
    """
    left, covered_constraints = list(terms), []
    of_glossary = [term.constraint for term in terms if term.constraint.step == GlossaryTerms.name]
    for form in sorted({form for term in of_glossary for form in term.forms}):
        for match in Glossary.of("", [Entry(form, (form,), True, 0)]).matches(prefix):
            met = next((term for term in left if form in term.constraint.forms), None)
            if met is not None:
                left.remove(met)
                covered_constraints.append((met.constraint, (match.begin, match.end)))
    return tuple(left), tuple(covered_constraints)


def _begin(term: Constraint) -> int:
    return term.begin


def _spellings(form: str, tokenizer: Tokenizer, *, may_lack_blank_before: bool = False) -> Iterable[tuple[int, ...]]:
    """Yield the pieces of a form, and those without a blank before it if the form may follow other text without one, as
    in a script without spaces."""
    ids = tuple(tokenizer.encode(form))
    yield ids
    if ids and (may_lack_blank_before or WITHOUT_SPACES.match(form)):
        first = tokenizer.pieces(ids[:1])[0]
        if first == "▁":
            yield ids[1:]
        elif first.startswith("▁") and UNK not in (own := tokenizer.ids_of([first[1:]])):
            yield (*own, *ids[1:])


def without_unsupported_steps(
    normalizer: Normalizer, models: TrainedModels, options: DecodingOptions, target: Tokenizer
) -> Normalizer:
    """Return the normalizer without the step `Numbers` if a search cannot keep numbers; without attention, also without
    the step `InnerSymbols`.

    Samples are drawn without constraints, a shortlist or a vocabulary of words may lack digits, a weight of terms only
    makes them likelier, and a model without attention cannot find the place of a number or a symbol.
    """
    if not models.has_attention:
        return normalizer.without(Numbers.name, InnerSymbols.name)
    is_bound = options.sampling_temperature is None and options.glossary_weight is None
    can_say_all = target.has_byte_fallback and not models.has_shortlist
    return normalizer if is_bound and can_say_all else normalizer.without(Numbers.name)


def continuation_pieces(tokenizer: Tokenizer) -> tuple[int, ...]:
    """Return the ids of the pieces that continue the word before them: bytes, and those that begin with a hyphen, or
    with a letter or a digit of a script with spaces."""
    found = []
    for id_, spelling in enumerate(tokenizer.piece_bytes()):
        first = (spelling or b"").decode(errors="ignore")[:1]
        goes_on = first in _HYPHENS or (is_word_character(first) and not WITHOUT_SPACES.match(first))
        if spelling and (not first or goes_on):
            found.append(id_)
    return tuple(found)


def sentence_terminals(tokenizer: Tokenizer) -> tuple[int, ...]:
    """Return the ids of the pieces that are one character that ends a sentence, with or without a blank before it."""
    return tuple(id_ for id_, text in enumerate(_texts(tokenizer)) if text.removeprefix("▁") in _SENTENCE_TERMINALS)


def digits(tokenizer: Tokenizer) -> tuple[int, ...]:
    """Return the ids of the pieces that contain a decimal digit."""
    return tuple(id_ for id_, text in enumerate(_texts(tokenizer)) if any(map(str.isdecimal, text)))


def _terminals_joined_to_digits(tokenizer: Tokenizer) -> tuple[str, ...]:
    """Return the characters that end a sentence and that some piece joins to a digit, as in `3.`."""
    joined = (text for text in _texts(tokenizer) if text[-2:-1].isdecimal())
    return tuple(sorted({text[-1] for text in joined} & _SENTENCE_TERMINALS))


def _continuation_pieces(tokenizer: Tokenizer) -> frozenset[int]:
    return frozenset(continuation_pieces(tokenizer))


def _texts(tokenizer: Tokenizer) -> list[str]:
    """Return the text of each piece, which is empty for a byte that is no character."""
    return [(spelling or b"").decode(errors="ignore") for spelling in tokenizer.piece_bytes()]
