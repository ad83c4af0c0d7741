"use strict";
// The engine that asks `nmt serve`. `keyOf()` returns the key that the user has given.
const openEngine = (keyOf) => {
  async function ask(path, options = {}) {
    let answer;
    try {
      answer = await fetch(path, options);
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new EngineError("The server does not answer.", {retry: 2, gone: true});
    }
    let body = null;
    try {
      body = await answer.json();
    } catch (error) {
      if (error.name === "AbortError") throw error;
    }
    if (answer.ok && body !== null) return body;
    const retry = Number(answer.headers.get("Retry-After")) || ([502, 503, 504].includes(answer.status) ? 5 : null);
    throw new EngineError((body && body.error) || `The server answered with ${answer.status}.`, {retry});
  }

  return {
    async directions() {
      const languages = await ask("languages");
      const names = new Map(languages.map(({code, name}) => [code, name]));
      return languages.flatMap(({code, name, targets}) => targets.map((target) =>
        ({source: code, target, sourceName: name, targetName: names.get(target) || target})));
    },
    settings: () => ask("frontend/settings"),
    async translate({text, source, target, alternatives = 0, alignment = false, confidence = false, signal}) {
      const body = {q: text, source, target, alternatives, alignment, confidence};
      if (keyOf()) body.api_key = keyOf();
      const found = await ask("translate",
        {method: "POST", headers: {"Content-Type": "application/json"}, body: JSON.stringify(body), signal});
      return {text: found.translatedText, alternatives: found.alternatives || [], alignment: found.alignment || []};
    },
    async translateFile({file, source, target}) {
      const form = new FormData();
      for (const [name, value] of Object.entries({file, source, target})) form.append(name, value);
      if (keyOf()) form.append("api_key", keyOf());
      const {translatedFileUrl, warnings = []} = await ask("translate_file", {method: "POST", body: form});
      const address = new URL(translatedFileUrl).pathname.slice(1);  // beside the page, wherever a proxy has put it
      return {address, warnings};
    },
  };
};
