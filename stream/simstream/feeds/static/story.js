// One story: its timeline, folded if it is long, and links to two of its versions side by side.
import { closeComparison, compareWith, fillChoices } from "./compare.js";
import { byId, make, moment, number, setText, span, speech } from "./nodes.js";

const FIRST = 4;
const LAST = 6;
let unfolded = false;

export function openStory() {
  unfolded = false;
  byId("story-body").hidden = true;
  byId("gone").hidden = true;
  byId("timeline").replaceChildren();
  closeComparison();
}

export function awaitStory() {
  byId("story-waits").hidden = !byId("story-body").hidden || !byId("gone").hidden;
}

export function failStory(isGone) {
  byId("story-waits").hidden = true;
  if (!isGone) return;
  byId("story-body").hidden = true;
  byId("gone").hidden = false;
}

export function showStory(data) {
  const { words } = speech;
  byId("story-waits").hidden = true;
  byId("gone").hidden = true;
  byId("story-body").hidden = false;
  setText(byId("story-title"), data.title || words.untitled);
  document.title = `${data.title || words.untitled} · ${words.name}`;
  const facts = [words.sites(number(data.sites)), words.pages(number(data.versions)), span(data.first_seen, data.last_seen)];
  byId("story-facts").replaceChildren(...facts.map((text) => make("span", "", text)));
  showTimeline(data.timeline);
  byId("left-out").hidden = data.left_out === 0;
  setText(byId("left-out"), words.left_out(number(data.left_out)));
  setText(byId("status"), "");
  fillChoices(data.timeline);
}

function showTimeline(timeline) {
  const middle = unfolded ? [] : timeline.slice(FIRST, -LAST).filter((version) => !version.founder);
  const folded = new Set(middle.length > 1 ? middle : []);
  const nodes = [];
  for (const version of timeline) {
    if (!folded.has(version)) nodes.push(makeStep(version, timeline));
    else if (version === middle[0]) nodes.push(makeFold(folded.size, timeline));
  }
  byId("timeline").replaceChildren(...nodes);
}

function makeFold(count, timeline) {
  const node = make("li", "step fold");
  const button = make("button", "", speech.words.fold(number(count)));
  button.type = "button";
  button.setAttribute("aria-expanded", "false");
  button.addEventListener("click", () => {
    unfolded = true;
    showTimeline(timeline);
    byId("timeline").children[FIRST]?.querySelector("a, button")?.focus();
  });
  node.append(button);
  return node;
}

function makeStep(version, all) {
  const { words } = speech;
  const name = `${all.indexOf(version) + 1}. ${version.site || version.id}`;  // as the comparison names it
  const node = make("li", version.founder ? "step founder" : "step");
  node.append(make("p", "title", version.title || words.untitled));
  const facts = make("p", "facts");
  const when = make("time", "", moment(version.first_seen));
  when.dateTime = new Date(version.first_seen).toISOString();
  facts.append(when, make("span", "", version.site));
  if (version.founder) facts.append(make("span", "", words.founder));
  if (version.similarity !== null) facts.append(makeAlike(version, all));
  if (version.url) {
    const link = make("a", "", words.open);
    link.setAttribute("aria-label", `${words.open}: ${name}`);
    link.href = version.url;
    link.rel = "noopener noreferrer";
    link.target = "_blank";
    facts.append(link);
  }
  if (all.length > 1) {
    const button = make("button", "", words.compare);
    button.setAttribute("aria-label", `${words.compare}: ${name}`);
    button.type = "button";
    button.addEventListener("click", () => compareWith(version, all));
    facts.append(button);
  }
  node.append(facts);
  return node;
}

function makeAlike(version, all) {
  const { words } = speech;
  const alike = make("span", "alike");
  const meter = make("meter");
  meter.max = 1;
  meter.value = version.similarity;
  meter.setAttribute("aria-hidden", "true");
  const other = all.find((one) => one.id === version.near_duplicate_of);
  alike.append(meter, make("span", "", words.alike(Math.round(version.similarity * 100), other && other.site)));
  return alike;
}
