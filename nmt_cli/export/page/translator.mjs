// Text in, its translation out: sentences, pieces, search, and attention between words.

import { LATER_BYTE, SentencePiece, wordsOf } from "./sentencepiece.mjs";
import { Memory } from "./memory.mjs";
import { Model } from "./model.mjs";
import { Normalizer } from "./normalization.mjs";
import { lengthWithoutRepetition } from "./repetition.mjs";
import { beam, greedy } from "./search.mjs";

const FORMAT = 2; // of descriptions (description.py)
// Words as `nmt` and the page cut them; \S differs.
const WORD = /[^\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+/gu;
const WIDTH = 4; // of the beam that finds other translations
const REMEMBERED = 1_000; // sentences whose translations are kept while somebody types

// What ends with a dot and no sentence: initials, titles and some other words of European languages.
const ABBREVIATED = new RegExp(
  "(?:^|[\\s(«„“\"'])(?:\\p{Lu}|Mrs?|Ms|Dr|Prof|St|Sr|Jr|Mme|Mlle|Sra|Srta|Dra|Hr|Frl|Nr|" +
  "Jan|Feb|Aug|Sept|Oct|Okt|Nov|Dec|Dez|Fig|Vol|vs|ca|bzw)\\.$", "u");
const ABBREVIATION = 8; // characters of the longest, with its dot and what stands before it
const BLOCK = 4_096; // characters that are cut into sentences at once, or as many as the longest sentence has
const TAIL = 64; // characters at the end of a sentence that are looked at

/** Returns the sentences that a segmenter finds. It gets blocks of a text, as each segment holds a copy of its input. */
function segmented(text, segmenter) {
  const sentences = [];
  for (let begin = 0, size = BLOCK; begin < text.length;) {
    const own = Array.from(segmenter.segment(text.slice(begin, begin + size)), ({ segment }) => segment);
    if (begin + size < text.length) own.pop(); // it may go on
    for (const sentence of own) begin += sentence.length;
    sentences.push(...own);
    size = own.length ? BLOCK : 2 * size;
  }
  return sentences;
}

/** Returns the function that cuts a text into sentences, which are the text when they are joined. */
export function splitterOf(language) {
  let cut = (text) => text.split(/(?<=[.!?…]["'»”]?\s+)(?=\S)/u);
  try {
    const segmenter = new Intl.Segmenter(language.replaceAll("_", "-"), { granularity: "sentence" });
    cut = (text) => segmented(text, segmenter);
  } catch { /* an older browser, or a name that is no language's */ }
  return (text) => {
    const sentences = [];
    let tail = "";
    for (const part of cut(text)) {
      if (ABBREVIATED.test(tail.trimEnd().slice(-ABBREVIATION))) sentences.at(-1).push(part);
      else {
        sentences.push([part]);
        tail = "";
      }
      tail = (tail + part).slice(-TAIL);
    }
    return sentences.map((parts) => parts.join(""));
  };
}

/** One model with its tokenizers. */
export class Translator {
  /** Takes what description.py has packed. */
  static async open(packed, wasm) {
    const size = new DataView(packed.buffer, packed.byteOffset).getUint32(0, true);
    const description = JSON.parse(new TextDecoder().decode(packed.subarray(4, 4 + size)));
    if (description.format !== FORMAT) throw new Error("this page cannot read its model");
    const translator = new Translator();
    Object.assign(translator, { description, settings: description.search, remembered: new Map() });
    const numbers = packed.subarray(4 + size), memory = await Memory.open(wasm);
    const base = memory.reserve(numbers.length);
    memory.bytes.set(numbers, base);
    translator.model = new Model(memory, description.model, base);
    const { source, target } = description.tokenizers;
    const open = ({ at, size: length }) => new SentencePiece(numbers.slice(at, at + length));
    translator.source = open(source);
    translator.target = source.at === target.at ? translator.source : open(target);
    translator.split = splitterOf(description.source);
    const words = ({ at, size: length }) => new TextDecoder().decode(numbers.subarray(at, at + length));
    translator.normalizers = description.directions.map(({ profile }) => profile && new Normalizer(profile, words(profile)));
    [translator.normalizer] = translator.normalizers;
    return translator;
  }

  /** Returns the translators of its directions, which share the model. */
  inEachDirection() {
    return this.description.directions.map((direction, at) => Object.assign(new Translator(), this, {
      normalizer: this.normalizers[at],
      description: { ...this.description, ...direction }, remembered: new Map(), split: splitterOf(direction.source),
    }));
  }

  /** Returns a text's paragraphs as lists of sentences: each its text, and what stands before and after it. */
  sentences(text) {
    return text.split("\n").map((paragraph) => this.split(paragraph).map((part) => {
      const begun = part.trimStart(), sentence = begun.trimEnd();
      const before = part.slice(0, part.length - begun.length), after = begun.slice(sentence.length);
      return { before, sentence, after, hasText: /\p{L}/u.test(sentence) };
    }));
  }

  /** Returns the translation of a sentence, its attention between words, and where `wide` others, best first. */
  translate(sentence, wide) {
    const known = this.remembered.get(sentence);
    if (known && (!wide || known.others)) return known;
    const read = this.normalizer?.read(sentence) ?? { text: sentence }; // with as many words
    const undone = (text) => this.normalizer?.undo(read, text) ?? text;
    const parts = this.#parts(read.text).map((part) => {
      const { pieces, weights } = greedy(this.model, this.settings, part.ids);
      return { ...part, pieces: this.#withoutRepetition(part, pieces), weights };
    });
    const { text, weights } = this.#joined(read.text, parts);
    const found = { text: undone(text), weights, others: wide ? this.#others(parts).map(undone) : null };
    if (this.remembered.size >= REMEMBERED) this.remembered.clear();
    this.remembered.set(sentence, found);
    return found;
  }

  /** Returns the parts of a sentence: a long one is cut at the beginning of a word in the last half of what fits. */
  #parts(sentence) {
    const { ids, begins } = this.source.encode(sentence), { tags } = this.description;
    const limit = Math.max(1, this.settings.maxSourcePieces - tags.length);
    const words = wordsOf(sentence, begins, WORD).numbers, parts = [], noWords = tags.map(() => Infinity);
    const add = (from, to) => parts.push({ ids: [...tags, ...ids.slice(from, to)],
      words: [...noWords, ...words.slice(from, to)] });
    let start = 0;
    while (ids.length - start > limit) {
      const half = start + Math.floor(limit / 2) + 1;
      let cut = start + limit;
      while (cut >= half && !this.source.pieces[ids[cut]].startsWith("\u2581")) cut--;
      if (cut < half) {
        cut = start + limit;
        while (cut > half && LATER_BYTE.test(this.source.pieces[ids[cut]])) cut--;
      }
      add(start, cut);
      start = cut;
    }
    if (start < ids.length) add(start);
    return parts;
  }

  #withoutRepetition({ ids }, pieces) {
    const decode = (all) => this.target.decode(all);
    return pieces.slice(0, lengthWithoutRepetition(pieces, decode, () => this.source.decode(ids).text));
  }

  #text(pieces) {
    return this.target.decode(pieces).text.replaceAll("\n", " ");
  }

  /** Returns the text of all parts, and a row of weights for each of its words, with a number for each source word. */
  #joined(sentence, parts) {
    const numSource = [...sentence.matchAll(WORD)].length, weights = [], texts = [];
    for (const { words, pieces, weights: ofPieces } of parts) {
      const { text, begins } = this.target.decode(pieces);
      const { numbers, count } = wordsOf(text, begins, WORD);
      const sums = Array.from({ length: count }, () => new Float64Array(numSource)), times = new Array(count).fill(0);
      numbers.forEach((word, at) => {
        if (word >= count) return;
        times[word]++;
        words.forEach((source, column) => { if (source < numSource) sums[word][source] += ofPieces[at][column]; });
      });
      weights.push(...sums.map((row, word) => Array.from(row, (sum) => sum / Math.max(times[word], 1))));
      texts.push(text.replaceAll("\n", " "));
    }
    return { text: texts.join(" "), weights: this.model.hasAttention ? weights : null };
  }

  #others(parts) {
    const found = parts.map((part) => beam(this.model, this.settings, part.ids, WIDTH).map((one) =>
      this.#text(this.#withoutRepetition(part, one))));
    const most = Math.max(0, ...found.map((texts) => texts.length));
    return Array.from({ length: most }, (_, rank) => found.map((texts) => texts[rank] ?? texts.at(-1)).join(" "));
  }
}
