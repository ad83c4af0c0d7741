"use strict";
// What the page asks for translations. `openEngine(keyOf)` returns an engine: server_engine.js has the one that asks
// `nmt serve`, export/page/local_engine.js the one that translates in the browser. Each has these four functions:
//
//   directions() -> [{source, target, sourceName, targetName}]
//   settings() -> {charLimit, keyRequired, supportedFilesFormat}; without files the list of formats is empty.
//     `confidence` lists the directions, as {source, target}, whose models know how sure they are
//   translate({text, source, target, alternatives, alignment, confidence, signal}) -> {text, alternatives, alignment}
//     alignment: a list of {source, target, weights}, the sentences in order; a row of weights for each target word.
//     With confidence they have `word_confidence` too: for each target word the probability that it is correct
//   translateFile({file, source, target}) -> {address, warnings} of the result; a warning is a sentence for people
//
// They throw an EngineError: `retry` has the seconds after which it is worth asking again, `gone` says that nobody
// answers, and the message is for people.
class EngineError extends Error {
  constructor(message, {retry = null, gone = false} = {}) {
    super(message);
    this.retry = retry;
    this.gone = gone;
  }
}
