"""Counts stay whole when many threads count."""

from __future__ import annotations

import re
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from nmt_cli.serve.metrics import Metrics


def test_large_counts_keep_all_their_digits():
    values = {"nmt_sentences_total": 12_345_678, "nmt_batches_total": 7, "nmt_search_seconds_total": 1_234_567.25,
              "nmt_search_failures_total": 0, "nmt_waiting_sentences": 0}  # fmt: skip
    told = Metrics().text([({"source": "en"}, values)]).splitlines()
    assert 'nmt_sentences_total{source="en"} 12345678' in told
    assert 'nmt_search_seconds_total{source="en"} 1234567.250000' in told


def test_no_character_is_lost():
    """Seen to fail where a thread adds to a number that another has read."""
    metrics = Metrics()
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda _: [metrics.count_characters(8) for _ in range(500)], range(8)))
    finally:
        sys.setswitchinterval(usual)
    assert f"\nnmt_characters_total {8 * 500 * 8}\n" in metrics.text([])


@pytest.mark.parametrize("code", ['a"b', "a\\b", "a\nb", 'x\\"\n\\n', "\\", "zh-Hant"])
def test_any_code_of_a_language_comes_back_from_its_label(code):
    """Read as Prometheus does: a backslash stands before a backslash, a quote, and n for a line feed."""
    values = dict.fromkeys(
        ("nmt_sentences_total", "nmt_batches_total", "nmt_search_seconds_total", "nmt_search_failures_total",
         "nmt_waiting_sentences"), 0
    )  # fmt: skip
    lines = Metrics().text([({"source": code, "target": "fr"}, values)]).split("\n")
    (line,) = [line for line in lines if line.startswith("nmt_batches_total{")]
    found = re.fullmatch(r'nmt_batches_total\{source="((?:[^"\\\n]|\\["\\n])*)",target="fr"\} 0', line)
    assert found, line
    signs = {"\\n": "\n", '\\"': '"', "\\\\": "\\"}
    assert re.sub(r"\\.", lambda escaped: signs[escaped[0]], found[1]) == code
