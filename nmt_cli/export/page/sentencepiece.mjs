// SentencePiece in JavaScript: text to pieces and back, from a .model file, without any other library.
//
// It follows Kudo & Richardson (2018), "SentencePiece", and computes what their program computes: the normalisation of
// the model's compiled rules, unigram segmentation (Kudo, 2018) in float32, byte-pair merges (Sennrich et al., 2016),
// characters, words, user-defined symbols and byte fallback. Offsets are UTF-16 positions, as in all JavaScript strings.

const NORMAL = 1, UNKNOWN = 2, CONTROL = 3, USER_DEFINED = 4, BYTE = 6; // types of pieces
const UNIGRAM = 1, BPE = 2, WORD = 3, CHAR = 4; // types of models
const SPACE = "\u2581";
const UNKNOWN_PENALTY = 10;
// A piece that is a byte of a character, and not its first.
export const LATER_BYTE = /^<0x[89AB][0-9A-F]>$/;
const SMALLEST_FLOAT = 1.1754943508222875e-38; // where the search for the largest score begins

const utf8 = new TextEncoder();

/** Yields [field number, value] of a protocol buffer: bytes for strings and messages, numbers for the rest. */
function* fields(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let at = 0;
  const varint = () => {
    let value = 0, scale = 1, byte;
    do {
      if (at >= bytes.length) throw new Error("the SentencePiece model is damaged");
      byte = bytes[at++];
      value += (byte & 127) * scale;
      scale *= 128;
    } while (byte & 128);
    return value;
  };
  while (at < bytes.length) {
    const key = varint();
    const field = Math.floor(key / 8), kind = key % 8;
    if (kind === 0) yield [field, varint()];
    else if (kind === 1) at += 8;
    else if (kind === 5) { yield [field, view.getFloat32(at, true)]; at += 4; }
    else if (kind === 2) {
      const size = varint();
      if (at + size > bytes.length) throw new Error("the SentencePiece model is damaged");
      yield [field, bytes.subarray(at, at += size)];
    } else throw new Error("the SentencePiece model is damaged");
  }
}

/** Rules of normalisation: a double-array trie (Darts) of what to replace, and the replacements after it. */
class Charsmap {
  constructor(bytes) {
    const size = new DataView(bytes.buffer, bytes.byteOffset).getUint32(0, true);
    this.units = new Uint32Array(Uint8Array.from(bytes.subarray(4, 4 + size)).buffer); // a copy, which is aligned
    this.texts = bytes.subarray(4 + size);
    this.known = new Map();
  }

  /** Returns the longest rule at a position as [its bytes, its replacement], or null. */
  match(bytes, from) {
    const offset = (unit) => (unit >>> 10) << ((unit & 512) >>> 6);
    let node = offset(this.units[0]), length = 0, place = 0;
    for (let at = from; at < bytes.length; at++) {
      node ^= bytes[at];
      const unit = this.units[node];
      if (unit === undefined || ((unit & 0x800000ff) >>> 0) !== bytes[at]) break;
      node ^= offset(unit);
      if ((unit >>> 8) & 1) {
        length = at + 1 - from;
        place = this.units[node] & 0x7fffffff;
      }
    }
    return length ? [length, this.replacement(place)] : null;
  }

  replacement(place) {
    let text = this.known.get(place);
    if (text === undefined) {
      const end = this.texts.indexOf(0, place);
      text = new TextDecoder("utf-8", { ignoreBOM: true }).decode(this.texts.subarray(place, end < 0 ? undefined : end));
      this.known.set(place, text);
    }
    return text;
  }
}

/** Returns the length of the character that begins at a position of a string. */
function charLength(text, at) {
  const code = text.charCodeAt(at);
  return code >= 0xd800 && code < 0xdc00 && at + 1 < text.length ? 2 : 1;
}

/** Returns the bytes of the valid UTF-8 character that begins at a position, 0 if there is none. */
function utf8Length(bytes, at) {
  const first = bytes[at];
  if (first < 0x80) return 1;
  const length = first >= 0xf0 && first < 0xf8 ? 4 : first >= 0xe0 && first < 0xf0 ? 3 : first >= 0xc0 && first < 0xe0 ? 2 : 0;
  if (!length || at + length > bytes.length) return 0;
  let code = first & (0xff >> (length + 1));
  for (let next = at + 1; next < at + length; next++) {
    if ((bytes[next] & 0xc0) !== 0x80) return 0;
    code = (code << 6) | (bytes[next] & 0x3f);
  }
  const overlong = code < [0, 0, 0x80, 0x800, 0x10000][length];
  return overlong || (code >= 0xd800 && code < 0xe000) || code > 0x10ffff ? 0 : length;
}

/** Returns the number of the word (a match of `pattern`) at each position, or of the next word, and their count. */
export function wordsOf(text, begins, pattern) {
  const ends = [...text.matchAll(pattern)].map((match) => match.index + match[0].length);
  let word = 0;
  const numbers = begins.map((begin) => {
    if (begin < (ends[word - 1] ?? 0)) word = 0;
    while (word < ends.length - 1 && begin >= ends[word]) word++;
    return word;
  });
  return { numbers, count: ends.length };
}

export class SentencePiece {
  /** Takes the bytes of a .model file. */
  constructor(model) {
    this.pieces = [];
    this.scores = [];
    this.types = [];
    this.modelType = UNIGRAM;
    this.byteFallback = false;
    this.unknownSurface = " \u2047 ";
    this.addPrefix = this.removeSpaces = this.escapeSpaces = true;
    this.charsmap = null;
    const text = new TextDecoder("utf-8", { ignoreBOM: true });
    for (const [field, value] of fields(model)) {
      if (field === 1) this.#readPiece(value, text);
      else if (field === 2) this.#readTraining(value, text);
      else if (field === 3) this.#readNormalisation(value);
    }
    this.ids = new Map(); // pieces that a segmentation is made of
    this.reserved = new Map();
    this.bytes = new Map();
    this.symbols = [];
    this.minScore = Infinity;
    this.maxScore = SMALLEST_FLOAT;
    this.longest = 1;
    this.pieces.forEach((piece, id) => {
      const type = this.types[id];
      if (type === UNKNOWN) this.unknown = id;
      if (type === BYTE) this.bytes.set(id, parseInt(piece.slice(3, 5), 16));
      if (type === NORMAL) {
        this.minScore = Math.min(this.minScore, this.scores[id]);
        this.maxScore = Math.max(this.maxScore, this.scores[id]);
      }
      if (type === USER_DEFINED) this.symbols.push(piece);
      if (type === NORMAL || type === USER_DEFINED) {
        this.ids.set(piece, id);
        this.longest = Math.max(this.longest, piece.length);
      } else this.reserved.set(piece, id);
    });
    this.byteIds = new Map([...this.bytes].map(([id, byte]) => [byte, id]));
    this.symbols.sort((one, other) => other.length - one.length);
  }

  #readPiece(bytes, text) {
    let piece = "", score = 0, type = NORMAL;
    for (const [field, value] of fields(bytes)) {
      if (field === 1) piece = text.decode(value);
      else if (field === 2) score = value;
      else if (field === 3) type = value;
    }
    this.pieces.push(piece);
    this.scores.push(score);
    this.types.push(type);
  }

  #readTraining(bytes, text) {
    for (const [field, value] of fields(bytes)) {
      if (field === 3) this.modelType = value;
      else if (field === 35) this.byteFallback = value !== 0;
      else if (field === 44) this.unknownSurface = text.decode(value);
    }
  }

  #readNormalisation(bytes) {
    for (const [field, value] of fields(bytes)) {
      if (field === 2 && value.length) this.charsmap = new Charsmap(value);
      else if (field === 3) this.addPrefix = value !== 0;
      else if (field === 4) this.removeSpaces = value !== 0;
      else if (field === 5) this.escapeSpaces = value !== 0;
    }
  }

  /** Returns the longest user-defined symbol at a position, "" if there is none. */
  #symbolAt(text, at) {
    for (const symbol of this.symbols) if (text.startsWith(symbol, at)) return symbol;
    return "";
  }

  /** Returns the normalised text, and for each position in it (and its end) the position in the text it comes from. */
  normalize(text) {
    const bytes = this.charsmap ? utf8.encode(text) : null;
    let at = 0, byteAt = 0;
    // One rule, symbol or character: [what stands for it, its length].
    const next = () => {
      const symbol = this.#symbolAt(text, at);
      const rule = symbol || !bytes ? null : this.charsmap.match(bytes, byteAt);
      if (rule === null) {
        const found = symbol || text.slice(at, at + charLength(text, at));
        return [found, found.length, bytes ? utf8.encode(found).length : 0];
      }
      let length = 0;
      for (let byte = byteAt; byte < byteAt + rule[0]; byte++) {
        if ((bytes[byte] & 0xc0) !== 0x80) length += bytes[byte] >= 0xf0 ? 2 : 1;
      }
      return [rule[1], length, rule[0]];
    };
    const space = this.escapeSpaces ? SPACE : " ";
    const found = [], origins = [];
    const put = (one) => { found.push(one); for (let unit = 0; unit < one.length; unit++) origins.push(at); };
    if (this.removeSpaces) {
      while (at < text.length) {
        const [replaced, length, size] = next();
        if (replaced !== " ") break;
        at += length;
        byteAt += size;
      }
    }
    if (at >= text.length) return { text: "", origins: [0] };
    if (this.addPrefix) put(space);
    let afterSpace = this.removeSpaces;
    while (at < text.length) {
      let [replaced, length, size] = next();
      while (afterSpace && replaced.startsWith(" ")) replaced = replaced.slice(1);
      if (replaced) {
        put(this.escapeSpaces ? replaced.replaceAll(" ", SPACE) : replaced);
        afterSpace = this.removeSpaces && replaced.endsWith(" ");
      }
      at += length;
      byteAt += size;
    }
    let normalized = found.join(""), end = text.length;
    while (this.removeSpaces && normalized.endsWith(space)) {
      normalized = normalized.slice(0, -space.length);
      end = origins[normalized.length];
      origins.length = normalized.length;
    }
    return { text: normalized, origins: [...origins, end] };
  }

  /** Returns the ids of a text's pieces, and the position in the text where each begins. */
  encode(text) {
    const normalized = this.normalize(text);
    const ids = [], begins = [];
    let at = 0, afterUnknown = false;
    for (const piece of this.#segment(normalized.text)) {
      const id = this.#id(piece), begin = normalized.origins[at];
      at += piece.length;
      if (id === this.unknown && this.byteFallback) {
        for (const byte of utf8.encode(piece)) { ids.push(this.byteIds.get(byte)); begins.push(begin); }
      } else if (!(id === this.unknown && afterUnknown)) { // unknown pieces in a row are one
        ids.push(id);
        begins.push(begin);
      }
      afterUnknown = id === this.unknown;
    }
    return { ids, begins };
  }

  #id(piece) {
    return this.reserved.get(piece) ?? this.ids.get(piece) ?? this.unknown;
  }

  #segment(text) {
    switch (this.modelType) {
      case UNIGRAM: return this.#unigram(text);
      case BPE: return this.#merge(text);
      case CHAR: return this.#characters(text).map((one) => one.text);
      case WORD: return text.split(new RegExp(`(?=${SPACE})`)).filter((word) => word);
      default: throw new Error("this kind of SentencePiece model is not known");
    }
  }

  /** The best path (Viterbi). Sums are rounded to float32 as SentencePiece rounds them, because ties depend on it. */
  #unigram(text) {
    const size = text.length;
    const best = new Float32Array(size + 1), starts = new Int32Array(size + 1).fill(-1);
    const unknownScore = Math.fround(this.minScore - UNKNOWN_PENALTY);
    for (let start = 0; start < size;) {
      const single = charLength(text, start);
      let hasSingle = false;
      const offer = (end, total) => {
        if (starts[end] === -1 || total > best[end]) { best[end] = total; starts[end] = start; }
      };
      for (let length = 1; length <= Math.min(this.longest, size - start); length++) {
        const id = this.ids.get(text.slice(start, start + length));
        if (id === undefined) continue;
        const bytes = this.types[id] === USER_DEFINED ? utf8.encode(this.pieces[id]).length : 0;
        const score = bytes ? Math.fround(bytes * this.maxScore) - 0.1 : this.scores[id];
        offer(start + length, bytes ? score + best[start] : Math.fround(score + best[start]));
        hasSingle ||= length === single;
      }
      if (!hasSingle) offer(start + single, Math.fround(unknownScore + best[start]));
      start += single;
    }
    const pieces = [];
    for (let end = size; end > 0; end = starts[end]) pieces.push(text.slice(starts[end], end));
    return pieces.reverse();
  }

  /** Characters and user-defined symbols. */
  #characters(text) {
    const found = [];
    for (let at = 0; at < text.length;) {
      const symbol = this.#symbolAt(text, at);
      const one = symbol || text.slice(at, at + charLength(text, at));
      found.push({ text: one, frozen: symbol !== "" });
      at += one.length;
    }
    return found;
  }

  /** Byte-pair merges: the best pair first, of equal ones the leftmost. */
  #merge(text) {
    const symbols = this.#characters(text).map((one, place, all) => ({
      ...one, before: place - 1, after: place + 1 < all.length ? place + 1 : -1,
    }));
    const heap = new Heap((one, other) => one.score > other.score || (one.score === other.score && one.left < other.left));
    const offer = (left, right) => {
      if (left < 0 || right < 0 || symbols[left].frozen || symbols[right].frozen) return;
      const merged = symbols[left].text + symbols[right].text;
      const id = this.ids.get(merged);
      if (id !== undefined) heap.push({ left, right, score: this.scores[id], size: merged.length });
    };
    for (let place = 1; place < symbols.length; place++) offer(place - 1, place);
    for (let pair = heap.pop(); pair; pair = heap.pop()) {
      const left = symbols[pair.left], right = symbols[pair.right];
      if (!left.text || !right.text || left.text.length + right.text.length !== pair.size) continue;
      left.text += right.text;
      right.text = "";
      left.after = right.after;
      if (right.after >= 0) symbols[right.after].before = pair.left;
      offer(left.before, pair.left);
      offer(pair.left, left.after);
    }
    return symbols.filter((one) => one.text).map((one) => one.text);
  }

  /** Returns the text that pieces spell, and the position in it where each piece begins. */
  decode(ids) {
    let text = "", atBegin = true, sawSpace = false;
    const begins = [];
    let spelt = [];
    const spell = () => {
      const bytes = Uint8Array.from(spelt);
      for (let at = 0; at < bytes.length;) {
        const length = utf8Length(bytes, at);
        for (let byte = 0; byte < Math.max(length, 1); byte++) begins.push(text.length);
        text += length ? new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes.subarray(at, at + length)) : "\ufffd";
        at += Math.max(length, 1);
      }
      spelt = [];
    };
    for (const id of ids) {
      if (this.types[id] === BYTE) { spelt.push(this.bytes.get(id)); continue; }
      spell();
      if (sawSpace || text) atBegin = false;
      begins.push(text.length);
      sawSpace = false;
      if (this.types[id] === CONTROL) continue;
      if (id === this.unknown) { text += this.unknownSurface; continue; }
      let piece = this.pieces[id];
      if (atBegin && (this.addPrefix || this.removeSpaces) && piece.startsWith(SPACE)) {
        piece = piece.slice(1);
        sawSpace = !this.removeSpaces;
      }
      text += piece.replaceAll(SPACE, " ");
    }
    spell();
    return { text, begins };
  }
}

/** A binary heap whose first element comes `before` all others. */
class Heap {
  constructor(before) {
    this.before = before;
    this.items = [];
  }

  push(item) {
    const items = this.items;
    let at = items.push(item) - 1;
    while (at > 0) {
      const parent = (at - 1) >> 1;
      if (!this.before(item, items[parent])) break;
      items[at] = items[parent];
      at = parent;
    }
    items[at] = item;
  }

  pop() {
    const items = this.items, first = items[0], last = items.pop();
    if (items.length) {
      let at = 0;
      for (;;) {
        let child = 2 * at + 1;
        if (child >= items.length) break;
        if (child + 1 < items.length && this.before(items[child + 1], items[child])) child++;
        if (!this.before(items[child], last)) break;
        items[at] = items[child];
        at = child;
      }
      items[at] = last;
    }
    return first;
  }
}
