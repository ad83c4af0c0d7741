"""The table of placeholder conventions: how programs and file formats write the codes that a translation must keep.

Each row has the form of a convention, and a page that defines it. Rows of `UNAMBIGUOUS_CONVENTIONS` cannot be ordinary
words, so they are kept wherever codes are looked for. Rows of `AMBIGUOUS_CONVENTIONS` may be words; they count where a
text has them more than once. Rows of `FLAGGED_CONVENTIONS` count in messages with a flag of gettext, which names the
language of the program.
"""

from __future__ import annotations

from typing import NamedTuple

from nmt_cli.text.letters import OTHER_SCRIPTS, WITHOUT_SPACES
from nmt_cli.text.line import CodeKind

_OPEN, _CLOSE, _STANDALONE, _LINE_END, _PLACEHOLDER = (
    CodeKind.OPEN, CodeKind.CLOSE, CodeKind.STANDALONE, CodeKind.LINE_END, CodeKind.PLACEHOLDER,
)  # fmt: skip


class Convention(NamedTuple):
    """A way of writing placeholders, tags or escapes."""

    name: str
    pattern: str
    """The regular expression of one code. A pair has the groups `open` and `close`, with translated text between."""
    url: str
    """Address of the web page (or path of the page of this project) that defines the convention."""
    examples: tuple[str, ...]
    """Codes as they are found in a text; a pair has a word between its codes."""
    kind: CodeKind = _PLACEHOLDER
    is_counted: bool = True
    """True if a program reads the code, so a translation must have each as often as its source."""
    flags: frozenset[str] = frozenset()
    """Flags of gettext, if the convention counts only in messages with one of them; otherwise empty."""


_UNSPACED = rf"(?:{WITHOUT_SPACES.pattern}|[\uff00-\uffef])"
"""Letters and signs of scripts that write no spaces: they may touch a code without being a part of it."""


def _not_behind(more: str = "") -> str:
    """Return a pattern for a place that does not follow a letter, a digit, `_` or a sign of `more`.

    It may follow a letter of a script that is not like Latin: Chinese and Korean write no blank next to a name in Latin
    letters.
    """
    return rf"(?:(?<![\w{more}])|(?<={OTHER_SCRIPTS.pattern}))"


def _not_before(more: str = "") -> str:
    return rf"(?!(?!{OTHER_SCRIPTS.pattern})[\w{more}])"


_NO_WORD_BEFORE, _NO_WORD_AFTER = _not_behind(), _not_before()
_ANY = rf"(?:(?!{_UNSPACED}|\[/[A-Za-z])[^\s<>\"'])"
"""A character of an address, unless it begins a closing tag of BBCode."""
_NAME = rf"(?<=[/=])(?:(?={_UNSPACED})\w)+(?=[\s\x00-\x7f]|$)"
"""A part of an address in a script that writes no spaces, as in links to Wikipedia."""
_WORD, _LOCAL = rf"(?:(?!{_UNSPACED})[\w-])", rf"(?:(?!{_UNSPACED})[\w.+-])"
_SCHEME = r"(?:https?|ftp)://"
ADDRESS_PATTERN = (
    rf"(?<![A-Za-z0-9_])(?:(?<={_UNSPACED}){_SCHEME}{_ANY}*|(?<!{_UNSPACED}){_SCHEME}(?:{_NAME}|{_ANY})*)"
    rf"(?<![.,;:!?()\[\]])(?<!//)|(?<!{_LOCAL}){_LOCAL}+@{_WORD}+(?:\.{_WORD}+)+"
)

# `*+` and `++` give nothing back: else many zeros after a `%` would take quadratic time.
_PRINTF = (
    r"%(?:<\w+>(?:[-+#0]*+\d*+(?:\.\d++)?[A-Za-z](?![A-Za-z]))?|(?:\d++\$)?(?:\([^()%]*\))?[-+#0'I{flags}]*+(?:\d++|\*(?:\d++\$)?)?(?:\.(?:\d++|\*(?:\d++\$)?)?)?"
    r"(?:hh|ll|[hlLqjzt])?[diouxXDOUeEfFgGaAcsrCSpnm%@]{end})"
)
_CAPITALISED = r"[A-Z\u00c0-\u00de][a-z\u00df-\u00ff'’]"
"""The beginning of a word with a capital: in `%1Le`, `%1` is an argument, not a width."""
_C = "https://pubs.opengroup.org/onlinepubs/9799919799/functions/fprintf.html"
_GETTEXT = "https://www.gnu.org/software/gettext/manual/html_node/Programming-Languages.html"
_RST = "https://docutils.sourceforge.io/docs/ref/rst/restructuredtext.html"
_COMMONMARK = "https://spec.commonmark.org/0.31.2/"
PRINTF = (
    r"(?=%(?:\d++\$|\([^()%]*\)))"
    + _PRINTF.format(flags="", end="")
    + rf"|(?!%\d{{1,2}}{_CAPITALISED})"
    + _PRINTF.format(flags="", end="(?:(?<=@)|(?<=[sdun])(?=[A-Z])|(?![A-Za-z]{3}))")
)
"""A printf directive in any text. `50 %ige` and `%count` contain none.

Letters may follow the number or name of an argument, or `%@`, and a capital may follow `%s` and the like.
"""
PRINTF_IN_TEXT = rf"(?<!\d)(?:{PRINTF})"
"""A printf directive in a translation whose source has no `%`: there `50%ige` is a word."""
TAG = r"</?(?:[A-Za-z][^<>]*|\d+\s*/?)>"
LINE_BREAK_TAGS = frozenset(("br", "hr"))
"""Names of tags that end a line, so that no sentence continues across them."""

UNAMBIGUOUS_CONVENTIONS = (
    Convention(
        "Symfony", rf"{_NO_WORD_BEFORE}%[A-Za-z_][A-Za-z0-9_.-]+%{_not_before('%')}",
        "https://symfony.com/doc/current/translation.html", ("%name%", "%id%", "%user.count%"),
    ),
    Convention("printf and Python %", PRINTF, _C, ("%s", "%d", "%1$s", "%.2f", "%lld", "%(name)s", "%@", "%1$@", "%<count>d")),
    Convention("Boost", r"%\d{1,2}%", "https://www.boost.org/doc/libs/release/libs/format/", ("%1%", "%12%")),
    Convention("Qt", rf"{_not_behind('%')}%L?\d{{1,2}}(?:{_not_before('%')}|(?={_CAPITALISED}))", "https://doc.qt.io/qt-6/qstring.html#arg", ("%1", "%2", "%L1")),
    Convention(
        "Weblate", r"\[X\d{1,9}X *\]", "https://docs.weblate.org/en/latest/admin/machine.html", ("[X0X]", "[X12X]"),
    ),
    Convention("own name", r"__[A-Za-z0-9]+(?:_[A-Za-z0-9]+)*__", "docs/reference/placeholders.md", ("__URL__", "__USER_1__")),
    Convention(
        "shell and PHP", rf"\$(?!(?:US|CAN?|AUD?|NZ)\b)[A-Za-z_](?:(?!{_UNSPACED})\w)*{_NO_WORD_AFTER}(?!\()",
        _GETTEXT, ("$name", "$user_1"),
    ),
    Convention("i18next", r"\$t\([^()\n]{1,200}\)", "https://www.i18next.com/translation-function/nesting", ("$t(key)", "$t(nav:home)")),
    Convention(
        "footnote of reStructuredText", rf"\[(?:\d{{1,6}}|#[\w-]{{0,100}}|\*|[A-Za-z][\w.-]{{0,100}})\]_{_NO_WORD_AFTER}",
        _RST + "#footnote-references", ("[1]_", "[#note]_", "[CIT2002]_"),
    ),
    Convention(
        "beginning of a quotation, a speech or a directive",
        r"(?<![^\n])[ \t]*(?:>(?:[ \t]*>){0,9}|[-=]{1,2}>)[ \t]+|(?<![^\n])\.\.[ \t]+[A-Za-z][\w-]{0,50}::[^\n]*",
        _COMMONMARK + "#block-quotes", ("> ", ">> ", ".. image:: car.png"), _LINE_END,
    ),
    Convention(
        "footnote of Markdown", r"\[\^[\w-]{1,100}\](?::[ \t]+)?",
        "https://github.github.com/gfm/", ("[^1]", "[^note]"), _STANDALONE,
    ),
    Convention("link of a wiki", r"\[\[[^\[\]\n]{1,300}\]\]", "https://www.mediawiki.org/wiki/Help:Links", ("[[name]]", "[[Page|text]]")),
    Convention(
        "target of a link of Markdown", r"(?<![^\n])[ ]{0,3}\[[^\[\]\n]{1,200}\]:[ \t]+(?=[\w.#/]+[:/.#])[^\n]*",
        _COMMONMARK + "#link-reference-definitions", ("[1]: https://example.org/a",), _LINE_END,
    ),
    Convention(
        "reference link of Markdown", r"(?P<open>!?\[)(?=[^\[\]\n]{1,1000}(?P<close>\]\[(?:\d{1,6}|[^\[\]\n/*=]{0,100}[-_:. ][^\[\]\n/*=]{0,100})?\]))",
        _COMMONMARK + "#reference-link", ("[word][1]",), _OPEN, is_counted=False,
    ),
    Convention(
        "link of Markdown",
        r"(?P<open>!?\[)(?=[^\[\]\n]{1,1000}(?P<close>\]\([^()\s]{0,2000}(?:\([^()\s]{0,2000}\)[^()\s]{0,2000})?(?:\s+\"[^\"\n]{0,200}\")?\)))",
        _COMMONMARK + "#links", ("[word](docs/car.md)", "![word](a.png)"), _OPEN, is_counted=False,
    ),
    Convention(
        "role of reStructuredText with a title",
        rf"(?P<open>{_not_behind(':')}:[A-Za-z](?:[\w+:.-]{{0,100}}[A-Za-z0-9])?:`)(?=[^`<>\n]{{0,1000}}[^`<>\s](?P<close>\s{{0,9}}<[^`<>\n]{{1,1000}}>`){_NO_WORD_AFTER})",
        _RST + "#interpreted-text", (":ref:`word <red-car>`",), _OPEN, is_counted=False,
    ),
    Convention(
        "role of reStructuredText", rf"{_not_behind(':')}:[A-Za-z](?:[\w+:.-]{{0,100}}[A-Za-z0-9])?:`[^`\n]{{1,1000}}`",
        _RST + "#interpreted-text", (":py:meth:`~Car.get`", ":ref:`index`"),
    ),
    Convention(
        "literal", r"(?<!`)``(?!`)[^\n`]{1,1000}(?:`[^\n`]{1,1000}){0,9}``(?!`)",
        _RST + "#inline-literals", ("``--house``",),
    ),
    Convention(
        "link of reStructuredText",
        r"(?P<open>(?<![\w`:])`)(?=[^`<>\s][^`<>\n]{0,1000}(?<!\s)(?P<close>\s{1,9}<[^`<>\n]{1,2000}>`__?)(?!\w))",
        _RST + "#hyperlink-references", ("`word <https://example.org/a>`_",), _OPEN, is_counted=False,
    ),
    Convention("code in backquotes", rf"(?:(?<![\w`'])|(?<={WITHOUT_SPACES.pattern}))`(?=[^\s`])[^`\n]{{0,999}}[^\s`]`(?:__?(?!\w))?(?!`){_NO_WORD_AFTER}|(?<![\w`'])`[^\s`]`(?![\w`'])", _COMMONMARK + "#code-spans", ("`car.open()`", "`x`")),
    Convention(
        "substitution of reStructuredText", rf"{_not_behind('|')}\|[A-Za-z][\w.-]{{0,100}}\|_{{0,2}}{_not_before('|')}",
        _RST + "#substitution-references", ("|version|",),
    ),
    Convention(
        "strong emphasis", rf"(?P<open>{_NO_WORD_BEFORE}(?<!\*)\*\*)(?=[^\s*][^*\n]{{0,1000}}(?<!\s)(?P<close>\*\*)(?!\*){_NO_WORD_AFTER})",
        _COMMONMARK + "#emphasis-and-strong-emphasis", ("**word**",), _OPEN, is_counted=False,
    ),
    Convention(
        "emphasis", rf"(?P<open>{_NO_WORD_BEFORE}(?<!\*)\*)(?=[^\W\d][^*\n]{{0,1000}}(?<![\s*])(?P<close>\*)(?!\*){_NO_WORD_AFTER})",
        _COMMONMARK + "#emphasis-and-strong-emphasis", ("*word*",), _OPEN, is_counted=False,
    ),
    Convention("address", ADDRESS_PATTERN, "https://www.rfc-editor.org/rfc/rfc3986", ("https://example.org/a?b=c", "joe@example.org")),
    Convention("template", r"<%[^<>\n]{1,1000}%>", "https://docs.ruby-lang.org/en/master/ERB.html", ("<%= x %>",)),
    Convention("tag", TAG, "https://html.spec.whatwg.org/multipage/syntax.html", ("<b>", "</b>", "<br/>", "<0>", "<color=#F00>", "</color>"), _OPEN),
    # Only names that the text both begins and ends are codes. What these enclose is no text of people.
    Convention(
        "BBCode of code", r"\[(?P<name>code|img|youtube)\b[^\[\]\n]{0,200}\][^\n]{0,2000}?\[/(?P=name)\]",
        "https://www.bbcode.org/reference.php", ("[code]x = 1[/code]", "[img]https://example.org/a.png[/img]"),
    ),
    Convention("item of BBCode", r"\[(?:\*|hr|br)\](?!_)", "https://www.bbcode.org/reference.php", ("[*]", "[hr]"), _LINE_END),
    Convention("BBCode", r"\[[A-Za-z][A-Za-z0-9]*(?:[= ][^\[\]\n]{0,2000})?\]", "https://www.bbcode.org/reference.php", ("[b]", "[url=https://example.org/x]"), _OPEN),
    Convention("end of BBCode", r"\[/[A-Za-z][A-Za-z0-9]*\]", "https://www.bbcode.org/reference.php", ("[/b]", "[/url]"), _CLOSE),
    Convention(
        "escaped character", r"\\u[0-9A-Fa-f]{4}|\\[@?](?:[a-z]+/\w+)?",
        "https://developer.android.com/guide/topics/resources/string-resource#FormattingAndStyling", (r"\u00A0", r"\@string/car"),
    ),
    Convention(
        "keys", rf"(?:{_NO_WORD_BEFORE}|(?<=\\[nt]))(?:(?:Ctrl|Alt|Shift|Cmd|Meta|Super)\+){{1,4}}[A-Za-z0-9]+",
        "https://docs.gtk.org/gtk4/func.accelerator_get_label.html", ("Ctrl+H", "Ctrl+Shift+Tab"),
    ),
    Convention(
        "UUID", rf"{_not_behind('-')}[0-9A-Fa-f]{{8}}(?:-[0-9A-Fa-f]{{4}}){{3}}-[0-9A-Fa-f]{{12}}{_not_before('-')}",
        "https://www.rfc-editor.org/rfc/rfc9562", ("550e8400-e29b-41d4-a716-446655440000",),
    ),
    Convention(
        "name in a program", rf"{_not_behind('.-')}(?:[A-Za-z][A-Za-z0-9]*(?:_[A-Za-z0-9]+)+(?:\.[A-Za-z]\w{{0,9}})?|[A-Za-z][A-Za-z0-9]*_){_NO_WORD_AFTER}",
        _RST + "#reference-names", ("max_size", "car_list.txt", "link_"),
    ),
    Convention(
        "emphasis with _", rf"(?P<open>{_NO_WORD_BEFORE}(?<!_)_)(?=[^\W\d_][^_\n]{{0,1000}}(?<![\s_])(?P<close>_)(?!_){_NO_WORD_AFTER})",
        _COMMONMARK + "#emphasis-and-strong-emphasis", ("_word_",), _OPEN, is_counted=False,
    ),
    Convention("line end", r"\\[nNr]", "https://developer.android.com/guide/topics/resources/string-resource#FormattingAndStyling", (r"\n", r"\r"), _LINE_END),
    Convention("tabulator", r"\\t(?![a-z])", "https://developer.apple.com/library/archive/documentation/Cocoa/Conceptual/LoadingResources/Strings/Strings.html", (r"\t",), _LINE_END),
    Convention("escaped quote", r"\\['\"]", "https://developer.android.com/guide/topics/resources/string-resource#FormattingAndStyling", (r"\'", r"\""), CodeKind.ESCAPE, is_counted=False),
)  # fmt: skip
"""Conventions that count in every text, in the order in which they are tried at a place.

Codes in braces (`BRACE_CONVENTIONS`) are found by matching the braces instead.
"""

BRACE_CONVENTIONS = (
    Convention("Python, .NET and Java", "", "https://docs.python.org/3/library/string.html#format-string-syntax", ("{}", "{0}", "{name}", "{0:.2f}")),
    Convention("ICU", "", "https://unicode-org.github.io/icu/userguide/format_parse/messages/", ("{n, plural, one {car} other {# cars}}", "{0,number,#.#}")),
    Convention("mustache, i18next and Angular", "", "https://mustache.github.io/mustache.5.html", ("{{x}}", "{{ width }}", "{{{raw}}}", "{{count, number}}")),
    Convention("JavaScript and shell", "", "https://tc39.es/ecma262/#sec-template-literals", ("${x}", "${user.name}")),
    Convention("Ruby", "", "https://docs.ruby-lang.org/en/master/format_specifications_rdoc.html", ("%{count}", "#{name}")),
)  # fmt: skip
"""Conventions with codes in braces, which need no pattern. One of `$%#` right before the braces belongs to them."""

WORD_WITH_ACCELERATOR = r"[^\W\d_]{1,9}_[^\W\d_]+(?![\w.])[^\n_]{0,30}$"
"""A word with an accelerator near the end of a short text, such as `E_xit`, which looks like a name in a program."""

AMBIGUOUS_CONVENTIONS = (
    Convention("Laravel", r"(?<![\w:/]):[A-Za-z][A-Za-z0-9_]+(?![\w:/`])", "https://laravel.com/docs/localization", (":name", ":count")),
    Convention("Drupal", rf"{_NO_WORD_BEFORE}(?<![@!%&/])[@!%][A-Za-z][A-Za-z0-9_-]*[A-Za-z0-9](?![\w%])", "https://api.drupal.org/api/drupal/core!lib!Drupal!Component!Render!FormattableMarkup.php", ("@user", "!link", "%count")),
    Convention("accelerator with _", r"(?<!\w)_(?=[^\W\d_])(?!\w+_)|(?<=[^\W\d_])(?<!\w{9})_(?=[^\W\d_]+(?![\w.])[^\n_]{0,30}$)", "https://docs.gtk.org/gtk4/method.Label.set_text_with_mnemonic.html", ("_",), CodeKind.ACCELERATOR, is_counted=False),
    Convention("accelerator with &", r"(?<!&)&(?=[^\W\d_])(?!#?\w{1,31};)(?!(?<=[A-Za-z]&)[A-Z])", "https://doc.qt.io/qt-6/qshortcut.html#mnemonic", ("&",), CodeKind.ACCELERATOR, is_counted=False),
)  # fmt: skip
"""Conventions whose codes may be ordinary words: `:name` and `@user`.

They count only in texts with at least two codes of the convention.
"""

_LISP = (
    r"~[:@#\d]*+\{.{0,400}?~[:@]*+\}|~[:@#\d]*+\[.{0,400}?~\]"  # a list, or a choice, as a whole
    r"|~(?:[-+]?\d++|'.|[,:@#]){0,20}+[vV]?(?:[A-Za-z]|[%&~$*?()^|_<>])|~[vV]"
)
_GCC = r"%(?:\d++\$)?[-+#0q]*+(?:\d++|\*)?(?:\.(?:\d++|\*))?(?:ll?|w|h|z|t)?[A-Za-z]|%[<>'}]"


def _flagged(name: str, pattern: str, examples: tuple[str, ...], *flags: str) -> Convention:
    return Convention(name, pattern, _GETTEXT, examples, flags=frozenset(flags))


FLAGGED_CONVENTIONS = (
    _flagged("Lisp and Scheme", _LISP, ("~A", "~{~A~}", "~[no~;one~]"), "lisp-format", "scheme-format"),
    _flagged("GCC", _GCC, ("%wd", "%qs", "%<"), "gcc-internal-format", "gfc-internal-format"),
    _flagged("Java printf", r"%(?:\d++\$|<)?[-+#0 ,(]*+\d*+(?:\.\d++)?(?:[tT][A-Za-z]|[A-Za-z%])",
             ("%tY", "%,d"), "java-printf-format"),
    _flagged("Perl", r"%(?:\d++\$)?[-+#0 ]*+(?:\*(?:\d++\$)?)?v\d*+(?:\.\d++)?[diouxXb]", ("%vd",), "perl-format"),
    _flagged("Go", r"%[-+#0 ]*+(?:\d++(?:\.\d++)?)?\[\d++\][A-Za-z]", ("%[1]d",), "go-format"),
    _flagged("Qt, KDE and Smalltalk", r"%L?(?:\d{1,2}(?!\d)|n)", ("%1", "%n"), "qt-format", "qt-plural-format",
             "kde-format", "kde-kuit-format", "smalltalk-format", "ycp-format"),
)  # fmt: skip
NUMBERED_FLAGS = FLAGGED_CONVENTIONS[-1].flags
"""Flags of messages in which `%1` stands for the first argument."""
BRACE_FLAGS = frozenset(
    ("python-brace-format", "perl-brace-format", "csharp-format", "java-format", "rust-format", "c++-format",
     "sh-format")
)  # fmt: skip
"""Gettext flags of messages whose arguments are written `{name}` or `$name`, so that `%` is ordinary text."""
DIRECTIVE = _PRINTF.format(flags=" ", end="") + r"|%(?:\d++[$:])?[-+#0 ]*+\d*+(?:\.\d++)?[A-Za-z]"
"""A directive of any language, for texts in which a flag says that `%` begins one: `%q` of Lua, `%0:s` of Pascal."""
CHARACTER_REFERENCE = r"&(?:#\d{1,7}|#[xX][0-9A-Fa-f]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});"
"""A character reference, such as `&nbsp;`, in the text of a message that becomes a part of a page."""
