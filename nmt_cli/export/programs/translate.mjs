#!/usr/bin/env node
// Translates lines from standard input with the ONNX model beside this file; needs onnxruntime-node.
//
// The search is that of nmt: beam search with the length penalty of Wu et al. (2016, eq. 14), where a sentence is done
// when it has as many finished translations as the beam is wide, or when no unfinished one can still enter its n best.

import { readFileSync, writeSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import ort from "onnxruntime-node";
import { LATER_BYTE, SentencePiece, wordsOf } from "./sentencepiece.mjs";

const HERE = dirname(fileURLToPath(import.meta.url));
const BATCH_TOKENS = 2048; // rows of the beam times source positions that are searched together
// What Python and nmt call white space; it differs from \s.
const BLANK = "\\t-\\r\\x1c-\\x20\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000";
const WORD = new RegExp(`[^${BLANK}]+`, "gu");

/** The two graphs. */
class Model {
  static async open(threads) {
    const model = new Model();
    const options = { intraOpNumThreads: threads, logSeverityLevel: 3, executionProviders: ["cpu"] };
    [model.encoder, model.decoder] = await Promise.all(
      ["encoder.onnx", "decoder.onnx"].map((name) => ort.InferenceSession.create(join(HERE, name), options)),
    );
    model.states = model.decoder.outputNames.filter((name) => name.startsWith("next."));
    return model;
  }

  /** Returns the memory of the sources, and the state of a row for each. */
  async encode(sources, eos) {
    const lengths = Int32Array.from(sources, (ids) => ids.length + 1), width = Math.max(...lengths);
    const padded = new Int32Array(sources.length * width);
    sources.forEach((ids, row) => padded.set([...ids, eos], row * width));
    const found = await this.encoder.run({
      source: new ort.Tensor("int32", padded, [sources.length, width]),
      lengths: new ort.Tensor("int32", lengths, [sources.length]),
    });
    const named = Object.entries(found);
    return {
      memory: Object.fromEntries(named.filter(([name]) => name.startsWith("memory."))),
      state: Object.fromEntries(named.filter(([name]) => name.startsWith("state."))),
    };
  }

  /** Returns the best log-probabilities and pieces of each row, its weights, and the next states. */
  async step(inputs, withWeights) {
    const names = ["best_log_probs", "best_pieces", ...(withWeights ? ["weights"] : []), ...this.states];
    const found = await this.decoder.run(inputs, names);
    const state = Object.fromEntries(this.states.map((name) => [name.replace("next.", "state."), found[name]]));
    return { best: found.best_log_probs.data, pieces: found.best_pieces.data, weights: found.weights, state };
  }
}

/** Returns the parts of a tensor that belong to some sentences. */
function select(tensor, places) {
  const size = tensor.data.length / tensor.dims[0];
  const data = new tensor.data.constructor(places.length * size);
  places.forEach((place, at) => data.set(tensor.data.subarray(place * size, (place + 1) * size), at * size));
  return new ort.Tensor(tensor.type, data, [places.length, ...tensor.dims.slice(1)]);
}

/** Returns the pieces and weights from the first to this one. */
function walk(node) {
  const pieces = [], weights = [];
  for (; node; node = node.before) {
    pieces.push(node.piece);
    weights.push(node.weights);
  }
  return { pieces: pieces.reverse(), weights: weights.reverse() };
}

/** Beam search over a batch of sources. */
class Search {
  constructor(model, settings) {
    Object.assign(this, { model, settings, beam: settings.beam_size, nBest: settings.n_best });
  }

  /** Returns the n best translations of each source, best first. */
  async run(sources) {
    const { settings, beam } = this;
    const limits = sources.map((ids) => Math.trunc(settings.max_length_a * ids.length) + settings.max_length_b);
    const finished = sources.map(() => []);
    let { memory, state } = await this.model.encode(sources, settings.eos);
    let live = sources.map((_, sentence) => sentence);
    let nodes = live.map(() => [null]), totals = live.map(() => [0]);
    let parents = live, last = live.map(() => settings.bos);
    for (let length = 1; live.length; length++) {
      const forbidden = nodes.map((of) => of.map((node) => this.#forbidden(node)));
      const most = Math.max(...forbidden.flat().map((ends) => ends.size));
      const room = Math.min(2 * beam + most, settings.target_vocab_size), width = totals[0].length;
      const found = await this.model.step({
        ...memory,
        ...state,
        piece: new ort.Tensor("int32", Int32Array.from(last), [last.length]),
        parent: new ort.Tensor("int32", Int32Array.from(parents), [parents.length]),
        count: new ort.Tensor("int64", BigInt64Array.of(BigInt(room)), [1]),
      }, settings.with_alignment);
      state = found.state;
      const places = [], nextNodes = [], nextTotals = [];
      [parents, last] = [[], []];
      live.forEach((sentence, place) => {
        const first = place * width;
        const weightsOf = (rank) => {
          if (!found.weights) return null;
          const size = found.weights.dims[1];
          return found.weights.data.subarray((first + rank) * size, (first + rank + 1) * size);
        };
        const candidates = this.#candidates(found, first, totals[place], forbidden[place], room);
        const extend = ({ parent, piece }) => ({ before: nodes[place][parent], piece, weights: weightsOf(parent) });
        const going = this.#advance(finished[sentence], candidates, extend, length, limits[sentence]);
        if (!going.length) return;
        places.push(place);
        nextNodes.push(going.map(extend));
        nextTotals.push(going.map((one) => one.total));
        for (const one of going) { parents.push(first + one.parent); last.push(one.piece); }
      });
      if (places.length < live.length && places.length) {
        memory = Object.fromEntries(Object.entries(memory).map(([name, tensor]) => [name, select(tensor, places)]));
      }
      [live, nodes, totals] = [places.map((place) => live[place]), nextNodes, nextTotals];
    }
    return finished.map((found) => found.sort((one, other) => other.score - one.score).slice(0, this.nBest));
  }

  /** Returns the 2K best extensions of a sentence, best first. At most K of them are </s>. */
  #candidates({ best, pieces }, first, totals, forbidden, room) {
    const all = [];
    totals.forEach((total, parent) => {
      for (let at = (first + parent) * room; at < (first + parent + 1) * room; at++) {
        const sum = forbidden[parent].has(pieces[at]) ? -Infinity : Math.fround(total + best[at]);
        if (sum > -Infinity) all.push({ total: sum, parent, piece: pieces[at] });
      }
    });
    return all.sort((one, other) => other.total - one.total).slice(0, 2 * this.beam);
  }

  /** Collects the translations that end with this step; returns the extensions to go on with, none if it is done. */
  #advance(finished, candidates, extend, length, limit) {
    const { eos } = this.settings;
    const going = candidates.filter((one) => one.piece !== eos).slice(0, this.beam);
    for (const one of candidates.slice(0, this.beam)) {
      if (one.piece !== eos && length < limit) continue;
      const { pieces, weights } = walk(extend(one));
      const ids = one.piece === eos ? pieces.slice(0, -1) : pieces;
      finished.push({ ids, score: one.total / this.#penalty(length), weights });
    }
    if (length >= limit || finished.length >= this.beam || !going.length) return [];
    if (finished.length >= this.nBest) {
      // A log-probability only falls, and no divisor is larger than that of the longest output.
      const scores = finished.map((one) => one.score).sort((one, other) => other - one);
      if (scores[this.nBest - 1] >= going[0].total / this.#penalty(limit)) return [];
    }
    while (going.length < this.beam) going.push({ total: -Infinity, parent: 0, piece: eos });
    return going;
  }

  #penalty(length) {
    return ((5 + length) / 6) ** this.settings.length_penalty;
  }

  /** Returns the pieces that would repeat the last `no_repeat_ngram` pieces. */
  #forbidden(node) {
    const order = this.settings.no_repeat_ngram, ends = new Set();
    if (!order || !node) return ends;
    const prefix = walk(node).pieces, begin = prefix.length - order + 1;
    for (let at = 0; at < begin; at++) {
      let same = true;
      for (let next = 0; next < order - 1; next++) same &&= prefix[at + next] === prefix[begin + next];
      if (same) ends.add(prefix[at + order - 1]);
    }
    return ends;
  }
}

/** Lines in, as many translations out. */
class Translator {
  constructor(model, settings) {
    this.settings = settings;
    this.search = new Search(model, settings);
    const opened = new Map();
    const open = (name) => {
      if (!opened.has(name)) opened.set(name, new SentencePiece(readFileSync(join(HERE, name))));
      return opened.get(name);
    };
    this.source = open(settings.tokenizers.source);
    this.target = open(settings.tokenizers.target);
  }

  /** Returns the translations of each line, best first; a line without pieces has one empty translation. */
  async translate(texts) {
    const parts = texts.flatMap((text, line) => (text.match(WORD) ? this.#parts(line, text) : []));
    const byLength = parts.map((_, number) => number).sort((one, other) => parts[other].ids.length - parts[one].ids.length);
    const found = new Array(parts.length);
    for (let start = 0; start < byLength.length;) {
      const width = parts[byLength[start]].ids.length + 1;
      const numbers = byLength.slice(start, start + Math.max(1, Math.floor(BATCH_TOKENS / (width * this.search.beam))));
      start += numbers.length;
      const hypotheses = await this.search.run(numbers.map((number) => parts[number].ids));
      numbers.forEach((number, at) => {
        found[number] = hypotheses[at].map((one) => this.#finish(parts[number], one));
      });
    }
    const ofLines = texts.map(() => []);
    parts.forEach((part, number) => ofLines[part.line].push(found[number]));
    return ofLines.map((ofLine) => this.#joined(ofLine));
  }

  /** Returns the parts of a line: a long one is cut at the beginning of a word in the last half of what fits. */
  #parts(line, text) {
    const { ids, begins } = this.source.encode(text), limit = this.settings.max_source_pieces;
    const words = wordsOf(text, begins, WORD).numbers, parts = [];
    let start = 0;
    while (ids.length - start > limit) {
      let cut = start + limit;
      const half = start + Math.floor(limit / 2) + 1;
      while (cut >= half && !this.source.pieces[ids[cut]].startsWith("\u2581")) cut--;
      if (cut < half) {
        cut = start + limit;
        while (cut > half && LATER_BYTE.test(this.source.pieces[ids[cut]])) cut--;
      }
      parts.push({ line, ids: ids.slice(start, cut), words: words.slice(start, cut) });
      start = cut;
    }
    if (start < ids.length) parts.push({ line, ids: ids.slice(start), words: words.slice(start) });
    return parts;
  }

  /** Returns a hypothesis as text, with the heaviest source word of each target word. */
  #finish(part, hypothesis) {
    const { text, begins } = this.target.decode(hypothesis.ids);
    const shown = text.replaceAll("\n", " ");
    if (!this.settings.with_alignment) return { text: shown, links: [], numWords: 0 };
    const { numbers, count } = wordsOf(text, begins, WORD);
    const first = part.words[0], numSource = part.words.at(-1) + 1 - first;
    const sums = Array.from({ length: count }, () => new Float64Array(numSource));
    const pieces = new Array(count).fill(0);
    numbers.forEach((word, at) => {
      if (word >= count) return;
      pieces[word]++;
      part.words.forEach((source, column) => { sums[word][source - first] += hypothesis.weights[at][column]; });
    });
    const links = [];
    sums.forEach((row, target) => {
      const shares = row.map((sum) => sum / Math.max(pieces[target], 1));
      const at = shares.reduce((best, share, place) => (share > shares[best] ? place : best), 0);
      if (shares[at] > 0) links.push([first + at, target]);
    });
    return { text: shown, links, numWords: count };
  }

  /** Returns the translations of a line: the best of its parts together, then the second best, and so on. */
  #joined(parts) {
    if (!parts.length) return [{ text: "", links: [] }];
    return Array.from({ length: Math.max(...parts.map((own) => own.length)) }, (_, rank) => {
      const chosen = parts.map((own) => own[rank] ?? own.at(-1));
      let numWords = 0;
      const links = chosen.flatMap((one) => {
        const moved = one.links.map(([source, target]) => [source, numWords + target]);
        numWords += one.numWords;
        return moved;
      });
      return { text: chosen.map((one) => one.text).join(" "), links };
    });
  }
}

/** Yields the lines that are there, without waiting for more. Lines end at a line feed only. */
async function* windows() {
  const text = (lines) => lines.map((line) => new TextDecoder("utf-8", { ignoreBOM: true }).decode(line));
  let rest = Buffer.alloc(0);
  for await (const block of process.stdin) {
    const bytes = Buffer.concat([rest, block]), lines = [];
    let start = 0;
    for (let end = bytes.indexOf(10); end >= 0; end = bytes.indexOf(10, start)) {
      lines.push(bytes.subarray(start, end));
      start = end + 1;
    }
    rest = bytes.subarray(start);
    if (lines.length) yield text(lines);
  }
  if (rest.length) yield text([rest]);
}

/** Returns the model's defaults with what the command line asks for in their place. */
function settingsOf(defaults) {
  const refuse = (message) => {
    console.error(`translate.mjs: error: ${message}`);
    process.exit(2);
  };
  let given;
  try {
    given = parseArgs({
      options: {
        "beam-size": { type: "string", default: String(defaults.beam_size) },
        "n-best": { type: "string", default: "1" },
        "length-penalty": { type: "string", default: String(defaults.length_penalty) },
        alignment: { type: "string", default: "none" },
        threads: { type: "string", default: "0" },
        help: { type: "boolean", short: "h", default: false },
      },
    }).values;
  } catch (error) {
    refuse(error.message);
  }
  if (given.help) {
    console.log("usage: node translate.mjs [--beam-size N] [--n-best N] [--length-penalty ALPHA] [--alignment none|hard] [--threads N]");
    process.exit(0);
  }
  const number = (name, least, most, whole) => {
    const value = Number(given[name]);
    if (!(value >= least && value <= most) || (whole && !Number.isInteger(value))) {
      refuse(`--${name} ${given[name]}: must be a number from ${least} to ${most}`);
    }
    return value;
  };
  const beam = number("beam-size", 1, 1000, true), nBest = number("n-best", 1, 1000, true);
  if (nBest > beam) refuse(`--n-best ${nBest} is more than the beam, ${beam}; raise --beam-size`);
  if (!["none", "hard"].includes(given.alignment)) refuse(`--alignment ${given.alignment}: must be none or hard`);
  if (given.alignment !== "none" && !defaults.has_attention) refuse("--alignment: this model has no attention");
  return {
    ...defaults,
    beam_size: beam,
    n_best: nBest,
    length_penalty: number("length-penalty", 0, 10, false),
    with_alignment: given.alignment === "hard",
    threads: number("threads", 0, 1024, true),
  };
}

/** Writes all of a text; a reader that goes away ends the program quietly. */
function write(text) {
  const bytes = Buffer.from(text);
  for (let at = 0; at < bytes.length;) {
    try {
      at += writeSync(1, bytes, at);
    } catch (error) {
      if (error.code === "EPIPE") process.exit(0);
      if (error.code !== "EAGAIN") fail(`the output failed: ${error.message}`);
    }
  }
}

function fail(message) {
  console.error(`translate.mjs: error: ${message}`);
  process.exit(1);
}

/** Returns the model beside this file, with the options of the command line. */
async function opened() {
  try {
    const settings = settingsOf(JSON.parse(readFileSync(join(HERE, "defaults.json"), "utf8")));
    return new Translator(await Model.open(settings.threads), settings);
  } catch (error) {
    fail(`${HERE} does not hold a whole model; export it again: ${error.message}`);
  }
}

const translator = await opened(), { settings } = translator;
for await (const texts of windows()) {
  for (const translations of await translator.translate(texts)) {
    const best = translations.slice(0, settings.n_best);
    const pairs = (one) => one.links.map(([source, target]) => `${source}-${target}`).join(" ");
    const lines = best.map((one) => (settings.with_alignment ? `${one.text} ||| ${pairs(one)}` : one.text));
    while (lines.length < settings.n_best) lines.push("");
    write(lines.map((line) => `${line}\n`).join(""));
  }
}
