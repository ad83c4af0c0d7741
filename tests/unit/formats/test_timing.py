"""The times of two files of subtitles are compared before cues are paired by them."""

from __future__ import annotations

import random

import pytest
from importing_here import imported

from nmt_cli.formats.subtitle_timing import estimate_timing
from nmt_cli.system.errors import InputError


def film(seed: int, num_cues: int = 300) -> list[tuple[float, float]]:
    """Return when each cue of a film begins and ends."""
    draw = random.Random(seed)
    cues, time = [], 12.0
    for _ in range(num_cues):
        length = draw.uniform(0.9, 4.5)
        cues.append((time, time + length))
        time += length + draw.choice([0.08, 0.2, 0.5, 1.5, 3.0, 12.0])
    return cues


def stamp(time: float) -> str:
    milliseconds = round(max(0.0, time) * 1000)
    seconds, rest = divmod(milliseconds, 1000)
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02},{rest:03}"


def paired(tmp_path, source, target):
    """Import two films whose cue n says n; return how many pairs are right, and all of them."""
    for language, cues in (("en", source), ("fr", target)):
        text = "".join(f"{n}\n{stamp(b)} --> {stamp(e)}\n{language}{n}\n\n" for n, (b, e) in enumerate(cues, start=1))
        (tmp_path / f"film.{language}.srt").write_text(text)
    made = imported(tmp_path / "film.en.srt", tmp_path / "film.fr.srt")
    pairs = [([w[2:] for w in one.split()], [w[2:] for w in other.split()]) for one, other in made.pairs]
    return sum(bool({*one} & {*other}) for one, other in pairs), len(pairs), made.report["inputs"][0]


@pytest.mark.parametrize(
    ("scale", "shift"),
    [(25 / 23.976, 0), (23.976 / 25, 0), (1, 2), (1, -2), (1, 45.3), (25 / 24, -7.5), (1.0003, 0.4), (24 / 23.976, 0)],
)
def test_another_frame_rate_or_a_shift_is_found_and_told(tmp_path, capsys, scale, shift):
    draw = random.Random(1)
    cues = film(1)
    moved = [(scale * b + shift + draw.gauss(0, 0.05), scale * e + shift + draw.gauss(0, 0.1)) for b, e in cues]
    right, num_pairs, report = paired(tmp_path, cues, moved)
    assert num_pairs >= 270
    assert right >= 0.99 * num_pairs
    if "times" in report:
        assert report["times"]["scale"] == pytest.approx(1 / scale, abs=1e-3)
        assert "do not fit those of" in capsys.readouterr().err


def test_times_that_fit_are_left_alone(tmp_path, capsys):
    draw = random.Random(3)
    cues = film(3)
    loose = [(b + draw.uniform(-0.3, 0.3), e + draw.uniform(-0.5, 0.5)) for b, e in cues if draw.random() < 0.9]
    *_, report = paired(tmp_path, cues, loose)
    assert "times" not in report
    assert "their times" not in capsys.readouterr().err


def test_files_of_two_films_are_refused(tmp_path):
    with pytest.raises(InputError, match="their times have nothing in common"):
        paired(tmp_path, film(4), film(5))


@pytest.mark.parametrize("seconds", [2, 12, 120, -12])
@pytest.mark.parametrize("num_cues", [100, 300])
def test_a_part_that_one_version_lacks_moves_the_cues_after_it(tmp_path, capsys, num_cues, seconds):
    cues = film(6, num_cues)
    cut = cues[num_cues // 2][0]
    moved = [(b + seconds * (b >= cut), e + seconds * (b >= cut)) for b, e in cues]
    right, num_pairs, report = paired(tmp_path, cues, moved)
    assert num_pairs >= 0.95 * num_cues
    assert right >= 0.97 * num_pairs
    (change,) = report["times"]["changes"]
    assert change["shift"] == pytest.approx(-seconds, abs=0.05)
    assert f" on shifted by {-seconds:+.2f} s" in capsys.readouterr().err


@pytest.mark.parametrize("shift", [3600, -3600, 36_000])
def test_time_codes_that_begin_with_the_hour_are_found(tmp_path, shift):
    cues = [(begin + 40_000, end + 40_000) for begin, end in film(7)]
    right, num_pairs, report = paired(tmp_path, cues, [(begin + shift, end + shift) for begin, end in cues])
    assert right == num_pairs >= 290
    assert report["times"]["shift"] == pytest.approx(-shift, abs=0.05)


def test_the_second_half_of_a_film_is_found(tmp_path):
    cues = film(8)
    begin = cues[150][0] - 1.0
    _, num_pairs, _ = paired(tmp_path, cues, [(b - begin, e - begin) for b, e in cues[150:]])
    assert num_pairs >= 140


@pytest.mark.parametrize("num_cues", [60, 100, 300, 1200])
def test_no_two_films_are_taken_for_one(num_cues):
    for seed in range(4):
        own, other = (sorted(begin for begin, _ in film(number, num_cues)) for number in (seed, seed + 100))
        assert estimate_timing(own, other) is None


def test_few_cues_whose_times_differ_are_told(tmp_path, capsys):
    cues = film(9, 8)
    paired(tmp_path, cues, [(begin + 6, end + 6) for begin, end in cues])
    assert "so many of the pairs may be wrong" in capsys.readouterr().err
