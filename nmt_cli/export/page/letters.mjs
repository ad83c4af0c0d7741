// Words and their letters, as a language writes them: text/letters.py in JavaScript.
//
// Signs of character classes are Python's: \w is a letter, a number or "_" of any script, and \s has other blanks here.

const BLANK = "\\t-\\r\\x1c-\\x20\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000";
const IN_WORD = "\\p{L}\\p{N}_"; // \w
export const LETTER = "\\p{L}\\p{Nl}\\p{No}"; // [^\W\d_]
// An accent or a vowel sign, which stands behind its letter; and the same, or a sign that joins letters.
export const MARK = "(?![\\u{E0100}-\\u{E01EF}])\\p{M}";
const JOINING = "(?![\\u{E0100}-\\u{E01EF}])[\\p{M}\\u200c\\u200d]";
const LETTERS = `[${LETTER}]+(?:(?:${JOINING})+[${LETTER}]*)*`;

/** A word up to white space, as `nmt` and the page cut text. */
export const TOKEN = new RegExp(`[^${BLANK}]+`, "gu");
/** Letters that are a word, with apostrophes inside. The look ahead takes as much as it can and gives nothing back. */
export const WORD = new RegExp(
  `(?<![${IN_WORD}]|${JOINING})(?=(${LETTERS}(?:['’]${LETTERS})*))\\1(?![${IN_WORD}])`, "gu");
export const FIRST_LETTER = new RegExp(`^([^${IN_WORD}]*)([${LETTER}])`, "u");
export const STOP = new RegExp(`(?<=[${IN_WORD}])[.。।]$`, "u");
const IS_BLANK = new RegExp(`[${BLANK}]`, "u"), BEGINNING_BLANKS = new RegExp(`^[${BLANK}]+`, "u");
const CAPITAL = /\p{Uppercase}/u, SMALL = /\p{Lowercase}/u, TITLE = /\p{Lt}/u, ALPHANUMERIC = /[\p{L}\p{N}]/u;
const TONOS = { Ά: "Α", Έ: "Ε", Ή: "Η", Ί: "Ι", Ό: "Ο", Ύ: "Υ", Ώ: "Ω" };

/** Returns a text without the blanks at its end, which a pattern would look for at each blank within. */
export function withoutEndingBlanks(text) {
  let end = text.length;
  while (end && IS_BLANK.test(text[end - 1])) end -= 1;
  return text.slice(0, end);
}
export const withoutBlanks = (text) => withoutEndingBlanks(text).replace(BEGINNING_BLANKS, "");
export const wordsIn = (text) => text.match(WORD) ?? [];
export const first = (text) => String.fromCodePoint(text.codePointAt(0));
/** Tells whether a text has more than one character, which may take two places of a string. */
export const isLong = (text) => text.length > first(text).length;
/** Tells whether a text has capitals and no small letters (isupper of Python); ß counts as a capital. */
export function isCapital(text) {
  const letters = text.replaceAll("ß", "");
  return CAPITAL.test(letters) && !SMALL.test(letters) && !TITLE.test(letters);
}
export const isInSmallLetters = (text) => SMALL.test(text) && !CAPITAL.test(text) && !TITLE.test(text);
export const hasCapital = (text) => CAPITAL.test(text);
export const hasSmallLetter = (text) => SMALL.test(text);
export const isAlphanumeric = (text) => ALPHANUMERIC.test(text);

/** Tells whether the signs at the end of a word end a sentence, perhaps within brackets or quotes. */
export function endsSentence(word) {
  for (const one of [...word].reverse()) {
    if (".!?…".includes(one)) return true;
    if (ALPHANUMERIC.test(one) || one === "_") return false;
  }
  return false;
}

/** The letters of a language. */
export class Letters {
  /** Takes whether the language is Turkish or the like, and whether it is Greek. */
  constructor({ turkic, greek }) {
    Object.assign(this, { turkic, greek });
  }

  /** Returns the text in small letters: Turkish has I without a dot. */
  lower(text) {
    return (this.turkic ? text.replaceAll("İ", "i").replaceAll("I", "ı") : text).toLowerCase();
  }

  /** Returns the text in capitals: Turkish i keeps its dot, Greek capitals have no accent, Georgian has no capitals. */
  upper(text) {
    const dotted = this.turkic ? text.replaceAll("i", "İ") : text;
    const capitals = dotted.replace(/[^\u10d0-\u10ff]+/gu, (part) => part.toUpperCase());
    return this.greek ? capitals.replace(/[ΆΈΉΊΌΎΏ]/gu, (one) => TONOS[one]) : capitals;
  }
}
