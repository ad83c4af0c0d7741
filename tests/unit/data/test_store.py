"""The tokenised corpora on disk: what stands in them, when they are made, and how little of them is in memory."""

import gzip
import json
import subprocess
import sys

import numpy as np
import pytest

from nmt_cli.data import store as store_module
from nmt_cli.data.pairs import Corpus, LengthLimits
from nmt_cli.data.store import open_store
from nmt_cli.data.tokenizer import EOS, train_tokenizer
from nmt_cli.system.errors import InputError

WORDS = ["the", "old", "bicycle", "costs", "nothing", "where", "is", "my", "station", "teacher"]
RANDOM = np.random.default_rng(1)
SOURCES = [" ".join(RANDOM.choice(WORDS, size=RANDOM.integers(0, 30))) for _ in range(700)]
TARGETS = [text.upper() for text in SOURCES]


def tokenizer_of(texts):
    return train_tokenizer(
        texts, model_type="bpe", vocab_size=330, normalization="identity", character_coverage=1.0, symbols=[]
    )


TOKENIZERS = tokenizer_of(SOURCES), tokenizer_of(TARGETS)


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch):
    monkeypatch.setattr(store_module, "CHUNK", 64)


def written(directory, name="text", sources=SOURCES, targets=TARGETS):
    paths = [directory / f"{name}.{side}" for side in ("source", "target")]
    for path, texts in zip(paths, (sources, targets), strict=True):
        path.write_text("".join(f"{text}\n" for text in texts))
    return Corpus(*map(str, paths))


def opened(directory, *corpora, tokenizers=TOKENIZERS, limits=LengthLimits(), **options):  # noqa: B008
    return open_store(directory / "cache", corpora, tokenizers, limits, **options)


def contents(directory):
    return {path.name: path.read_bytes() for path in directory.iterdir() if path.name != "manifest.json"}


def made(directory):
    return sorted(path.name for path in (directory / "cache").iterdir() if path.is_dir())


def test_a_store_holds_the_pieces_of_each_pair_that_is_kept(tmp_path):
    """Corpus after corpus, the same one twice among them. Fails if bounds count what an earlier reading kept."""
    corpora = [written(tmp_path), written(tmp_path, "more", SOURCES[:50], TARGETS[50:100]), written(tmp_path)]
    store = opened(tmp_path, *corpora, limits=LengthLimits(max_length=20))
    kept, bounds, pieces = [], [0], []
    for sources, targets in ((SOURCES, TARGETS), (SOURCES[:50], TARGETS[50:100]), (SOURCES, TARGETS)):
        ids = [
            (TOKENIZERS[0].encode(source), TOKENIZERS[1].encode(target))
            for source, target in zip(sources, targets, strict=True)
        ]
        kept += [pair for pair in ids if min(map(len, pair)) > 0 and max(map(len, pair)) <= 20]
        pieces.append(sum(len(target) for _, target in kept[bounds[-1] :]))
        bounds.append(len(kept))
    assert [store.ids(number) for number in range(len(store))] == kept
    assert store.bounds == bounds
    assert store.target_pieces == pieces
    numbers = np.array([5, 0, len(kept) - 1, 5])
    assert store.source_lengths[numbers].tolist() == [len(kept[number][0]) for number in numbers]
    assert store.target_lengths[numbers].tolist() == [len(kept[number][1]) for number in numbers]


def test_a_store_counts_the_pieces_of_its_targets(tmp_path, monkeypatch):
    """With the end of each. Fails if the last bytes of the file are left out."""
    monkeypatch.setattr(store_module, "BYTES_AT_ONCE", 1_000)
    store = opened(tmp_path, written(tmp_path), limits=LengthLimits(max_length=20))
    counts = np.zeros(TOKENIZERS[1].vocab_size, dtype=int)
    for number in range(len(store)):
        for piece in (*store.ids(number)[1], EOS):
            counts[piece] += 1
    assert store.target_counts(len(counts)).tolist() == counts.tolist()


def test_more_threads_make_the_same_store(tmp_path):
    corpus = written(tmp_path)
    one, many = tmp_path / "one", tmp_path / "many"
    opened(one, corpus)
    opened(many, corpus, threads=4)
    assert made(one) == made(many)
    assert contents(one / "cache" / made(one)[0]) == contents(many / "cache" / made(many)[0])


def test_a_store_is_made_again_when_corpus_tokenizer_or_filters_change_and_only_then(tmp_path):
    corpus = written(tmp_path)
    opened(tmp_path, corpus)
    (first,) = made(tmp_path)
    time = (tmp_path / "cache" / first / "manifest.json").stat().st_mtime_ns
    written(tmp_path)  # the same text, written anew
    opened(tmp_path, corpus, threads=3)
    assert made(tmp_path) == [first]
    assert (tmp_path / "cache" / first / "manifest.json").stat().st_mtime_ns == time
    opened(tmp_path, corpus, limits=LengthLimits(max_length=50))
    opened(tmp_path, corpus, tokenizers=TOKENIZERS[::-1])
    opened(tmp_path, corpus, with_links=True)
    assert len(made(tmp_path)) == 4
    written(tmp_path, sources=[*SOURCES[:-1], "something else"])
    store = opened(tmp_path, corpus)
    assert len(made(tmp_path)) == 5
    assert store.ids(len(store) - 1)[0] == TOKENIZERS[0].encode("something else")


def test_compressed_text_is_a_corpus_like_any_other(tmp_path):
    corpus = written(tmp_path)
    for path in (corpus.source, corpus.target):
        with open(path, "rb") as plain, gzip.open(f"{path}.gz", "wb") as compressed:
            compressed.write(plain.read())
    plain = opened(tmp_path / "plain", corpus)
    packed = opened(tmp_path / "packed", Corpus(f"{corpus.source}.gz", f"{corpus.target}.gz"))
    assert len(packed) == len(plain)
    assert all(packed.ids(number) == plain.ids(number) for number in range(len(plain)))


def test_what_leaves_nothing_says_why(tmp_path):
    corpus = written(tmp_path)
    with pytest.raises(InputError) as caught:
        opened(tmp_path, corpus, limits=LengthLimits(max_length=0))
    empty = sum(not text for text in SOURCES)
    assert str(caught.value) == (
        f"no training pairs are left ({corpus.source} | {corpus.target}: 0 of 700 pairs kept; left out: "
        f"{700 - empty:,} longer than 0 pieces, {empty} with an empty side)"
    )


GOES_THROUGH = """
import sys
from pathlib import Path
import numpy as np
from nmt_cli.data.store import PairStore

def resident():
    fields = dict(line.split(":") for line in Path("/proc/self/status").read_text().splitlines())
    return int(fields["RssFile"].split()[0]) * 1024

store = PairStore(Path(sys.argv[1]))
before, most = resident(), 0
numbers = np.random.default_rng(1).permutation(len(store))
for start in range(0, len(numbers), 5000):
    some = numbers[start : start + 5000]
    store.source_lengths[some], store.target_lengths[some]
    for number in some:
        store.ids(int(number))
    most = max(most, resident() - before)
print(most, len(store))
"""


@pytest.mark.slow
def test_going_through_a_store_in_random_order_leaves_little_of_it_in_memory(tmp_path):
    """Fails if the files are mapped into memory: all that was read becomes resident."""
    corpus = written(tmp_path)
    opened(tmp_path, corpus)
    directory = tmp_path / "cache" / made(tmp_path)[0]
    count, length = 50_000, 1_000
    manifest = json.loads((directory / "manifest.json").read_text())
    (directory / "manifest.json").write_text(json.dumps(manifest | {"bounds": [0, count]}))
    for side in ("source", "target"):
        np.zeros(count * length, dtype="uint16").tofile(directory / f"{side}.ids")
        np.arange(0, (count + 1) * length, length).tofile(directory / f"{side}.ids.bounds")
    found = subprocess.run([sys.executable, "-c", GOES_THROUGH, str(directory)], capture_output=True, check=True)
    most, rows = map(int, found.stdout.split())
    assert rows == count
    assert most < 100e6 < sum(path.stat().st_size for path in directory.iterdir()) / 2


def test_what_killed_attempts_left_of_any_text_goes_when_a_store_is_made(tmp_path):
    for name in (".0123456789abcdef.tmp", ".mine.tmp"):
        (tmp_path / "cache" / name).mkdir(parents=True)
        (tmp_path / "cache" / name / "source.ids").write_bytes(b"half")
    opened(tmp_path, written(tmp_path))
    assert not (tmp_path / "cache/.0123456789abcdef.tmp").exists()
    assert (tmp_path / "cache/.mine.tmp/source.ids").read_bytes() == b"half"


@pytest.mark.parametrize("damage", ["[]", "3", '{"sizes": {}}', '{"sizes": []}'])
def test_a_damaged_memory_or_manifest_is_made_again(tmp_path, damage):
    corpus = written(tmp_path)
    opened(tmp_path, corpus)
    (name,) = made(tmp_path)
    before = contents(tmp_path / "cache" / name)
    (tmp_path / "cache/files.json").write_text(damage)
    (tmp_path / "cache" / name / "manifest.json").write_text(damage)
    opened(tmp_path, corpus)
    assert made(tmp_path) == [name]
    assert contents(tmp_path / "cache" / name) == before
