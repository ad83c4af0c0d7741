"""The study of better models: the order of its stages, a stop in the middle, and choices among candidates."""

from __future__ import annotations

import json
import math
import os
import random
import signal
import subprocess
import sys
import threading
from collections import Counter
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from sacrebleu import BLEU, CHRF

from benchmarks.better_models import choosing, plan, stages, texts
from benchmarks.better_models.choosing import Candidate
from benchmarks.better_models.sooner import minutes_to
from benchmarks.better_models.stages import Stage
from benchmarks.better_models.table import Scale

WORDS = ["ein", "eine", "mann", "frau", "hund", "läuft", "rennt", "auf", "der", "straße", "im", "park", "."]


def _sentences(number: int, seed: int) -> list[str]:
    draw = random.Random(seed)
    return [" ".join(draw.choices(WORDS, k=draw.randrange(0, 9))) for _ in range(number)]


# Stages -----------------------------------------------------------------------------------------------------------


def test_every_stage_needs_only_stages_before_it_and_has_a_name_of_its_own():
    table = plan.table_of(Path("data"), Scale(is_tiny=False))
    stages.check(table.stages)
    assert set(table.systems) < {stage.name for stage in table.stages}
    assert not [name for name in table.systems if "reverse" in name]  # they translate the other way


def test_a_stage_that_fails_stops_only_those_that_need_it(tmp_path):
    ran = []

    def work(place):
        ran.append(place.name)
        if place.name == "bad":
            raise RuntimeError("no")
        return {}

    def stage(name, *needs):
        return Stage(name, "", 0.0, work, needs)

    chain = [stage("bad"), stage("after-bad", "bad"), stage("good"), stage("after-good", "good")]
    assert stages.run_all(chain, tmp_path, lanes=1) == 1
    assert ran == ["bad", "good", "after-good"]
    assert "bad: no" in (tmp_path / "stages.log").read_text()
    ran.clear()
    assert stages.run_all(chain, tmp_path, lanes=1) == 1
    assert ran == ["bad"]  # what has ended is not done again


def test_two_lanes_run_two_stages_at_once_and_no_more(tmp_path):
    """Each of the first two waits until the other has begun."""
    both, running, most = threading.Barrier(2, timeout=60), [], []

    def work(place):
        running.append(place.name)
        most.append(len(running))
        if place.name in "ab":
            both.wait()
        running.remove(place.name)
        return {}

    assert stages.run_all([Stage(name, "", 0.0, work) for name in "abcd"], tmp_path, lanes=2) == 0
    assert max(most) == 2


def test_the_time_of_a_command_that_was_ended_counts_and_of_one_that_was_killed_is_missed(tmp_path):
    place = stages.Workplace(tmp_path, "one", stages.Children())
    busy = "import time\nwhile time.process_time() < 0.3: pass\n"
    place.python("-c", busy)
    with pytest.raises(RuntimeError, match="its messages are in"):
        place.python("-c", f"{busy}raise SystemExit(3)")
    place._record({"began": "a command that was killed with this process"})
    seconds, killed = place.processor()
    assert seconds >= 0.6
    assert killed == 1


WAITING = """
import sys
from pathlib import Path
from benchmarks.better_models.stages import Stage, run_all

CHILD = '''
import signal, sys
print("waits", flush=True)
signal.sigwait([signal.SIGTERM]) if sys.argv[1] == "ends" else signal.pause()
raise SystemExit(143)
'''

def work(place):
    if not (place.root / "go").exists():
        place.python("-c", "import signal; signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])" + CHILD, "ends",
                     output=Path(sys.argv[2]))
    return {"value": 1.0}

sys.exit(run_all([Stage("first", "", 0.0, lambda _: {}), Stage("second", "", 0.0, work, ("first",))],
                 Path(sys.argv[1]), 1))
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_study_that_is_stopped_goes_on_and_leaves_no_command_behind(tmp_path, number):
    """The command holds a pipe open; its end is read when the command is gone."""
    root, pipe = tmp_path / "root", tmp_path / "pipe"
    os.mkfifo(pipe)
    command = [sys.executable, "-c", WAITING, str(root), str(pipe)]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    first = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)
    with pipe.open("rb") as written:
        assert written.readline() == b"waits\n"
        first.send_signal(number)
        assert written.read() == b""
    assert first.wait() == (-number if number == signal.SIGKILL else 143)
    assert stages.is_done(root, "first")
    assert not stages.is_done(root, "second")
    (root / "go").touch()
    assert subprocess.run(command, env=environment, stderr=subprocess.DEVNULL, check=False).returncode == 0
    done = json.loads((root / "second" / "done.json").read_text())
    assert done["result"] == {"value": 1.0}
    assert done["killed"] == (number == signal.SIGKILL)


# Choices ----------------------------------------------------------------------------------------------------------


def test_agreement_is_the_chrf_of_sacrebleu():
    sentences = [*_sentences(12, 1), "", "aaaaaaa aa", "a", "ein ein ein ein"]
    slow = [[CHRF().sentence_score(one, [other]).score for other in sentences] for one in sentences]
    assert np.allclose(choosing.agreement(sentences), slow)


def test_the_most_agreeing_text_has_the_highest_mean_over_all_samples():
    samples = _sentences(10, 2)
    samples += samples[:3]
    means = {one: sum(CHRF().sentence_score(one, [other]).score for other in samples) for one in samples}
    assert choosing.most_agreeing(samples) == max(means, key=means.__getitem__)


def test_the_tuned_weights_have_the_best_corpus_bleu_of_all():
    draw = random.Random(5)
    references = _sentences(8, 3)
    lists = [
        [Candidate(text, 1.5 * score, score) for text in _sentences(4, place) for score in [-draw.random()]]
        for place in range(len(references))
    ]
    scores = [[-draw.random() * 5 for _ in range(32)] for _ in range(2)]

    def bleu(weights):
        chosen = []
        for place, candidates in enumerate(lists):
            totals = [
                each.score + sum(w * of[4 * place + i] / 1.5 for w, of in zip(weights, scores, strict=True))
                for i, each in enumerate(candidates)
            ]
            chosen.append(candidates[totals.index(max(totals))].text)
        return BLEU(tokenize="none").corpus_score(chosen, [references]).score

    slow = {weights: bleu(weights) for weights in product(choosing.WEIGHTS, repeat=2)}
    best, found, without = choosing.tuned(lists, scores, references, "none")
    assert found == pytest.approx(max(slow.values()))
    assert slow[best] == pytest.approx(found)
    assert without == pytest.approx(slow[(0.0, 0.0)])


def test_lists_are_read_as_the_toolkit_writes_them(tmp_path):
    path = tmp_path / "list"
    path.write_text("0 ||| a ||| b ||| F0= -2.5 ||| -1.0\n0 |||  ||| F0= -3 ||| -2\n1 ||| c\r ||| F0= -1 ||| -0.5\n")
    assert choosing.read_lists(path) == [
        [Candidate("a ||| b", -2.5, -1.0), Candidate("", -3.0, -2.0)],
        [Candidate("c\r", -1.0, -0.5)],
    ]


# Text and times ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("which", ["frequent", "rare"])
def test_hidden_words_are_a_share_of_the_text_and_mostly_of_one_kind(which):
    count = Counter({f"word-{place}": 1 + 2000 // (place + 1) for place in range(900)})
    probability = texts.hiding(count, which)
    share = sum(count[word] * probability[word] for word in count) / sum(count.values())
    assert math.isclose(share, texts.MASKED, rel_tol=1e-6)
    assert all(0 <= each <= 1 for each in probability.values())
    assert (probability["word-0"] > probability["word-899"]) == (which == "frequent")


def test_the_time_to_a_score_is_between_two_validations():
    curve = [{"bleu": 30.0, "minutes": 4.0}, {"bleu": 40.0, "minutes": 8.0}, {"bleu": 39.0, "minutes": 12.0}]
    assert minutes_to(35, curve) == 6.0
    assert minutes_to(41, curve) is None
