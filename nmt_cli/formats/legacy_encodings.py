"""Finds the encoding of a text from before Unicode, among those in which its two languages were written.

If two of them cannot be told apart, the import is refused, and the user has to name the encoding.
"""

from __future__ import annotations

import re

from nmt_cli.formats.languages import Languages
from nmt_cli.system.errors import InputError
from nmt_cli.text.language_codes import primary_language

_LEGACY_CODECS = {
    "zh": ("gb18030", "big5"), "ja": ("cp932", "euc_jp"), "ko": ("cp949",), "el": ("cp1253",), "tr": ("cp1254",),
    "he": ("cp1255",), "th": ("cp874",), "vi": ("cp1258",),
    **dict.fromkeys(("ru", "uk", "bg", "sr", "mk", "be"), ("cp1251", "koi8_r")),
    **dict.fromkeys(("pl", "cs", "sk", "hu", "sl", "hr", "ro", "sq"), ("cp1250", "iso8859_2")),
    **dict.fromkeys(("ar", "fa", "ur"), ("cp1256",)), **dict.fromkeys(("lt", "lv", "et"), ("cp1257",)),
}  # fmt: skip
_HAN = (
    r"[的一是不了人我在有他这这為为之大来來以个個中上们們到说說国國和地也子时時道出而要于於就下得可你年生自会會那后後能对對着著事其里裡所去行过過"
    r"家十用发發天如然作方成者多日都三小军軍二无無同么麼经經法当當起与與好看学學进進种種将將还還分此心前面又定见見只主没沒公从從很今晚想她吗嗎。，、？！“”「」]"
)
_KANA = r"[\u3040-\u30ff、。！？「」ー]"
_CYRILLIC = r"[а-яёіїєґўђјљњћџѓѕќ«»—№’“”…]"
_FREQUENT = {
    "gb18030": _HAN, "big5": _HAN, "cp932": _KANA, "euc_jp": _KANA, "cp949": r"[\uac00-\ud7a3]",
    "cp1251": _CYRILLIC, "koi8_r": _CYRILLIC, "cp1253": r"[α-ωάέήίόύώς’«»…]", "cp1254": r"[çğıöşüâîûÇĞİÖŞÜ’“”…]",
    "cp1255": r"[\u05d0-\u05ea]", "cp1256": r"[\u0621-\u06cc،؟]", "cp1257": r"[āčēģīķļņšūžąęėįųõäöüŠŽĀČ’“”„–…]",
    "cp1258": r"[àâãèéêìíòóôõùúýăđĩũơư\u0300-\u0323₫’“”…]", "cp874": r"[\u0e01-\u0e5b]",
    **dict.fromkeys(("cp1250", "iso8859_2"), r"[ąćęłńóśźżáčďéěíňřšťúůýžőűöüäôľĺŕăâîşţŁŚŻČŠŘŽÁÉ’„“”–…]"),
    **dict.fromkeys(("cp1252", "latin_1"), r"[àáâãäåæçèéêëìíîïñòóôõöøùúûüýÿœßðþÀÉÈÊÇÖÜÄÅØÆÎÔ’‘“”„«»–—…€¿¡]"),
}  # fmt: skip
"""By encoding, a pattern of one character that is frequent in the languages for which the encoding was made."""
_DISPLAY_NAMES = {"gb18030": "GB18030", "cp932": "Shift_JIS", "euc_jp": "EUC-JP", "big5": "Big5", "latin_1": "Latin-1"}


class UncertainEncodingError(InputError):
    """Raised if it is not certain which of several encodings a text has; the message has options for each."""

    def __init__(self, name: str, codecs_: list[str]) -> None:
        self.codecs = list(dict.fromkeys(codecs_))
        tries = "; or ".join(f"--encoding {encoding_label(codec)}" for codec in self.codecs)
        super().__init__(
            f"{name}: is not UTF-8, and its encoding is not certain. Run the same command again with one of these: "
            f"{tries}"
        )


def legacy_encoding(name: str, sample: bytes, languages: Languages) -> str:
    """Return the codec of a text that is not in UTF-8, of which `sample` has some lines.

    The codecs that fit are compared by how much of the text beyond ASCII is frequent in the languages they were made
    for. Where that decides nothing, charset-normalizer does.

    Raises:
        UncertainEncodingError: charset-normalizer decides nothing either; the message has the options that settle it.
    """
    likely = [codec for language in languages for codec in _LEGACY_CODECS.get(primary_language(language), ())]
    western = "cp1252" if _decodes(sample, "cp1252") else "latin_1"
    fitting = [codec for codec in dict.fromkeys([*likely, western]) if _decodes(sample, codec)]
    texts = {codec: "".join(letter for letter in sample.decode(codec) if letter > "\x7f") for codec in fitting}
    shares = {codec: len(re.findall(_FREQUENT[codec], text)) / len(text) for codec, text in texts.items() if text}
    ranked = sorted(shares, key=lambda codec: -shares[codec])
    rest = [codec for codec in ranked[1:] if texts[codec] != texts[ranked[0]]]
    if shares[ranked[0]] > 0.5 and (not rest or shares[rest[0]] < 0.7 * shares[ranked[0]]):
        return ranked[0]
    if len(fitting) > 1 and (best := _by_library(sample, fitting)) is not None:
        return best
    raise UncertainEncodingError(name, ranked if len(ranked) > 1 else [western, "gb18030", "cp932", "cp1251"])


def _by_library(sample: bytes, fitting: list[str]) -> str | None:
    """Return the codec that charset-normalizer finds, or None if it finds none, or several that are equally good."""
    from charset_normalizer import from_bytes

    matches = list(from_bytes(sample, cp_isolation=fitting, threshold=0.4, steps=10, chunk_size=1024))
    if not matches:
        return None
    best, *others = matches
    rivals = [match for match in others if str(match) != str(best)]
    if any((rival.chaos, -rival.coherence) <= (best.chaos, -best.coherence) for rival in rivals):
        return None
    return str(best.encoding)


def _decodes(sample: bytes, codec: str) -> bool:
    try:
        sample.decode(codec)
    except UnicodeDecodeError:
        return False
    return True


def encoding_label(codec: str) -> str:
    """Return the name of an encoding for messages and reports."""
    return _DISPLAY_NAMES.get(codec, codec)
