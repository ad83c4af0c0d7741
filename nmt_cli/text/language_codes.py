"""Codes and names of languages, and properties of languages that follow from the code alone.

A language may be given by its code of two letters, its code of three (ISO 639-2 and 639-3), or its name.
"""

from __future__ import annotations

import re

_NAMES = """
en eng english anglais|fr fra fre french français
de deu ger german deutsch|es spa spanish español castellano
it ita italian italiano|pt por portuguese português|nl nld dut dutch nederlands
ru rus russian русский|zh zho chi cmn chinese mandarin 中文 汉语
ja jpn japanese 日本語|ko kor korean 한국어|ar ara arabic العربية
vi vie vietnamese tiếng_việt
tr tur turkish türkçe
pl pol polish polski|cs ces cze czech čeština|sv swe swedish svenska|da dan danish dansk
fi fin finnish suomi|no nor nb nob norwegian norsk bokmål
hu hun hungarian magyar|el ell gre greek ελληνικά|he heb hebrew עברית|hi hin hindi हिन्दी|th tha thai ไทย
uk ukr ukrainian українська|ro ron rum romanian română|bg bul bulgarian български|id ind indonesian bahasa_indonesia
fa fas per persian farsi فارسی
la lat latin|eo epo esperanto|ca cat catalan català|sk slk slo slovak slovenčina
hr hrv croatian hrvatski|sr srp serbian српски srpski|sw swa swahili kiswahili
"""
_OTHER_NAMES = """
en englisch inglés ingles inglese inglês engels angielski английский engelska engelsk angličtina ingilizce tiếng_anh
fr französisch francés frances francese francês francuski французский franska fransk francouzština tiếng_pháp
de allemand alemán tedesco alemão duits niemiecki немецкий tyska tysk němčina almanca tiếng_đức
es spanisch espagnol spagnolo espanhol spaans hiszpański испанский spanska spansk|it italienisch italien italiaans
it włoski итальянский|pt portugiesisch portugais portugués portoghese portugees portugalski португальский
nl niederländisch holländisch néerlandais neerlandés olandese holandés neerlandês niderlandzki нидерландский
ru russisch russe ruso russo rosyjski ryska|zh chinesisch chinois chino cinese chinês chinees chiński китайский
ja japanisch japonais japonés giapponese japonês japans japoński японский|ko koreanisch coréen coreano корейский
ar arabisch arabe árabe arabo arabski арабский|vi vietnamesisch vietnamien vietnamita vietnamees вьетнамский
tr türkisch turc turco turecki турецкий|pl polnisch polonais polaco polacco польский|sv schwedisch suédois sueco svedese
uk ukrainisch ukrainien ucraniano ucraino украинский|cs tschechisch tchèque checo ceco|hu ungarisch hongrois húngaro
"""
"""Names of languages in still other languages, as they are found in the headers of tables."""
ALIASES = {
    name.replace("_", " "): names.split()[0]
    for line in f"{_NAMES}{_OTHER_NAMES}".split("\n")
    for names in line.split("|")
    for name in names.split()
}
"""Maps each code or name of a language to its code of two letters."""
_CODES = {"lao": "lo", "khm": "km", "mya": "my", "bur": "my", "aze": "az", "azj": "az"}
"""Maps more codes of three letters to those of two. The latter, such as `my`, may be words in file names."""
_VARIANTS = {"hans": "Simplified", "hant": "Traditional", "latn": "Latin", "cyrl": "Cyrillic", "br": "Brazil"}
"""Maps scripts and regions in codes of languages to words for people. Others are shown as they are."""
_CHINESE = ("zh", "yue", "wuu", "lzh")
_WITHOUT_SPACES = (*_CHINESE, "ja", "th", "lo", "my", "km")
_TURKIC = ("tr", "az", "crh")


def primary_language(code: str) -> str:
    """Return the language of a code or name without its region or script: `sr` for sr-RS, sr@latin and Serbian."""
    language = re.split(r"[-_@]", code.strip().lower())[0]
    return ALIASES.get(language) or _CODES.get(language, language)


def english_name(code: str) -> str:
    """Return the English name of a language, such as `Portuguese` for `pt` and `Portuguese (Brazil)` for `pt-BR`.

    The code is returned if the name is not known.
    """
    language, *variants = re.split(r"[-_@]", code.strip())
    shown = [_VARIANTS.get(one.lower(), one) for one in variants]
    if language.lower() in ("nb", "nob"):  # a model may have the other Norwegian too
        shown.insert(0, "Bokmål")
    for line in _NAMES.split("\n"):
        for names in line.split("|"):
            known = names.split()
            if known and known[0] == primary_language(code):
                name = next(name for name in known if len(name) > 3).capitalize()
                return f"{name} ({', '.join(shown)})" if shown else name
    return code


def separates_words_by_spaces(language: str) -> bool:
    """Return whether a language separates words by spaces."""
    return primary_language(language) not in _WITHOUT_SPACES


def bleu_tokenizer(language: str) -> str | None:
    """Return the tokenizer of sacreBLEU for a language in which BLEU should not count words: `zh` or `char`; else None.

    Words are not counted in languages that do not separate them by spaces. Korean has spaces, but its words end in
    particles, so whole words seldom match. sacreBLEU's own tokenizers for Japanese and Korean need more packages.
    """
    one = primary_language(language)
    return "zh" if one in _CHINESE else "char" if one in (*_WITHOUT_SPACES, "ko") else None


def is_turkic(language: str) -> bool:
    """Return whether a language writes i with and without a dot as two letters."""
    return primary_language(language) in _TURKIC
