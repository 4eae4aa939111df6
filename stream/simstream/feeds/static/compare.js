// Two versions of a story side by side, in rows that begin at the same height.
import { ask } from "./ask.js";
import { byId, make, number, reasonOf, setText, speech } from "./nodes.js";

let compared = "";

export function closeComparison() {
  compared = "";
  byId("comparison").hidden = true;
  byId("left").replaceChildren();
  byId("right").replaceChildren();
}

export function fillChoices(timeline) {
  for (const [name, fallback] of [["left", 0], ["right", 1]]) {
    const select = byId(name);
    const kept = select.value;
    select.replaceChildren(...timeline.map((version, place) => {
      const option = make("option", "", `${place + 1}. ${version.site || version.id}`);
      option.value = version.id;
      return option;
    }));
    const first = timeline[Math.min(fallback, timeline.length - 1)].id;
    select.value = timeline.some((version) => version.id === kept) ? kept : first;
  }
}

export function compareWith(version, all) {
  const others = all.filter((one) => one !== version);
  const closest = others.find((one) => one.id === version.near_duplicate_of);
  byId("left").value = (closest ?? others.find((one) => one.founder) ?? others[0]).id;
  byId("right").value = version.id;
  byId("comparison").hidden = false;  // nothing hidden takes the focus
  byId("comparison-title").focus();
  compare().then(() => byId("comparison-title").scrollIntoView({ block: "start" }));
}

export async function compare() {
  const query = String(new URLSearchParams({ a: byId("left").value, b: byId("right").value }));
  compared = query;
  byId("comparison").hidden = false;
  tell("loading", speech.words.comparing);
  const answer = await ask(`/api/compare?${query}`);
  if (compared !== query) return;
  if (answer.error !== undefined) {
    byId("rows").replaceChildren();
    tell("error", answer.error ? speech.words.not_compared(reasonOf(answer)) : speech.words.no_answer);
    return;
  }
  showComparison(answer.data);
}

function showComparison({ rows, words: count, cut }) {
  const { words } = speech;
  const differ = count.only_a + count.only_b ? words.differ(...[count.only_a, count.only_b, count.same].map(number)) : words.same;
  tell("", cut ? `${differ} ${words.cut}` : differ);
  for (const side of ["left", "right"]) setText(byId(`${side}-name`), byId(side).selectedOptions[0]?.textContent ?? "");
  byId("texts").hidden = false;
  byId("rows").replaceChildren(...rows.map((row) => {
    const node = make("tr", row.same ? "same" : "differs");
    node.append(makeCell("a", "left", row.a), makeCell("b", "right", row.b));
    return node;
  }));
}

function makeCell(className, side, pieces) {
  const cell = make("td", className);
  cell.dataset.name = byId(`${side}-name`).textContent;
  cell.append(...pieces.map((piece) => (piece.differs ? make("mark", "", piece.text) : document.createTextNode(piece.text))));
  return cell;
}

function tell(kind, text) {
  const node = byId("difference");
  node.className = `facts ${kind}`;
  setText(byId("difference-text"), text);
  byId("compare-again").hidden = kind !== "error";
  byId("texts").hidden = kind !== "" || !byId("rows").children.length;
}
