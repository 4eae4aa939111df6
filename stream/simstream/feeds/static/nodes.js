// Small helpers of the page: elements, times, and the language that its own words are in.
import { WORDS } from "./words.js";

export const byId = (id) => document.getElementById(id);
export const speech = { language: chosenLanguage(), words: {} };
speech.words = WORDS[speech.language];

function chosenLanguage() {
  let kept = null;
  try { kept = localStorage.getItem("language"); } catch { /* a browser that keeps nothing */ }
  return kept in WORDS ? kept : navigator.language.startsWith("zh") ? "zh" : "en";
}

export function choose(language) {
  speech.language = language;
  speech.words = WORDS[language];
  try { localStorage.setItem("language", language); } catch { /* then only for now */ }
}

export function make(tag, className, text) {
  const node = document.createElement(tag);
  if (className) node.className = className;
  if (text !== undefined) node.textContent = text;
  return node;
}

export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

// Why the server does not answer: in the page's language if it has words for the code, else the server's sentence.
export function reasonOf({ code, error }) {
  return Object.hasOwn(speech.words.reasons, code) ? speech.words.reasons[code] : error;
}

export function number(count) {
  return count.toLocaleString(speech.language);
}

export function moment(ms) {
  return new Intl.DateTimeFormat(speech.language, { dateStyle: "medium", timeStyle: "short" }).format(ms);
}

export function span(first, last) {
  const [a, b] = [new Date(first), new Date(last)];
  const later = a.toDateString() === b.toDateString()
    ? new Intl.DateTimeFormat(speech.language, { timeStyle: "short" }).format(b) : moment(b);
  return first === last || moment(a) === moment(b) ? moment(a) : speech.words.seen(moment(a), later);
}
