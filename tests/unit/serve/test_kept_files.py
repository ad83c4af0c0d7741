"""Translated files are kept for a while, within a limit, whoever asks at the same time."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from nmt_cli.serve import kept_files
from nmt_cli.serve.kept_files import KeptFiles


@pytest.fixture
def many_switches():
    """Threads that take turns all the time."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(usual)


def test_a_file_has_a_name_that_nobody_guesses_and_that_says_what_it_is():
    kept = KeptFiles()
    names = [kept.add("my report: 2.HTML", "fr", b"a") for _ in range(2)]
    assert all(name.endswith(".my_report__2_fr.html") for name in names)
    secrets = [name.partition(".")[0] for name in names]
    assert len(set(secrets)) == 2
    assert min(map(len, secrets)) >= 20


def test_letters_keep_their_marks_in_the_name_of_a_file():
    for name, kept in (("हिन्दी फ़ाइल.txt", "हिन्दी_फ़ाइल_en.txt"), ("re\u0301sume\u0301.txt", "résumé_en.txt")):
        assert KeptFiles().add(name, "en", b"a").endswith(f".{kept}"), name


def test_the_oldest_files_make_room(monkeypatch):
    monkeypatch.setattr(kept_files, "MAX_BYTES", 10)
    kept = KeptFiles()
    first, second = kept.add("a.txt", "fr", b"1234"), kept.add("b.txt", "fr", b"5678")
    third = kept.add("c.txt", "fr", b"90")
    assert [kept.get(name) for name in (first, second, third)] == [b"1234", b"5678", b"90"]
    fourth = kept.add("d.txt", "fr", b"x")
    assert [kept.get(name) for name in (first, second, third, fourth)] == [None, b"5678", b"90", b"x"]
    fifth = kept.add("e.txt", "fr", b"y" * 8)  # what was forgotten no longer counts
    assert [kept.get(name) for name in (second, third, fourth, fifth)] == [None, None, b"x", b"y" * 8]


def test_a_file_is_forgotten_when_its_time_is_over(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(kept_files, "monotonic", lambda: now[0])
    kept = KeptFiles()
    name = kept.add("a.txt", "fr", b"1")
    now[0] += kept_files.KEEP_SECONDS - 1
    assert kept.get(name) == b"1"
    now[0] += 2
    assert kept.get(name) is None


@pytest.mark.usefixtures("many_switches")
def test_threads_do_not_disturb_one_another(monkeypatch):
    """Seen to fail without the lock."""
    monkeypatch.setattr(kept_files, "MAX_BYTES", 1_000)
    kept = KeptFiles()

    def work(number):
        content = bytes([number]) * (10 + number)
        return all(kept.get(kept.add("a.txt", "fr", content)) in (content, None) for _ in range(1_000))

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(8)))
    assert kept._num_bytes == sum(len(content) for _, content in kept._files.values())
