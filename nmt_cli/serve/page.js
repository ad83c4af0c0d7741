"use strict";
(() => {
  const {SHOWN, directionOf, element, heaviest, light, percent} = AttentionWords;
  const $ = (id) => document.getElementById(id);
  const engine = openEngine(() => $("key").value);
  const PAUSE = 250;       // milliseconds without a key until what stands there is translated
  const DETAILED = 5000;   // characters up to which alternatives and attention are asked for
  const ALTERNATIVES = 3;
  // What Python and nmt call white space; it differs from \s.
  const BLANK = "[\\t-\\r\\x1c-\\x20\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000]";
  const WORD = new RegExp(BLANK.replace("[", "[^") + "+", "gu"), PARTING = new RegExp(`(${BLANK}+)`, "u");
  const RIGHT_TO_LEFT = /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]/;
  const DOUBTFUL = 0.5;    // words with less confidence are underlined: they are more likely wrong than right
  let directions = [];
  let settings = {charLimit: Infinity, keyRequired: false, supportedFilesFormat: []};
  const nothing = {source: "", text: "", alternatives: [], alignment: []};
  let shown = nothing;     // the answer on the screen, with the text and the direction that it belongs to
  let arrived = null;      // the answer that waits until a correction is finished
  let sentences = [];      // of it: {source: [span], target: [span], weights, sure}
  let pinned = null;       // {number, side, index}: the word that stays chosen when the pointer goes away
  let timer = 0, retrying = 0, asked = null;
  const corrections = [];

  const direction = () => directions[$("direction").selectedIndex];
  const knowsConfidence = ({source, target}) =>
    (settings.confidence || []).some((one) => one.source === source && one.target === target);
  const say = (message, wrong = false) => {
    $("status").textContent = message;
    $("status").classList.toggle("wrong", wrong);
  };
  const lengthOf = (text) => [...text].length;  // in characters, as the server counts
  const tag = (code) => code.replaceAll("_", "-");  // of a language, as HTML writes it
  const fit = (area) => {  // a text area as high as its text
    area.style.height = "auto";
    area.style.height = `${area.scrollHeight}px`;
  };

  // ---- translation ----
  function soon() {
    clearTimeout(timer);
    if (directions.length) clearTimeout(retrying);  // else the page still asks for the languages
    const text = $("source").value, length = lengthOf(text);
    $("count").textContent = length ? `${length.toLocaleString()} character${length === 1 ? "" : "s"}` : "";
    $("announced").textContent = "";
    fit($("source"));
    const isOfAnother = shown.text && shown.direction !== direction();
    if ($("mirror").textContent !== text || isOfAnother) {  // what lit up belongs to the text of before
      $("mirror").textContent = text;
      document.body.classList.toggle("old", Boolean(text.trim()));
    }
    if (asked) asked.abort();
    timer = setTimeout(translate, PAUSE);
  }

  async function translate() {
    const text = $("source").value, chosen = direction();
    if (!chosen) return;
    clearTimeout(retrying);
    if (!text.trim()) {
      say("");
      return arrive({...nothing, source: text, direction: chosen});
    }
    if (lengthOf(text) > settings.charLimit) {
      return say(`The text is too long: at most ${settings.charLimit.toLocaleString()} characters at once.`, true);
    }
    asked = new AbortController();
    const own = asked, detailed = text.length <= DETAILED;
    try {
      const found = await engine.translate({text, source: chosen.source, target: chosen.target,
        alternatives: detailed ? ALTERNATIVES : 0, alignment: detailed,
        confidence: detailed && knowsConfidence(chosen), signal: own.signal});
      if (own.signal.aborted) return;
      say("");
      arrive({source: text, direction: chosen, ...found});
      $("announced").textContent = "Translated.";
    } catch (error) {
      if (error.name === "AbortError" || own.signal.aborted) return;
      later(error, translate);
    }
  }

  function later(error, again) {
    const retry = error.retry;
    say(retry === null || retry === undefined ? error.message : `${error.message} Trying again.`, true);
    clearTimeout(retrying);
    if (retry) retrying = setTimeout(again, retry * 1000);
  }

  // ---- the answer ----
  function arrive(answer) {  // what somebody is writing is not taken away
    if ($("correction").hidden) return show(answer);
    arrived = answer;
    say("A new translation is there. Keep or cancel the correction to see it.");
  }

  function show(answer) {
    shown = answer;
    arrived = pinned = null;
    endCorrection();
    if (answer.direction) $("target").lang = $("alternatives").lang = tag(answer.direction.target);
    document.body.classList.remove("old");
    draw(answer.text, answer.alignment);
    $("others").hidden = !answer.alternatives.length;
    $("alternatives").replaceChildren(...answer.alternatives.map((text, index) => {
      const button = element("button", {type: "button", class: "plain", dir: "auto"}, text);
      button.addEventListener("click", () => take(text, index));
      return element("li", {}, button);
    }));
    for (const name of ["copy", "correct"]) $(name).disabled = !answer.text;
    fit($("source"));  // a long translation has kept it high
  }

  function take(text, index) {  // an alternative changes places with what is shown
    if (!$("correction").hidden) return say("Keep or cancel the correction first.");
    const others = [shown.text, ...shown.alternatives.filter((other) => other !== text)];
    show({...shown, text, alternatives: others, alignment: []});
    $("alternatives").querySelectorAll("button")[index].focus();  // the one that was pressed is gone
    say("The other translation is shown.");
  }

  // A text with single blanks between its words, as the engine reads it, and the place of each character in the text.
  function narrowed(text) {
    const places = [], words = [];
    for (const {0: word, index} of text.matchAll(WORD)) {
      if (words.length) places.push(index);  // of the blank before it
      for (let at = 0; at < word.length; at++) places.push(index + at);
      words.push(word);
    }
    return {text: words.join(" "), places};
  }

  // Sentences that are the same are told once, so the next one that stands in the text is looked for each time.
  function draw(text, alignment) {
    const parts = {source: [], target: []}, ends = {source: 0, target: 0}, from = {source: 0, target: 0};
    const whole = {source: shown.source, target: text};
    const narrow = {source: narrowed(shown.source), target: narrowed(text)};
    const known = alignment.filter(({weights}) => weights)
      .map((one) => ({one, source: narrowed(one.source).text, target: narrowed(one.target).text}));
    sentences = [];
    for (;;) {
      const next = known.map((one) => ({...one, at: narrow.source.text.indexOf(one.source, from.source)}))
        .filter(({source, target, at}) => at >= 0 && source && narrow.target.text.indexOf(target, from.target) >= 0)
        .sort((a, b) => a.at - b.at || b.source.length - a.source.length)[0];
      if (!next) break;
      const {one} = next, number = sentences.length, sentence = {weights: one.weights, sure: one.word_confidence};
      for (const side of ["source", "target"]) {
        const at = narrow[side].text.indexOf(next[side], from[side]), {places} = narrow[side];
        from[side] = at + next[side].length;
        const [start, end] = next[side] ? [places[at], places[from[side] - 1] + 1] : [ends[side], ends[side]];
        parts[side].push(whole[side].slice(ends[side], start));
        sentence[side] = wordsOf(whole[side].slice(start, end), parts[side], number, side);
        ends[side] = end;
      }
      sentence.target.forEach((word, index) => doubt(word, sentence.sure && sentence.sure[index]));
      sentences.push(sentence);
    }
    parts.source.push(shown.source.slice(ends.source));
    parts.target.push(text.slice(ends.target));
    $("mirror").replaceChildren(...parts.source);
    $("translation").replaceChildren(...parts.target);
    $("target").dir = directionOf([text]);
    const first = $("target").querySelector(".word");
    if (first) first.tabIndex = 0;
    $("hint").hidden = !sentences.length;
    $("doubts").hidden = !$("target").querySelector(".doubtful");
    $("readout").replaceChildren();
  }

  function wordsOf(text, parts, number, side) {
    const spans = [];
    for (const [place, piece] of text.split(PARTING).entries()) {
      if (place % 2 || !piece) {  // white space stands between the words
        parts.push(piece);
        continue;
      }
      const attributes = {class: "word", "data-number": number, "data-side": side, "data-index": spans.length};
      if (side === "target") Object.assign(attributes, {role: "button", tabindex: -1, "aria-pressed": "false"});
      spans.push(element("span", attributes, piece));
      parts.push(spans.at(-1));
    }
    return spans;
  }

  function doubt(word, sure) {  // not only to be seen: who listens hears it with the word
    if (sure === undefined || sure >= DOUBTFUL) return;
    word.classList.add("doubtful");
    word.setAttribute("aria-label", `${word.textContent}, doubtful`);
  }

  // ---- attention ----
  function look(choice, speak = false) {
    for (const node of document.querySelectorAll(".word.lit, .word.chosen")) {
      light(node, 0);
      node.classList.remove("chosen");
      if (node.dataset.side === "target") node.setAttribute("aria-pressed", "false");
    }
    $("readout").replaceChildren();
    const sentence = choice && sentences[choice.number];
    if (!sentence || !sentence[choice.side][choice.index]) return;
    const other = sentence[choice.side === "target" ? "source" : "target"];
    const weights = choice.side === "target" ? sentence.weights[choice.index]
      : sentence.weights.map((row) => row[choice.index]);
    const node = sentence[choice.side][choice.index];
    node.classList.add("chosen");
    if (choice.side === "target") node.setAttribute("aria-pressed", "true");
    other.forEach((word, index) => light(word, weights[index] ?? 0));
    const ranked = weights.map((weight, index) => ({weight, word: other[index]}))
      .filter(({weight, word}) => word && weight >= SHOWN).sort((a, b) => b.weight - a.weight).slice(0, 4);
    const verb = choice.side === "target" ? "looked at" : "was looked at by";
    // Words from right to left are kept apart, so that each percentage stays with its own.
    const apart = (word) => RIGHT_TO_LEFT.test(word) ? `\u2068${word}\u2069` : word;
    const list = ranked.map(({weight, word}) => `${apart(word.textContent)} ${percent(weight)}`).join(", ");
    const sure = choice.side === "target" && sentence.sure ? sentence.sure[choice.index] : undefined;
    const said = ` ${verb} ${list || "nothing in particular"}${sure === undefined ? "" : `; ${percent(sure)} sure`}`;
    $("readout").append(element("b", {dir: "auto"}, node.textContent), said);
    if (speak) say(`${apart(node.textContent)}${said}`);
  }

  const choiceOf = (node) => node && node.classList && node.classList.contains("word")
    ? {number: Number(node.dataset.number), side: node.dataset.side, index: Number(node.dataset.index)} : null;
  const targetWords = () => [...$("target").querySelectorAll(".word")];
  function pin(node, speak) {
    pinned = choiceOf(node);
    for (const word of targetWords()) word.tabIndex = word === node ? 0 : -1;
    look(pinned, speak);
  }
  $("target").addEventListener("pointerover", (event) => {
    const choice = event.pointerType !== "touch" && choiceOf(event.target);
    if (choice) look(choice);
  });
  $("target").addEventListener("pointerleave", () => look(pinned));
  $("target").addEventListener("click", (event) => { if (choiceOf(event.target)) pin(event.target, false); });
  $("target").addEventListener("focusin", (event) => { if (choiceOf(event.target)) pin(event.target, true); });
  $("target").addEventListener("keydown", (event) => {
    if (!choiceOf(event.target) || event.altKey || event.ctrlKey || event.metaKey) return;
    const words = targetWords(), at = words.indexOf(event.target);
    const [back, onward] = $("target").dir === "rtl" ? ["ArrowRight", "ArrowLeft"] : ["ArrowLeft", "ArrowRight"];
    const to = {[back]: at - 1, [onward]: at + 1, Home: 0, End: words.length - 1}[event.key];
    if (to === undefined) return;
    event.preventDefault();
    words[Math.max(0, Math.min(to, words.length - 1))].focus();
  });
  // The words of the source lie below the text area, which takes the pointer.
  $("source").addEventListener("pointermove", (event) => {
    const below = document.elementsFromPoint(event.clientX, event.clientY)
      .map(choiceOf).find((choice) => choice && choice.side === "source");
    look(below || pinned);
  });
  $("source").addEventListener("pointerleave", () => look(pinned));
  $("source").addEventListener("click", () => {  // a tap puts the caret into a word
    let position = 0;
    for (const node of $("mirror").childNodes) {
      position += node.textContent.length;
      if (position >= $("source").selectionStart) {
        if (choiceOf(node)) look(pinned = choiceOf(node));
        return;
      }
    }
  });

  // ---- copy, correct ----
  $("copy").addEventListener("click", async () => {
    const text = $("correction").hidden ? shown.text : $("correction").value;
    try {
      await navigator.clipboard.writeText(text);
      say("Copied.");
    } catch {  // an address without TLS has no clipboard: what is to be copied is selected
      getSelection().selectAllChildren($("target"));
      say("Selected; press Ctrl-C to copy.");
    }
  });
  function endCorrection() {
    $("correction").hidden = $("cancel").hidden = true;
    $("target").hidden = false;
    $("correct").textContent = "Correct";
  }
  $("correct").addEventListener("click", () => {
    const area = $("correction");
    if (area.hidden) {
      area.value = shown.text;
      area.hidden = $("cancel").hidden = false;
      $("target").hidden = true;
      $("correct").textContent = "Keep correction";
      fit(area);
      area.focus();
      return;
    }
    corrections.push({source: shown.source, target: area.value, direction: shown.direction});
    show(arrived || {...shown, text: area.value, alignment: []});
    offerCorrections();
    say("The correction is kept.");
    $("correct").focus();
  });
  $("cancel").addEventListener("click", () => {
    if (arrived) show(arrived);
    else endCorrection();
    $("correct").focus();
  });
  $("correction").addEventListener("input", () => fit($("correction")));
  const cell = (text) => text.replace(/[\t\r\n]+/g, " ").trim();
  const rows = ({source, target}) => {  // a row for each paragraph, where there are as many
    const [left, right] = [source, target].map((text) => text.split("\n"));
    const pairs = left.length === right.length ? left.map((text, index) => [text, right[index]]) : [[source, target]];
    return pairs.map((pair) => pair.map(cell)).filter((pair) => pair.some(Boolean)).map((pair) => pair.join("\t"));
  };
  function offerCorrections() {  // a file for each direction, as `nmt import` takes it
    $("kept").hidden = false;
    $("kept-count").textContent = corrections.length === 1 ? "1 correction." : `${corrections.length} corrections.`;
    const corrected = [...new Set(corrections.map((one) => one.direction))];
    $("downloads").replaceChildren(...corrected.map((one) => {
      const name = corrected.length > 1 ? `Download ${one.sourceName} → ${one.targetName} as TSV` : "Download as TSV";
      const button = element("button", {type: "button", class: "plain"}, name);
      button.addEventListener("click", () => download(one));
      return button;
    }));
  }
  function download(corrected) {
    const {source, target} = corrected;
    const own = corrections.filter((one) => one.direction === corrected);
    const text = [`${source}\t${target}`, ...own.flatMap(rows)].map((row) => `${row}\n`).join("");
    const link = element("a", {download: `corrections.${source}-${target}.tsv`,
      href: URL.createObjectURL(new Blob([text], {type: "text/tab-separated-values"}))});
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  }

  // ---- files ----
  async function translateFile(file) {
    const entry = element("li", {}, `${file.name}: is being translated`);
    $("files").hidden = false;
    $("file-list").append(entry);
    try {
      const {source, target} = direction();
      const {address, warnings} = await engine.translateFile({file, source, target});
      const link = element("a", {href: address, download: ""}, `${file.name}: fetch the translation`);
      const told = warnings.map((warning) => element("p", {}, `Warning: ${warning}`));
      entry.replaceChildren(link, ...told);
      say(`${file.name}: the translation is there${told.length ? ", with warnings" : ""}.`);
    } catch (error) {
      entry.textContent = `${file.name}: ${error.message}`;
      say(entry.textContent, true);
    }
  }
  $("file").addEventListener("change", () => {
    [...$("file").files].forEach(translateFile);
    $("file").value = "";
  });
  addEventListener("dragover", (event) => {
    if (!event.dataTransfer.types.includes("Files")) return;
    event.preventDefault();
    document.body.classList.add("dropping");
  });
  addEventListener("dragleave", () => document.body.classList.remove("dropping"));
  addEventListener("drop", (event) => {
    document.body.classList.remove("dropping");
    if (!event.dataTransfer.files.length) return;
    event.preventDefault();
    [...event.dataTransfer.files].forEach(translateFile);
  });

  // ---- beginning ----
  function takeFromAddress() {  // `#text=...` is what to translate
    const text = new URLSearchParams(location.hash.slice(1)).get("text");
    if (text !== null) $("source").value = text;
  }
  addEventListener("hashchange", () => { takeFromAddress(); soon(); });
  async function begin() {
    try {
      [directions, settings] = await Promise.all([engine.directions(), engine.settings()]);
    } catch (error) {
      return later(error, begin);
    }
    $("direction").replaceChildren(...directions.map(({sourceName, targetName}) =>
      element("option", {}, `${sourceName} → ${targetName}`)));
    $("key-form").hidden = !settings.keyRequired;
    $("file-label").hidden = !settings.supportedFilesFormat.length;
    $("file").accept = settings.supportedFilesFormat.join(",");
    takeFromAddress();
    chosen();
  }
  const backwards = () => directions.findIndex(({source, target}) =>
    source === direction().target && target === direction().source);
  function chosen() {
    const {source, target, sourceName, targetName} = direction();
    $("source-name").textContent = sourceName;
    $("target-name").textContent = targetName;
    $("source").lang = tag(source);
    $("correction").lang = tag(target);
    $("swap").hidden = backwards() < 0;
    soon();
  }
  $("direction").addEventListener("change", chosen);
  $("swap").addEventListener("click", () => {
    // What is typed stays if its translation is not there.
    if (shown.source === $("source").value && shown.direction === direction()) $("source").value = shown.text;
    $("direction").selectedIndex = backwards();
    chosen();
  });
  $("key").addEventListener("change", soon);
  $("key-form").addEventListener("submit", (event) => { event.preventDefault(); soon(); });
  $("source").addEventListener("input", soon);
  addEventListener("resize", () => { fit($("source")); if (!$("correction").hidden) fit($("correction")); });
  show(nothing);
  begin();
})();
