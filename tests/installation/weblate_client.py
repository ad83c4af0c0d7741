"""Asks a server as Weblate does, with Weblate's own class, and prints what came of it as JSON. Runs in Weblate's
environment: `python weblate_client.py ADDRESS KEY TEXT`.

Without a database, the class knows languages and units only by what it asks of them.
"""

import json
import sys
from types import SimpleNamespace

import django
from django.conf import settings

settings.configure(
    CHECK_LIST=(),
    ENABLE_HTTPS=False,
    INSTALLED_APPS=["weblate.checks", "weblate.lang"],
    SENTRY_DSN=None,
    SITE_DOMAIN="weblate.test",
)
django.setup()

from weblate.lang.models import Language, Plural  # noqa: E402
from weblate.machinery.base import MachineTranslationError  # noqa: E402
from weblate.machinery.libretranslate import LibreTranslateTranslation  # noqa: E402


def language(number: int, code: str) -> Language:
    found = Language(pk=number, code=code)
    found.plural = Plural(number=2, formula="n != 1")
    return found


def unit(target: Language, *texts: str) -> SimpleNamespace:
    """A text of a component in English, with its plural where it has one, to be translated."""
    component = SimpleNamespace(source_language=language(1, "en"), project=SimpleNamespace(id=1))
    translation = SimpleNamespace(
        component=component, language=target, plural=target.plural, log_debug=lambda *_: None
    )  # fmt: skip
    return SimpleNamespace(translation=translation, get_source_plurals=lambda: list(texts), machinery={})


def main(address: str, key: str, text: str) -> None:
    asked = {"url": address, "key": key}
    form = LibreTranslateTranslation.settings_form(LibreTranslateTranslation, asked)
    machine = LibreTranslateTranslation(asked)
    french, units = language(2, "fr_CA"), [unit(language(2, "fr"), text), unit(language(2, "fr"), "The cat.")]
    found = {"form": form.is_valid(), "errors": form.errors.get("__all__", [])}
    try:
        found["languages"] = sorted(machine.download_languages())
        found["translated"] = machine.translate(unit(french, text, "The cars"))
        machine.batch_translate(units)
        found["batch"] = [one.machinery["translation"] for one in units]
        found["unknown"] = machine.translate(unit(language(3, "tlh"), text))
        found["searched"] = machine.search(units[0], "The dog sees the house.", None)
    except MachineTranslationError as error:
        found["failed"] = str(error)
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
