"""Sentences of held-out sets in the training text of other directions: against a comparison of the texts."""

import random

from nmt_cli.corpora.corpus_report import NamedCorpus, analyse
from nmt_cli.corpora.other_directions import record_other_directions
from nmt_cli.data.pairs import Corpus, LengthLimits

DIRECTIONS = (("vi", "en"), ("fr", "en"), ("en", "vi"))


def test_the_findings_are_those_of_a_comparison_of_all_texts(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    chance = random.Random(1)
    texts, reports = {}, []
    for number, languages in enumerate(DIRECTIONS):
        own = []
        for use, num_pairs in (("train", 60), ("dev", 20), ("test", 30)):
            pairs = [tuple(f"{chance.choice(['', ' '])}{chance.randrange(99)}" for _ in "12") for _ in range(num_pairs)]
            pairs += [("", ""), (" ", "x" * number)]
            for side, ending in enumerate("st"):
                (tmp_path / f"{number}.{use}.{ending}").write_text("".join(f"{pair[side]}\n" for pair in pairs))
            corpus = Corpus(f"{number}.{use}.s", f"{number}.{use}.t")
            own.append(NamedCorpus(f"{use} {number}", corpus, is_training=use == "train"))
            texts[f"{use} {number}"] = pairs
        reports += [(report, languages) for report in analyse(own, LengthLimits())]
    record_other_directions(reports)
    for report, languages in reports:
        if report.is_training:
            assert report.findings["other_directions"].count == 0
            continue
        learned = {
            (language, sentence.strip())
            for number, its_languages in enumerate(DIRECTIONS)
            if its_languages != languages
            for pair in texts[f"train {number}"]
            for language, sentence in zip(its_languages, pair, strict=True)
            if sentence.strip()
        }
        expected = [
            row
            for row, pair in enumerate(texts[report.name], start=1)
            if any((language, side.strip()) in learned for language, side in zip(languages, pair, strict=True))
        ]
        found = report.findings["other_directions"]
        assert 0 < len(expected) < len(texts[report.name])
        assert (found.count, found.examples) == (len(expected), [f"{report.source}:{row}" for row in expected[:3]])
