"""Holding out pairs of several directions: every pair goes where a comparison of all sentences puts it."""

import io
import random

from nmt_cli.corpora.holdout import SplitInput, hold_out, number_to_hold_out
from nmt_cli.data.pairs import Corpus, has_both_sides, read_pairs


def test_every_pair_is_held_out_or_learned_or_counted(tmp_path):
    chance = random.Random(4)
    texts, corpora_of = [], []
    for number, direction in enumerate((("en", "fr"), ("vi", "en"))):
        corpora = []
        for part, num_pairs in enumerate((300, 120)):
            pairs = [(f"{chance.randrange(400)} ", f" {chance.randrange(400)}") for _ in range(num_pairs)]
            pairs[5:5] = [("", "empty"), ("blank", " \t")]
            paths = [str(tmp_path / f"{number}.{part}.{side}") for side in "st"]
            for side, path in enumerate(paths):
                with open(path, "w", encoding="utf-8") as file:
                    file.writelines(f"{pair[side]}\n" for pair in pairs)
            with open(paths[0], "ab") as first, open(paths[1], "ab") as second:
                first.write(b"caf\xe9\n")
                second.write(b"coffee\n")
            corpora.append(Corpus(*paths))
        files = [(io.BytesIO(), io.BytesIO()) for _ in range(2)]
        texts.append(SplitInput(corpora, direction, 420, *files))
        corpora_of.append([pair for one in corpora for pair in read_pairs(one, invalid_utf8="skip")])
    counts = hold_out(texts, seed=7)

    def written(files):
        return list(zip(*(file.getvalue().decode().splitlines() for file in files), strict=True))

    held_out = {
        (language, sentence.strip())
        for text in texts
        for pair in written(text.dev)
        for language, sentence in zip(text.direction, pair, strict=True)
    }
    for text, pairs, count in zip(texts, corpora_of, counts, strict=True):
        dev = written(text.dev)
        free = [
            (pair.source, pair.target)
            for pair in pairs
            if has_both_sides(pair)
            and not {*zip(text.direction, (pair.source.strip(), pair.target.strip()), strict=True)} & held_out
        ]
        assert written(text.train) == free
        assert len(dev) == count.held_out == number_to_hold_out(420) == 21
        assert (count.training, count.without_text) == (len(free), 4)
        assert count.left_out == 420 - 21 - len(free) > 21
        whole = [(pair.source, pair.target) for pair in pairs if has_both_sides(pair)]
        order = iter(whole)
        assert all(pair in order for pair in dev), "not in the order of the corpora"


def test_the_share_has_bounds():
    assert [number_to_hold_out(number) for number in (1, 20, 40, 19_999, 20_000, 10**6)] == [1, 1, 2, 999, 1_000, 1_000]
