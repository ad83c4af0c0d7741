// Reads a line in the case of the training text and with its full stop, and gives its translation the writing of the
// line: normalization/case.py and full_stop.py in JavaScript. The other steps of `nmt translate` are not here.

import { FIRST_LETTER, STOP, TOKEN, Letters } from "./letters.mjs";
import { endsSentence, isAlphanumeric, withoutEndingBlanks, wordsIn } from "./letters.mjs";
import { WordCase } from "./word_case.mjs";

const MIN_SENTENCE = 3; // words from which a line is a sentence that lacks its full stop
const MAX_SENTENCE = 2_000; // characters of such a line
// What is found in words that are no text: placeholders, tags, addresses (normalization/codes.py).
const CODE = "[_@{}<>%\\\\]|://|(?<![\\p{L}\\p{N}_])www\\.";

export class Normalizer {
  /** Takes the profile of the training text that description.py has packed, and the bytes of its words. */
  constructor(profile, words) {
    const [forms, otherForms] = words.split("\n").map((line) => line.split(" ").filter(Boolean));
    this.profile = { ...profile, forms, otherForms: profile.knowsOtherForms ? otherForms : null };
    this.words = new WordCase(this.profile, new Letters(profile.source));
    this.target = new Letters(profile.target);
    const symbols = profile.symbols.map((one) => one.replace(/[\\^$.*+?()[\]{}|/-]/gu, "\\$&"));
    this.code = new RegExp([CODE, ...symbols].join("|"), "u");
  }

  /** Returns a line as the model is to read it, and what `undo` needs to know. */
  read(line) {
    const [text, capitals] = this.#inUsualCase(line), end = withoutEndingBlanks(text).length;
    const lacksStop = this.#lacksStop(text.slice(0, end));
    return { text: lacksStop ? `${text.slice(0, end)}.${text.slice(end)}` : text, capitals, lacksStop };
  }

  /** Returns a translation of what `read` has returned as one of the line. */
  undo({ capitals, lacksStop }, translation) {
    const text = lacksStop ? translation.replace(STOP, "") : translation;
    if (capitals === "all") return text.replace(TOKEN, (word) => this.code.test(word) ? word : this.target.upper(word));
    if (capitals === "first") {
      return text.replace(FIRST_LETTER, (_, before, letter) => before + this.target.upper(letter));
    }
    return text;
  }

  /** Returns the words that are text, which tell the case and the length of a line. */
  #plain(text) {
    if (!this.code.test(text)) return text;
    return (text.match(TOKEN) ?? []).filter((word) => !this.code.test(word)).join(" ");
  }

  #inUsualCase(line) {
    const plain = this.#plain(line), words = this.words, everyWord = words.tellsNothing(plain);
    const capitals = words.isInCapitals(plain) ? "all" : words.isCapitalisedWord(line) ? "first" : "";
    if (!everyWord && !words.isOdd(plain)) return [line, capitals];
    const hasBeginnings = this.profile.beginsWithCapital && !words.isWord(plain);
    let begins = hasBeginnings;
    const text = line.replace(TOKEN, (word) => {
      if (this.code.test(word)) return word;
      const cased = words.usual(word, begins, everyWord);
      if (isAlphanumeric(cased)) begins = hasBeginnings && endsSentence(cased);
      return cased;
    });
    return [text, capitals];
  }

  #lacksStop(text) {
    if (!this.profile.endsWithStop || !/\p{L}$/u.test(text) || [...text].length > MAX_SENTENCE) return false;
    const last = text.match(TOKEN).at(-1);
    return !this.code.test(last) && wordsIn(this.#plain(text)).length >= MIN_SENTENCE;
  }
}
