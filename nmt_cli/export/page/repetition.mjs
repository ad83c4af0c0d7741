// Cuts what a model repeats without end from its translations: translation/repetition.py in JavaScript.

import { LETTER, MARK, TOKEN } from "./letters.mjs";

const MAX_COPIES = 4; // in a row that a translation may have
const MAX_UNIT = 4; // words of the longest sequence whose copies count, or its characters in scripts without blanks
const MAX_GROWTH = 3; // characters of a translation up to the end of its copies, per byte of a source with copies
const WITHOUT_SPACES = "\\u0e00-\\u0eff\\u1000-\\u109f\\u1780-\\u17ff\\u2e80-\\u31ff\\u3400-\\u4dbf\\u4e00-\\u9fff" +
  "\\uf900-\\ufaff\\u{20000}-\\u{3ffff}";
const PART = new RegExp(`[${WITHOUT_SPACES}](?:${MARK})*|[^${WITHOUT_SPACES}]+`, "gu");
const WORDS = new RegExp(`[${LETTER}]+`, "gu");
const REPEATED = new RegExp(`(\\P{Nd}{1,${MAX_UNIT}}?)\\1{${MAX_COPIES},}`, "gu");

/** Returns the ends of the copies, for each place where a text has more than four copies of words in a row. */
export function findRuns(text) {
  const found = [...text.matchAll(TOKEN)].flatMap((token) => [...token[0].matchAll(PART)].map((part) =>
    ({ word: part[0], end: token.index + part.index + part[0].length })));
  const runs = [];
  for (let size = 1; size <= MAX_UNIT; size++) {
    for (let place = size, same = 0; place <= found.length; place++) {
      if (place < found.length && found[place].word === found[place - size].word) {
        same++;
        continue;
      }
      const begin = place - same - size, copies = found.slice(begin, place).filter((_, at) => (at + 1) % size === 0);
      if (same >= MAX_COPIES * size) runs.push({ begin, ends: copies.map((copy) => copy.end) });
      same = 0;
    }
  }
  return runs.sort((one, other) => one.begin - other.begin).map((run) => run.ends); // a stable sort: short words first
}

/** Returns the copies in a row of words, syllables or marks in a source: 1, or more than four. */
export function countCopies(source) {
  const words = source.toUpperCase().toLowerCase().match(WORDS) ?? [];
  const texts = [(source.toLowerCase().match(TOKEN) ?? []).join(""), words.join("")];
  const matches = texts.flatMap((text) => [...text.matchAll(REPEATED)]);
  return [...matches.map((found) => found[0].length / found[1].length), ...findRuns(words.join(" ")).map((run) =>
    run.length)].reduce((most, copies) => Math.max(most, copies), 1);
}

/** Returns how many pieces of a translation are left; `decode` and `sourceText` return their texts. */
export function lengthWithoutRepetition(pieces, decode, sourceText) {
  if (pieces.length - new Set(pieces).size < MAX_COPIES) return pieces.length;
  const { text, begins } = decode(pieces), runs = findRuns(text);
  if (!runs.length) return pieces.length;
  const source = sourceText(), most = countCopies(source), length = MAX_GROWTH * new TextEncoder().encode(source).length;
  const allowed = (ends) => Math.max(1, Math.min(most, ends.filter((end) => end <= length).length));
  const run = runs.find((ends) => ends.length - allowed(ends) >= MAX_COPIES);
  const place = run ? begins.findIndex((begin) => begin >= run[allowed(run) - 1]) : -1;
  return place < 0 ? pieces.length : place;
}
