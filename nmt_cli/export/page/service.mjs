// Answers the page: opens the models, and translates sentence by sentence. It runs in a worker, so that typing goes on
// meanwhile, and in the page itself where a browser allows no worker.

import { Translator } from "./translator.mjs";

const AT_ONCE = 20; // milliseconds of work after which waiting messages are read

const TABLE = Uint32Array.from({ length: 256 }, (_, byte) => {
  for (let bit = 0; bit < 8; bit++) byte = byte & 1 ? (byte >>> 1) ^ 0xedb88320 : byte >>> 1;
  return byte;
});

/** Returns the CRC-32 of bytes, by which a damaged file is known. */
export function crc32(bytes) {
  let sum = -1;
  for (let at = 0; at < bytes.length; at++) sum = TABLE[(sum ^ bytes[at]) & 255] ^ (sum >>> 8);
  return ~sum >>> 0;
}

/** Returns the bytes of a text in base64. */
export function fromBase64(text) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  const decoded = atob(text), bytes = new Uint8Array(decoded.length);
  for (let at = 0; at < bytes.length; at++) bytes[at] = decoded.charCodeAt(at);
  return bytes;
}

class Damaged extends Error {
  constructor() {
    super("This file is damaged or not complete, so nothing can be translated. Fetch the file again.");
  }
}

/** Returns the bytes that the page holds as { text, crc, size }. */
function unpacked({ text, crc, size }) {
  let bytes;
  try {
    bytes = fromBase64(text.trim());
  } catch {
    throw new Damaged();
  }
  if (bytes.length !== size || crc32(bytes) !== crc) throw new Damaged();
  return bytes;
}

export class Service {
  /** `post` sends an answer to the page. */
  constructor(post) {
    Object.assign(this, { post, translators: [], running: new Set() });
  }

  /** Takes a message of the page, whose `kind` is the name of what is to be done. */
  async receive(message) {
    try {
      if (message.kind === "open") await this.#open(message);
      else if (message.kind === "translate") await this.#translate(message);
      else if (message.kind === "cancel") this.running.delete(message.id);
    } catch (error) {
      this.post({ kind: "failed", id: message.id, message: error.message });
    }
  }

  async #open({ id, models, kernels }) {
    const wasm = unpacked(kernels);
    for (const model of models) {
      this.translators.push(...(await Translator.open(unpacked(model), wasm)).inEachDirection());
    }
    const directions = this.translators.map(({ description: { source, target, sourceName, targetName } }) =>
      ({ source, target, sourceName, targetName }));
    this.post({ kind: "opened", id, directions });
  }

  /** Translates a text; other messages are read in between, among them one that cancels it. */
  async #translate({ id, text, source, target, alternatives, alignment }) {
    const translator = this.translators.find(({ description }) =>
      description.source === source && description.target === target);
    const lines = [], aligned = [];
    let began = performance.now();
    this.running.add(id);
    for (const sentences of translator.sentences(text)) {
      const line = [];
      for (const { before, sentence, after, hasText } of sentences) {
        if (performance.now() - began > AT_ONCE) {
          await new Promise((go) => { setTimeout(go); });
          if (!this.running.has(id)) return;
          began = performance.now();
        }
        const found = hasText ? translator.translate(sentence, alternatives > 0) : { text: sentence };
        line.push({ before, after, text: found.text, others: found.others ?? [] });
        if (found.weights && alignment) aligned.push({ source: sentence, target: found.text, weights: found.weights });
      }
      lines.push(line);
    }
    const whole = (choose) => lines.map((line) =>
      line.map((one) => one.before + choose(one) + one.after).join("")).join("\n");
    this.running.delete(id);
    const best = whole((one) => one.text);
    const ranks = Array.from({ length: alternatives + 1 }, (_, rank) =>
      whole(({ text: own, others }) => others[rank] ?? others.at(-1) ?? own));
    const others = [...new Set(ranks)].filter((other) => other !== best).slice(0, alternatives);
    this.post({ kind: "translated", id, text: best, alternatives: others, alignment: aligned });
  }
}
