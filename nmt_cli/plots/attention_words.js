"use strict";
// What every view of attention shares: words that light up by how much attention joins them to a chosen word.
const AttentionWords = (() => {
  const GAMMA = 0.7;       // small weights would be too faint to see in proportion; the numbers are exact
  const STRONG = 0.49;     // from here on black letters have more contrast than white ones on the dark page's light
  const SHOWN = 0.005;     // what rounds to 1 % is shown

  const element = (tag, attributes = {}, ...children) => {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    made.append(...children);  // strings become text, never markup
    return made;
  };
  const percent = (weight) => weight === null ? "n/a" : `${Math.round(weight * 100)} %`;

  // A line of words that each carry dir="auto" has no text of its own for the browser to judge by: most letters decide.
  const RTL = /[\p{Script=Arabic}\p{Script=Hebrew}\p{Script=Syriac}\p{Script=Thaana}\p{Script=Nko}\p{Script=Adlam}]/gu;
  const directionOf = (words) => {
    const text = words.join("");
    return 2 * (text.match(RTL) || []).length > (text.match(/\p{L}/gu) || []).length ? "rtl" : "ltr";
  };

  const light = (node, weight) => {
    const shown = weight === null || weight < SHOWN ? 0 : Math.min(weight, 1);
    node.classList.toggle("lit", shown > 0);
    node.classList.toggle("strong", shown >= STRONG);
    node.style.setProperty("--weight", (shown ** GAMMA).toFixed(4));
  };
  const heaviest = (weights) => weights.reduce((best, weight, index) => weight > weights[best] ? index : best, 0);

  return {SHOWN, directionOf, element, heaviest, light, percent};
})();
