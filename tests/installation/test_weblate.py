"""Weblate's machinery for LibreTranslate, unmodified and in an environment of its own, asks `nmt serve` on a socket."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from serving import Server, running_server
from test_plain_install import OF_A_USER, succeed

WEBLATE = "weblate==5.14.3"
"""The last version for Python 3.11."""
ITS_LIBRARIES = (
    "celery>=5.5,<5.6", "disposable-email-domains", "Django>=5.2,<6", "django-appconf<1.2", "django-crispy-forms<2.6",
    "django-redis<6.1", "filelock<4", "GitPython<3.2", "html2text<2025.4.16", "lxml<6.1", "nh3<0.4", "packaging<26",
    "pyparsing<3.3", "python-dateutil", "rapidfuzz<3.15", "requests<2.33", "ruamel.yaml<0.19", "sentry-sdk<3",
    "siphashc<3", "translate-toolkit<3.17", "translation-finder<3", "weblate-language-data",
)  # fmt: skip
"""Libraries that the class imports. The others of Weblate need libraries of the system for pictures and backups."""
CLIENT = Path(__file__).with_name("weblate_client.py")
TEXT, DOG = "Where is the car? The dog sees the house.", "The dog sees the house."


def asked(python: Path, server: Server, key: str) -> dict[str, Any]:
    """Return the answers of a server as Weblate's class reads them, with a key."""
    command = [str(python), str(CLIENT), f"{server.address}/", key, TEXT]
    ran = subprocess.run(command, env=OF_A_USER, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    found: dict[str, Any] = json.loads(ran.stdout)
    return found


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_weblate_gets_its_suggestions(model: Path, tmp_path: Path) -> None:
    """One test, so that the environment is made once however tests are shared out."""
    python = tmp_path / "environment/bin/python"
    try:
        succeed(sys.executable, "-m", "venv", tmp_path / "environment")
        succeed(python, "-m", "pip", "install", "--quiet", "--no-deps", WEBLATE)
        succeed(python, "-m", "pip", "install", "--quiet", *ITS_LIBRARIES)
        weblate_and_german(python, model, tmp_path)
        weblate_without_german(python, model)
    finally:
        shutil.rmtree(tmp_path / "environment")


def weblate_and_german(python: Path, model: Path, tmp_path: Path) -> None:
    german, keys = tmp_path / "german", tmp_path / "keys"
    shutil.copytree(model, german, ignore=shutil.ignore_patterns("cache", "languages.json"))
    config = german / "config.yaml"
    config.write_text(config.read_text().replace("target_lang: fr", "target_lang: de"))
    keys.write_text("secret\n")
    with running_server("--model", model, "--model", german, "--api-key-file", keys) as server:
        text, plural, cat, dog = (
            server.translate(text, api_key="secret")["translatedText"] for text in (TEXT, "The cars", "The cat.", DOG)
        )
        found = asked(python, server, "secret")
        assert (found["form"], found["errors"]) == (True, [])
        assert found["languages"] == ["de", "en", "fr"]
        assert [[one["text"] for one in suggestions] for suggestions in found["translated"]] == [[text], [plural]]
        assert {one["service"] for suggestions in found["translated"] for one in suggestions} == {"LibreTranslate"}
        assert found["batch"] == [[text], [cat]]
        assert found["unknown"] == []
        assert [one["text"] for one in found["searched"]] == [dog]
        refused = asked(python, server, "wrong")
        assert refused["form"] is False
        assert "Invalid API key" in refused["errors"][0]
        assert "Invalid API key" in refused["failed"]


def weblate_without_german(python: Path, model: Path) -> None:
    """Weblate translates a word into German before it takes the settings, as docs/serving.md says."""
    with running_server("--model", model) as server:
        found = asked(python, server, "")
        assert found["form"] is False
        assert "Could not fetch translation: " in found["errors"][0]
        assert "de is not supported" in found["errors"][0]
        assert [one["text"] for one in found["searched"]] == [server.translate(DOG)["translatedText"]]
