"use strict";
// The engine that translates in the browser, with the models that this file holds. It asks nobody.
const openEngine = () => {
  const FEW = 400;  // characters up to which other translations are looked for
  const waiting = new Map();  // what is to be done with the answer to each question
  let asked = 0, send = null;

  const held = (element) => ({text: element.textContent, crc: Number(element.dataset.crc),
    size: Number(element.dataset.size)});

  function receive({kind, id, ...answer}) {
    const {resolve, reject} = waiting.get(id) || {};
    waiting.delete(id);
    if (kind === "failed") reject?.(new EngineError(answer.message));
    else resolve?.(answer);
  }

  // A worker of its own keeps typing fluid. Where a browser allows none for a file, the page does the work.
  function start() {
    const here = new LocalTranslation.Service(receive);
    try {
      const script = `${document.getElementById("local-translation").textContent}
        const service = new LocalTranslation.Service(postMessage.bind(globalThis));
        onmessage = ({data}) => service.receive(data);`;
      const address = URL.createObjectURL(new Blob([script], {type: "text/javascript"}));
      const worker = new Worker(address);
      worker.onmessage = ({data}) => receive(data);
      worker.onerror = (event) => {  // it never began
        event.preventDefault();
        send = (message) => here.receive(message);
        for (const {message} of waiting.values()) send(message);
      };
      return (message) => worker.postMessage(message);
    } catch {
      return (message) => here.receive(message);
    }
  }

  const ask = (message) => new Promise((resolve, reject) => {
    const own = {...message, id: asked++};
    waiting.set(own.id, {resolve, reject, message: own});
    message.signal?.addEventListener("abort", () => {
      waiting.delete(own.id);
      send({kind: "cancel", id: own.id});
      reject(new DOMException("", "AbortError"));
    });
    delete own.signal;
    send(own);
  });

  const opened = new Promise((resolve) => {  // the models stand below this script
    if (document.readyState === "loading") addEventListener("DOMContentLoaded", resolve);
    else resolve();
  }).then(() => {
    const models = [...document.querySelectorAll("script.model")], kernels = document.getElementById("kernels");
    if (typeof LocalTranslation === "undefined" || !kernels || models.length !== Number(document.body.dataset.models)) {
      throw new EngineError("This file is damaged or not complete, so nothing can be translated. Fetch the file again.");
    }
    send = start();
    return ask({kind: "open", models: models.map(held), kernels: held(kernels)});
  });

  async function translate({text, source, target, alternatives = 0, alignment = false, signal}) {
    await opened;
    if (signal?.aborted) throw new DOMException("", "AbortError");
    return ask({kind: "translate", text, source, target, alternatives: text.length > FEW ? 0 : alternatives, alignment,
      signal});
  }

  function textOf(bytes) {  // the mark at the beginning tells UTF-16 from UTF-8
    const encoding = {"255,254": "utf-16le", "254,255": "utf-16be"}[bytes.subarray(0, 2).join()] || "utf-8";
    try {
      return new TextDecoder(encoding, {fatal: true}).decode(bytes);
    } catch {
      throw new EngineError("the text is not UTF-8, or is damaged; save it as UTF-8");
    }
  }

  return {
    directions: async () => (await opened).directions,
    settings: async () => ({charLimit: Infinity, keyRequired: false, supportedFilesFormat: [".txt"]}),
    translate,
    async translateFile({file, source, target}) {
      if (!/\.txt$/i.test(file.name)) throw new EngineError("this page translates files that end in .txt");
      const given = textOf(new Uint8Array(await file.arrayBuffer()));
      const {text} = await translate({text: given.replace(/\r\n?/g, "\n"), source, target});
      return {address: URL.createObjectURL(new Blob([text], {type: "text/plain"})), warnings: []};
    },
  };
};
