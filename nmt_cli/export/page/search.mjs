// Search for the translation of one sentence: greedy, or with a beam.

/** Returns the most pieces that a translation may have, with </s>. */
const limitOf = (settings, length) => Math.trunc(settings.maxLengthA * length) + settings.maxLengthB;

/** Returns the pieces that would repeat the last `noRepeatNgram` pieces. */
function repeated(pieces, order) {
  const begin = pieces.length - order + 1, ends = [];
  for (let at = 0; order && at < begin; at++) {
    let same = true;
    for (let next = 0; next < order - 1; next++) same &&= pieces[at + next] === pieces[begin + next];
    if (same) ends.push(pieces[at + order - 1]);
  }
  return ends;
}

/** Computes the scores of all pieces after a prefix. */
const scoresOf = (model, settings, pieces, state, next) => model.step(pieces.at(-1) ?? settings.bos, state, next);

/** Gives minus infinity to the pieces that must not follow. */
function forbid(model, settings, pieces, logits) {
  for (const piece of [...settings.banned, ...repeated(pieces, settings.noRepeatNgram)]) {
    model.memory.floats[(logits >> 2) + piece] = -Infinity;
  }
}

function best(model, logits) {
  const piece = model.memory.kernels.largest(logits, model.output.outputs);
  if (piece < 0) throw new Error("the model's probabilities are no numbers");
  return piece;
}

/** Returns the pieces of the greedy translation, and the attention weights with which each was chosen. */
export function greedy(model, settings, ids) {
  const pieces = [], weights = [];
  model.encode([...ids, settings.eos]);
  let [state, next] = model.begin(2);
  for (let length = limitOf(settings, ids.length); length > 0; length--) {
    const logits = scoresOf(model, settings, pieces, state, next);
    forbid(model, settings, pieces, logits);
    const piece = best(model, logits);
    if (piece === settings.eos) break;
    pieces.push(piece);
    weights.push(model.weights());
    [state, next] = [next, state];
  }
  return { pieces, weights };
}

/** Returns the logarithm of the sum of the exponentials of all scores. */
function normalizerOf(model, logits) {
  const { floats, kernels } = model.memory, largest = floats[(logits >> 2) + best(model, logits)];
  return largest + Math.log(kernels.sum_exp(logits, model.output.outputs, largest));
}

/** Returns the `count` best extensions of a prefix with the log-probability of the whole, in any order. */
function extensions(model, logits, total, count) {
  const { floats } = model.memory, size = model.output.outputs, at = logits >> 2;
  const found = [];
  let least = -Infinity;
  for (let piece = 0; piece < size; piece++) {
    if (!(floats[at + piece] > least)) continue;
    found.push(piece);
    if (found.length < 4 * count) continue;
    found.sort((one, other) => floats[at + other] - floats[at + one]).length = count;
    least = floats[at + found.at(-1)];
  }
  found.sort((one, other) => floats[at + other] - floats[at + one]);
  return found.slice(0, count).map((piece) => ({ total: total + floats[at + piece], piece }));
}

/**
 * Returns the pieces of the best translations that a beam finds, best first.
 *
 * It is the search of nmt (search/beam.py): the length penalty of Wu et al. (2016, eq. 14), and a sentence is done with
 * as many finished translations as the beam is wide, or when no unfinished one can become the best.
 */
export function beam(model, settings, ids, width) {
  const limit = limitOf(settings, ids.length), finished = [];
  const penalty = (length) => ((5 + length) / 6) ** settings.lengthPenalty;
  model.encode([...ids, settings.eos]);
  const places = model.begin(2 * width), { memory, stateSize } = model;
  let rows = [{ pieces: [], total: 0 }];
  for (let length = 1; rows.length; length++) {
    const candidates = rows.flatMap(({ pieces, total }, parent) => {
      const logits = scoresOf(model, settings, pieces, places[parent], places[width + parent]);
      const normalizer = normalizerOf(model, logits);  // with what is forbidden: it takes its probability with it
      forbid(model, settings, pieces, logits);
      return extensions(model, logits, total - normalizer, 2 * width).map((one) => ({ ...one, parent }));
    });
    candidates.sort((one, other) => other.total - one.total).length = Math.min(candidates.length, 2 * width);
    for (const { piece, total, parent } of candidates.slice(0, width)) {
      if (piece !== settings.eos && length < limit) continue;
      const pieces = piece === settings.eos ? rows[parent].pieces : [...rows[parent].pieces, piece];
      finished.push({ pieces, score: total / penalty(length) });
    }
    const going = candidates.filter(({ piece }) => piece !== settings.eos).slice(0, width);
    if (length >= limit || finished.length >= width || !going.length) break;
    going.forEach(({ parent }, row) => memory.move(places[width + parent], stateSize, places[row]));
    rows = going.map(({ piece, total, parent }) => ({ pieces: [...rows[parent].pieces, piece], total }));
  }
  return finished.sort((one, other) => other.score - one.score).map(({ pieces }) => pieces);
}
