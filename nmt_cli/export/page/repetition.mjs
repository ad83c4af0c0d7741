// Cuts what a model repeats without end from its translations: translation/repetition.py in JavaScript.

import { LETTER, MARK, TOKEN } from "./letters.mjs";

const MAX_COPIES = 4; // in a row that a translation may have
const MAX_UNIT = 4; // words of the longest sequence whose copies count, or its characters in scripts without blanks
const WITHOUT_SPACES = "\\u0e00-\\u0eff\\u1000-\\u109f\\u1780-\\u17ff\\u2e80-\\u31ff\\u3400-\\u4dbf\\u4e00-\\u9fff" +
  "\\uf900-\\ufaff\\u{20000}-\\u{3ffff}";
const PART = new RegExp(`[${WITHOUT_SPACES}](?:${MARK})*|[^${WITHOUT_SPACES}]+`, "gu");
const WORDS = new RegExp(`[${LETTER}]+`, "gu");
const REPEATED = new RegExp(`(\\P{Nd}{1,${MAX_UNIT}}?)\\1{${MAX_COPIES}}`, "u");

/** Returns the end of the first copy of the words that a text repeats, or -1: more than four copies in a row. */
export function firstCopy(text) {
  const found = [...text.matchAll(TOKEN)].flatMap((token) => [...token[0].matchAll(PART)].map((part) =>
    ({ word: part[0], end: token.index + part.index + part[0].length })));
  let best = null;
  for (let size = 1; size <= MAX_UNIT; size++) {
    for (let place = size, same = 0; place < found.length; place++) {
      same = found[place].word === found[place - size].word ? same + 1 : 0;
      if (same < MAX_COPIES * size) continue;
      const begin = place - same - size + 1;
      if (!best || begin < best.begin) best = { begin, size };
      break;
    }
  }
  return best ? found[best.begin + best.size - 1].end : -1;
}

/** Tells whether a source repeats words, syllables or marks itself, so that its translation may do so too. */
export function repeatsItself(source) {
  const words = source.toUpperCase().toLowerCase().match(WORDS) ?? [];
  const texts = [(source.toLowerCase().match(TOKEN) ?? []).join(""), words.join("")];
  return firstCopy(words.join(" ")) >= 0 || texts.some((text) => REPEATED.test(text));
}

/** Returns how many pieces of a translation are left; `decode` and `sourceText` return their texts. */
export function lengthWithoutRepetition(pieces, decode, sourceText) {
  if (pieces.length - new Set(pieces).size < MAX_COPIES) return pieces.length;
  const { text, begins } = decode(pieces), end = firstCopy(text);
  if (end < 0 || repeatsItself(sourceText())) return pieces.length;
  const place = begins.findIndex((begin) => begin >= end);
  return place < 0 ? pieces.length : place;
}
