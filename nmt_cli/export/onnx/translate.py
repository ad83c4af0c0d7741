#!/usr/bin/env python3
"""Translate lines from standard input with the ONNX model beside this file; needs onnxruntime, numpy, sentencepiece.

The search is nmt's own: beam search with the length penalty of Wu et al. (2016, eq. 14), where a sentence is done
when it has as many finished translations as the beam is wide, or when no unfinished one can still enter its n best.

Shapes: L active sentences, K beam, N = L x K rows, C candidates of a row.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections.abc import Iterator, Sequence
from itertools import count, zip_longest
from pathlib import Path
from typing import Any, NamedTuple
from unicodedata import category

try:
    import numpy as np
    import onnxruntime
    import sentencepiece
except ImportError as missing:
    sys.exit(f"translate.py: error: needs {missing.name}: pip install onnxruntime numpy 'sentencepiece>=0.2.3'")

HERE = Path(__file__).resolve().parent
WINDOW_BYTES = 1 << 20  # of lines that are translated together
MAX_BEAM, MAX_LENGTH_PENALTY, MAX_THREADS = 1000, 10, 4096
BATCH_TOKENS = 2048  # rows of the beam times source positions that are searched together
NO_WORD = 2**31  # the number of a tag's word, which is beyond the last of any line
CONTINUATION_BYTE = re.compile("<0x[89AB][0-9A-F]>")  # a piece that is a byte of a character, and not its first
MAX_COPIES, MAX_UNIT = 4, 4  # copies in a row that a translation may have, and the words of the longest that count
MAX_GROWTH = 3  # characters of a translation up to the end of its copies, per byte of a source that repeats itself
SCRIPTS = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
SCRIPTS += "\U00020000-\U0003ffff"  # without blanks between words: their characters count as words
MARKS = "".join(one for one in map(chr, range(0x300, 0x1E950)) if category(one)[0] == "M")
WORD = re.compile(rf"(?!\s)[{SCRIPTS}][{MARKS}]*|[^\s{SCRIPTS}]+")
REPETITION = re.compile(rf"(\D{{1,{MAX_UNIT}}}?)\1{{{MAX_COPIES},}}")
Array = np.ndarray[Any, Any]


class Part(NamedTuple):
    """Pieces that are translated together: a line, or a part of a long one."""

    line: int
    ids: list[int]
    words: list[int]  # the number of each piece's word in the line; empty without alignment


class Node(NamedTuple):
    """A piece of an unfinished translation, the node of the piece before it, and the attention weights of its step."""

    parent: Node | None
    piece: int
    weights: Array | None


class Hypothesis(NamedTuple):
    """A finished translation: piece IDs without </s>, length-normalised log-probability, weights of each step."""

    ids: list[int]
    score: float
    weights: list[Array | None]


class Translation(NamedTuple):
    """The text of a translated part or line; links are (source word, target word), counted from 0."""

    text: str
    links: list[tuple[int, int]]
    num_words: int


class Model:
    """The encoder and decoder graphs beside this file, loaded in onnxruntime."""

    def __init__(self, threads: int) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.log_severity_level = 3
        files = (str(HERE / name) for name in ("encoder.onnx", "decoder.onnx"))
        self.encoder, self.decoder = (
            onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"]) for file in files
        )
        self.states = [output.name for output in self.decoder.get_outputs() if output.name.startswith("next.")]
        self.has_attention = any(output.name == "weights" for output in self.decoder.get_outputs())

    def encode(self, sources: Sequence[Sequence[int]], eos: int) -> tuple[dict[str, Array], dict[str, Array]]:
        """Return the encoder's outputs `memory.*` and initial states `state.*`, by name, for sources of piece IDs."""
        lengths = np.array([len(ids) + 1 for ids in sources], np.int32)
        padded = np.zeros((len(sources), lengths.max()), np.int32)
        for row, ids in zip(padded, sources, strict=True):
            row[: len(ids) + 1] = [*ids, eos]
        names = [output.name for output in self.encoder.get_outputs()]
        values = self.encoder.run(names, {"source": padded, "lengths": lengths})
        named = dict(zip(names, values, strict=True))
        memory = {name: value for name, value in named.items() if name.startswith("memory.")}
        return memory, {name: value for name, value in named.items() if name not in memory}

    def step(
        self, inputs: dict[str, Array], *, with_weights: bool
    ) -> tuple[Array, Array, Array | None, dict[str, Array]]:
        """Return (rows, C) best log-probabilities and their pieces, (rows, S) attention weights, and the next states.

        The weights are None without `with_weights`. The states are named `state.*`, as the next step takes them.
        """
        names = ["best_log_probs", "best_pieces", *(["weights"] if with_weights else []), *self.states]
        found = dict(zip(names, self.decoder.run(names, inputs), strict=True))
        states = {f"state.{name.removeprefix('next.')}": found[name] for name in self.states}
        return found["best_log_probs"], found["best_pieces"], found.get("weights"), states


class Search:
    """Beam search over batches of sources, with the settings of `parse_options`."""

    def __init__(self, model: Model, settings: dict[str, Any]) -> None:
        self.model, self.settings = model, settings
        self.beam, self.n_best = settings["beam_size"], settings["n_best"]
        self.eos, self.order = settings["eos"], settings["no_repeat_ngram"]

    def run(self, sources: Sequence[Sequence[int]]) -> list[list[Hypothesis]]:
        """Return the n best translations of each source, a sequence of piece IDs without </s>, best first."""
        a, b = self.settings["max_length_a"], self.settings["max_length_b"]
        limits = [int(a * len(ids)) + b for ids in sources]
        memory, state = self.model.encode(sources, self.eos)
        finished: list[list[Hypothesis]] = [[] for _ in sources]
        live = list(range(len(sources)))
        nodes: list[list[Node | None]] = [[None] for _ in sources]
        totals = np.zeros((len(sources), 1), np.float32)
        parents, pieces = np.arange(len(sources)), np.full(len(sources), self.settings["bos"])
        for length in count(1):
            forbidden = [self._banned_pieces(node) for of_sentence in nodes for node in of_sentence]
            room = min(2 * self.beam + max(map(len, forbidden)), self.settings["target_vocab_size"])
            inputs = {"piece": pieces.astype(np.int32), "parent": parents.astype(np.int32), "count": np.array([room])}
            best, best_pieces, weights, state = self.model.step(
                inputs | memory | state, with_weights=self.settings["with_alignment"]
            )
            for row in np.flatnonzero([bool(ends) for ends in forbidden]):
                best[row, np.isin(best_pieces[row], list(forbidden[row]))] = -np.inf
            width = totals.shape[1]
            candidates = self._candidates(totals, best, best_pieces)
            kept: list[int] = []
            next_nodes: list[list[Node | None]] = []
            rows: list[tuple[float, int, int]] = []
            for place, (sentence, found) in enumerate(zip(live, candidates, strict=True)):
                first = place * width
                attention_weights = [None if weights is None else weights[first + rank] for rank in range(width)]
                going = self._advance(
                    finished[sentence], found, nodes[place], attention_weights, length, limits[sentence]
                )
                if going:
                    kept.append(place)
                    rows += [(total, first + parent, piece) for total, parent, piece in going]
                    next_nodes.append(
                        [Node(nodes[place][parent], piece, attention_weights[parent]) for _, parent, piece in going]
                    )
            if not kept:
                break
            if len(kept) < len(live):
                memory = {name: value[kept] for name, value in memory.items()}
            live, nodes = [live[place] for place in kept], next_nodes
            totals = np.array([total for total, _, _ in rows], np.float32).reshape(len(kept), -1)
            parents, pieces = np.array([row for _, row, _ in rows]), np.array([piece for _, _, piece in rows])
        return [sorted(found, key=lambda one: -one.score)[: self.n_best] for found in finished]

    def _candidates(self, totals: Array, best: Array, pieces: Array) -> Iterator[list[tuple[float, int, int]]]:
        """Yield for each sentence its 2K best extensions, as (total log-probability, row in the beam, piece)."""
        num_live, width = totals.shape
        room = best.shape[1]
        all_totals = (totals[:, :, None] + best.reshape(num_live, width, room)).reshape(num_live, -1)
        order = np.argsort(-all_totals, axis=1, kind="stable")[:, : 2 * self.beam]
        chosen = np.take_along_axis(all_totals, order, 1).tolist()
        chosen_pieces = np.take_along_axis(pieces.reshape(num_live, -1), order, 1).tolist()
        for columns in zip(chosen, (order // room).tolist(), chosen_pieces, strict=True):
            yield [one for one in zip(*columns, strict=True) if one[0] > -np.inf]

    def _advance(
        self, finished: list[Hypothesis], candidates: list[tuple[float, int, int]], nodes: list[Node | None],
        attention_weights: list[Array | None], length: int, max_length: int,
    ) -> list[tuple[float, int, int]]:  # fmt: skip
        """Add a sentence's translations that end at this step to `finished`, and return the extensions that go on.

        The list has K extensions, or none if the search for this sentence is done.
        """
        going = [one for one in candidates if one[2] != self.eos][: self.beam]
        for total, parent, piece in candidates[: self.beam]:
            if piece == self.eos or length >= max_length:
                pieces, weights = _backtrace(Node(nodes[parent], piece, attention_weights[parent]))
                ids = pieces[:-1] if piece == self.eos else pieces
                finished.append(Hypothesis(ids, total / self._penalty(length), weights))
        if length >= max_length or len(finished) >= self.beam or not going:
            return []
        if len(finished) >= self.n_best:
            # A log-probability only falls, and no output has a larger divisor than the longest one.
            bound = going[0][0] / self._penalty(max_length)
            if sorted((one.score for one in finished), reverse=True)[self.n_best - 1] >= bound:
                return []
        return going + [(-np.inf, 0, self.eos)] * (self.beam - len(going))

    def _penalty(self, length: int) -> float:
        return float(((5 + length) / 6) ** self.settings["length_penalty"])

    def _banned_pieces(self, node: Node | None) -> set[int]:
        """Return the next pieces that would repeat an n-gram of the translation; none if `no_repeat_ngram` is 0."""
        if not self.order or node is None:
            return set()
        prefix, order = _backtrace(node)[0], self.order
        context = prefix[len(prefix) - order + 1 :]
        starts = range(len(prefix) - order + 1)
        return {prefix[at + order - 1] for at in starts if prefix[at : at + order - 1] == context}


def _backtrace(node: Node | None) -> tuple[list[int], list[Array | None]]:
    """Return the pieces and the attention weights of a translation from its first piece to this node."""
    pieces, weights = [], []
    while node is not None:
        pieces.append(node.piece)
        weights.append(node.weights)
        node = node.parent
    return pieces[::-1], weights[::-1]


class Translator:
    """Translates lines with the model beside this file: tokenizers, search, word links, parts of long lines."""

    def __init__(self, settings: dict[str, Any], threads: int) -> None:
        self.settings = settings
        self.source, self.target = (
            sentencepiece.SentencePieceProcessor(model_file=str(HERE / settings["tokenizers"][side]))
            for side in ("source", "target")
        )
        self.search = Search(Model(threads), settings)
        self.with_alignment = settings["with_alignment"]

    def translate(self, texts: Sequence[str]) -> list[list[Translation]]:
        """Return the translations of each line, best first; a line without pieces has one empty translation."""
        parts = [part for line, text in enumerate(texts) if text.strip() for part in self._parts(line, text)]
        found: list[list[Translation]] = [[] for _ in parts]
        by_length = sorted(range(len(parts)), key=lambda number: -len(parts[number].ids))
        start = 0
        while start < len(by_length):
            width = len(parts[by_length[start]].ids) + 1
            numbers = by_length[start : start + max(1, BATCH_TOKENS // (width * self.search.beam))]
            start += len(numbers)
            for number, hypotheses in zip(
                numbers, self.search.run([parts[number].ids for number in numbers]), strict=True
            ):
                found[number] = [
                    self._make_translation(parts[number], one)
                    for one in self._trim_repetitions(parts[number], hypotheses)
                ]
        of_lines: list[list[list[Translation]]] = [[] for _ in texts]
        for part, of_part in zip(parts, found, strict=True):
            of_lines[part.line].append(of_part)
        return [_join_parts(of_line) for of_line in of_lines]

    def _parts(self, line: int, text: str) -> Iterator[Part]:
        """Yield the parts of a line, of at most `max_source_pieces` each; cuts are where a word begins if possible."""
        if self.with_alignment:
            encoded = self.source.encode(text, return_type="offset_mapping")
            ids, words = list(encoded["ids"]), _word_numbers(text, encoded["offsets"])[0]
        else:
            ids, words = self.source.encode(text), []
        # Of a model of several directions: the tag of the target, which belongs to no word.
        tags = self.settings.get("tags", [])
        no_words = [NO_WORD] * len(tags) if words else []
        limit, start = max(1, self.settings["max_source_pieces"] - len(tags)), 0
        while len(ids) - start > limit:
            half, end = start + limit // 2 + 1, start + limit
            begins = [at for at in range(half, end + 1) if self.source.id_to_piece(ids[at]).startswith("▁")]
            while end > half and CONTINUATION_BYTE.fullmatch(self.source.id_to_piece(ids[end])):
                end -= 1
            cut = begins[-1] if begins else end
            yield Part(line, tags + ids[start:cut], no_words + words[start:cut])
            start = cut
        if ids[start:]:
            yield Part(line, tags + ids[start:], no_words + words[start:])

    def _trim_repetitions(self, part: Part, hypotheses: Sequence[Hypothesis]) -> Iterator[Hypothesis]:
        """Yield hypotheses without their repetitions; those that differ only in these are one."""
        seen: set[tuple[int, ...]] = set()
        for hypothesis in hypotheses:
            cut = self._trim_repetition(part, hypothesis)
            if cut is hypothesis or tuple(cut.ids) not in seen:
                seen.add(tuple(cut.ids))
                yield cut

    def _trim_repetition(self, part: Part, hypothesis: Hypothesis) -> Hypothesis:
        """Return a hypothesis cut off where it repeats words: after the first copy, or as many as the source has."""
        if len(hypothesis.ids) - len(set(hypothesis.ids)) < MAX_COPIES:
            return hypothesis
        decoded = self.target.decode(hypothesis.ids, return_type="offset_mapping")
        runs = _find_runs(decoded["text"])
        end = _first_excess(runs, self.source.decode(part.ids)) if runs else None
        if end is None:
            return hypothesis
        length = sum(begin < end for begin, _ in decoded["offsets"])
        return Hypothesis(hypothesis.ids[:length], hypothesis.score, hypothesis.weights[:length])

    def _make_translation(self, part: Part, hypothesis: Hypothesis) -> Translation:
        """Return a hypothesis as text, with links from each target word to the source word of the largest weight."""
        if not self.with_alignment:
            return Translation(self.target.decode(hypothesis.ids).replace("\n", " "), [], 0)
        decoded = self.target.decode(hypothesis.ids, return_type="offset_mapping")
        words, num_words = _word_numbers(decoded["text"], decoded["offsets"])
        first = min(part.words)
        num_source = part.words[-1] + 1 - first
        # The last column is for </s> and for white space at the end: no word of the source.
        weights, counts = np.zeros((num_words, num_source + 1)), np.zeros(num_words)
        columns = [min(word - first, num_source) for word in part.words] + [num_source]
        for word, row in zip(words, hypothesis.weights, strict=False):
            if word < num_words and row is not None:
                np.add.at(weights[word], columns, row[: len(columns)].astype(np.float64))
                counts[word] += 1
        weights = weights[:, :num_source] / np.maximum(counts, 1)[:, None]
        heaviest = weights.argmax(axis=1) if weights.size else []
        links = [(first + int(at), word) for word, at in enumerate(heaviest) if weights[word, at] > 0]
        return Translation(decoded["text"].replace("\n", " "), links, num_words)


def _find_runs(text: str) -> list[list[int]]:
    """Return the ends of the copies, as string indices, where more than `MAX_COPIES` equal word groups are in a row."""
    found = list(WORD.finditer(text))
    runs = []
    for size in range(1, MAX_UNIT + 1):
        same = 0
        for place in range(size, len(found) + 1):
            if place < len(found) and found[place][0] == found[place - size][0]:
                same += 1
                continue
            if same >= MAX_COPIES * size:
                begin = place - same - size
                runs.append((begin, size, [found[at - 1].end() for at in range(begin + size, place + 1, size)]))
            same = 0
    return [ends for *_, ends in sorted(runs)]


def _first_excess(runs: list[list[int]], source: str) -> int | None:
    """Return the place after the copies that are allowed of the first run with too many, or None."""
    most, length = _count_copies(source), MAX_GROWTH * len(source.encode())
    for ends in runs:
        allowed = max(1, min(most, sum(end <= length for end in ends)))
        if len(ends) - allowed >= MAX_COPIES:
            return ends[allowed - 1]
    return None


def _count_copies(source: str) -> int:
    """Return the copies in a row of words, syllables or marks in a source: 1, or more than `MAX_COPIES`."""
    source = source.casefold()
    words = re.findall(r"[^\W\d_]+", source)
    texts = ("".join(source.split()), "".join(words))
    of_characters = [len(one[0]) // len(one[1]) for text in texts for one in REPETITION.finditer(text)]
    return max([1, *of_characters, *map(len, _find_runs(" ".join(words)))])


def _word_numbers(text: str, offsets: Sequence[tuple[int, int]]) -> tuple[list[int], int]:
    """Return for each piece the index of its white-space word (a blank is in the next word), and the word count."""
    word_at: list[int] = []
    number = -1
    for number, match in enumerate(re.finditer(r"\S+", text)):
        word_at += [number] * (match.end() - len(word_at))
    return [word_at[begin] if begin < len(word_at) else max(number, 0) for begin, _ in offsets], number + 1


def _join_parts(parts: list[list[Translation]]) -> list[Translation]:
    """Return the translations of a line: its parts' best translations joined, then the second best, and so on."""
    lines = []
    for ranked in zip_longest(*parts):
        chosen = [one or own[-1] for one, own in zip(ranked, parts, strict=True)]
        links, num_words = [], 0
        for one in chosen:
            links += [(source, num_words + target) for source, target in one.links]
            num_words += one.num_words
        lines.append(Translation(" ".join(one.text for one in chosen), links, num_words))
    return lines or [Translation("", [], 0)]


def windows() -> Iterator[list[str]]:
    """Yield lists of lines of standard input, as soon as they can be read. Lines end at a line feed only."""
    begun: list[bytes] = []  # blocks of a line that goes on
    while block := os.read(sys.stdin.fileno(), WINDOW_BYTES):
        *lines, rest = block.split(b"\n")
        if lines:
            lines[0] = b"".join([*begun, lines[0]])
            begun.clear()
            yield [line.decode("utf-8", errors="replace") for line in lines]
        begun.append(rest)
    if last := b"".join(begun):
        yield [last.decode("utf-8", errors="replace")]


def parse_options(defaults: dict[str, Any]) -> tuple[dict[str, Any], int]:
    """Return the settings (`defaults`, changed by the command line), and the number of threads (0: all cores)."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--beam-size", type=int, default=defaults["beam_size"], help="1 is greedy")
    parser.add_argument("--n-best", type=int, default=1, help="translations of each line, which gives as many lines")
    parser.add_argument("--length-penalty", type=float, default=defaults["length_penalty"], metavar="ALPHA")
    parser.add_argument("--alignment", choices=("none", "hard"), default="none", help="append word pairs: ||| 0-0 1-1")
    parser.add_argument("--threads", type=int, default=0, help="0: all cores")
    given = parser.parse_args()
    if not 0 <= given.threads <= MAX_THREADS:
        parser.error(f"--threads {given.threads}: must be from 0 to {MAX_THREADS}")
    if given.beam_size < 1 or given.n_best < 1:
        parser.error("--beam-size and --n-best must be at least 1")
    if given.beam_size > MAX_BEAM:
        parser.error(f"--beam-size {given.beam_size}: must be at most {MAX_BEAM}")
    if not 0 <= given.length_penalty <= MAX_LENGTH_PENALTY:
        parser.error(f"--length-penalty {given.length_penalty}: must be a number from 0 to {MAX_LENGTH_PENALTY}")
    if given.n_best > given.beam_size:
        parser.error(f"--n-best {given.n_best} is more than the beam, {given.beam_size}; raise --beam-size")
    if given.alignment != "none" and not defaults["has_attention"]:
        parser.error("--alignment: this model has no attention")
    asked = {"beam_size": given.beam_size, "n_best": given.n_best, "length_penalty": given.length_penalty}
    return {**defaults, **asked, "with_alignment": given.alignment == "hard"}, given.threads


def load_translator() -> Translator:
    """Return the translator for the model beside this file, with the command line's options; exit if it is damaged."""
    try:
        defaults = json.loads((HERE / "defaults.json").read_text(encoding="utf-8"))
        settings, threads = parse_options(defaults)
        return Translator(settings, threads)
    except Exception as error:  # each library has kinds of its own
        sys.exit(f"translate.py: error: {HERE} does not hold a whole model; export it again: {error}")


def main() -> None:
    if sys.stdin is None or sys.stdout is None:
        sys.exit("translate.py: error: standard input or standard output is closed")
    translator = load_translator()
    settings = translator.settings
    for texts in windows():
        for translations in translator.translate(texts):
            best = translations[: settings["n_best"]]
            lines = [one.text for one in best]
            if settings["with_alignment"]:
                pairs = (" ".join(f"{source}-{target}" for source, target in one.links) for one in best)
                lines = [f"{line} ||| {shown}" for line, shown in zip(lines, pairs, strict=True)]
            lines += [""] * (settings["n_best"] - len(lines))
            sys.stdout.buffer.write("".join(f"{line}\n" for line in lines).encode("utf-8", errors="replace"))
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:  # the reader has gone away
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.exit(f"translate.py: error: the input or the output failed: {error.strerror}")
