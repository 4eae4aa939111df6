// What a reader must know first: stories still load, no broker answers, or the server failed.
import { byId, number, reasonOf, setText, speech } from "./nodes.js";

let answered = Date.now();

export function noticeOf(answer) {
  const { words } = speech;
  const { condition, status } = answer;
  if (status === 0) return ["error", words.away(words.duration((Date.now() - answered) / 1000))];
  answered = Date.now();
  if (condition?.state === "reading") return ["loading", words.reading];
  if (condition?.state === "loading") return ["loading", words.behind(number(condition.behind))];
  if (condition?.state === "away") {
    const silence = answer.error === undefined ? words.silent : words.no_stories;
    return ["away", silence(words.duration(condition.silent_s))];
  }
  if (answer.error !== undefined && status !== 404) return ["error", words.refused(reasonOf(answer))];
  return ["", ""];
}

export function show([kind, text]) {
  const node = byId("notice");
  node.hidden = !kind;
  node.className = kind;
  setText(byId("notice-text"), text);
  byId("again").hidden = kind !== "error";
}
