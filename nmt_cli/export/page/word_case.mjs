// Gives words the case in which the training text has them: normalization/word_case.py in JavaScript.

import { FIRST_LETTER, WORD, wordsIn, first, isLong, withoutBlanks } from "./letters.mjs";
import { hasCapital, hasSmallLetter, isCapital, isInSmallLetters } from "./letters.mjs";

const MIN_SENTENCE = 3; // known words from which a line without capitals is a sentence that lacks them
const MIN_UNKNOWN = 3; // words in capitals that make a line one in capitals though the training text has none of them
const MIN_OF_TITLE = 3; // words behind the first that have a capital in a title, and none in sentences
const MIN_SMALL = 4; // letters from which a word in small letters shows that a line is no title

/** The case of the words of a training text. */
export class WordCase {
  /** Takes the profile of the text, and the letters of its language. */
  constructor(profile, letters) {
    const { forms, otherForms } = profile;
    Object.assign(this, { profile, letters, forms: new Map(), byCapitals: new Map() });
    this.otherForms = otherForms && new Set(otherForms);
    for (const form of forms) {
      const small = letters.lower(form), capitals = letters.upper(form);
      this.forms.set(small, form);
      if (letters.lower(capitals) !== small && !this.byCapitals.has(capitals)) this.byCapitals.set(capitals, form);
    }
  }

  /** Tells whether the case of a text says nothing about its words. */
  tellsNothing(text) {
    if (!this.profile.hasCase) return this.letters.lower(text) !== text;
    return this.isWord(text) || this.isInCapitals(text) || this.#isInSmallLetters(text) || this.#isTitle(text);
  }

  /** Tells whether a text is a single word that the training text has, for a model that knows single words. */
  isWord(text) {
    const word = withoutBlanks(text);
    if (!this.profile.knowsWords || !word || !isLong(word)) return false;
    return wordsIn(word)[0] === word && this.#form(word) !== undefined;
  }

  /** Tells whether a text is such a word with a capital that it has at the beginning of sentences only. */
  isCapitalisedWord(text) {
    if (!this.isWord(text)) return false;
    const word = withoutBlanks(text);
    return hasSmallLetter(first(this.#form(word))) && hasCapital(first(word));
  }

  /** Tells whether a text is written in capitals throughout, and is not made of acronyms alone. */
  isInCapitals(text) {
    if (!isCapital(text)) return false;
    const long = wordsIn(text).filter(isLong), forms = long.map((word) => this.#form(word));
    const known = forms.some((form, at) => form !== undefined && form !== long[at]);
    return known || forms.filter((form) => form === undefined).length >= MIN_UNKNOWN;
  }

  #isInSmallLetters(text) {
    if (hasCapital(text) || !hasSmallLetter(text)) return false;
    return wordsIn(text).filter((word) => this.forms.has(word)).length >= MIN_SENTENCE;
  }

  #isTitle(text) {
    const words = wordsIn(text).slice(1);
    if (words.some((word) => isInSmallLetters(word) && [...word].length >= MIN_SMALL)) return false;
    const raised = words.filter((word) => hasCapital(first(word)) && !isCapital(word));
    const small = raised.map((word) => this.#form(word)).filter((form) => form && hasSmallLetter(first(form)));
    return small.length >= MIN_OF_TITLE;
  }

  /** Tells whether a word of a text has a case in which the training text does not have it. */
  isOdd(text) {
    return wordsIn(text).some((word) => this.#isOddWord(word));
  }

  #isOddWord(word) {
    if (!this.profile.hasCase || !this.otherForms) return false;
    const form = this.#form(word);
    if (form === undefined || form === word || this.otherForms.has(word)) return false;
    return word === this.letters.lower(word) || (isLong(word) && isCapital(word));
  }

  /** Returns a text in its usual case; where it begins a sentence, with a capital. Only odd words change, or every word. */
  usual(text, begins, everyWord) {
    if (!this.profile.hasCase) return this.letters.lower(text);
    const read = text.replace(WORD, (word) => everyWord || this.#isOddWord(word) ? this.#usual(word) : word);
    return begins && (everyWord || read !== text) ? this.withCapital(read) : read;
  }

  /** Returns a text whose first letter is a capital. */
  withCapital(text) {
    return text.replace(FIRST_LETTER, (_, before, letter) => before + this.letters.upper(letter));
  }

  #usual(word) {
    const form = this.#form(word), parts = word.split(/(['’])/u);
    if (form === undefined && parts.length > 1) {
      return parts.map((part) => this.#form(part) ?? this.letters.lower(part)).join("");
    }
    return form ?? this.letters.lower(word);
  }

  /** Returns the form in which the training text has a word, or undefined. */
  #form(word) {
    return this.forms.get(this.letters.lower(word)) ?? this.byCapitals.get(word);
  }
}
