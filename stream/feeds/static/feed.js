// The news page: asks for JSON, and again every two seconds; text of pages only ever becomes text nodes.
import { WORDS } from "./words.js";

const EVERY_MS = 2000;
const SEARCH_MS = 250;
const byId = (id) => document.getElementById(id);
const controls = byId("controls");
let language = chosenLanguage();
let words = WORDS[language];
let page = 1;
let shown = { path: "", tag: "", data: null };
let compared = "";
let timer = 0;
let turn = 0;

function chosenLanguage() {
  let kept = null;
  try { kept = localStorage.getItem("language"); } catch { /* a browser that keeps nothing */ }
  return kept in WORDS ? kept : navigator.language.startsWith("zh") ? "zh" : "en";
}

// --- small helpers

function make(tag, className, text) {
  const node = document.createElement(tag);
  if (className) node.className = className;
  if (text !== undefined) node.textContent = text;
  return node;
}

function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

function moment(ms) {
  return new Intl.DateTimeFormat(language, { dateStyle: "medium", timeStyle: "short" }).format(ms);
}

function span(first, last) {
  const [a, b] = [new Date(first), new Date(last)];
  const later = a.toDateString() === b.toDateString()
    ? new Intl.DateTimeFormat(language, { timeStyle: "short" }).format(b) : moment(b);
  return first === last || moment(a) === moment(b) ? moment(a) : words.seen(moment(a), later);
}

function percent(similarity) {
  return Math.round(similarity * 100);
}

// --- the language

function speak() {
  words = WORDS[language];
  document.documentElement.lang = language;
  document.title = words.name;
  for (const node of document.querySelectorAll("[data-word]")) node.textContent = words[node.dataset.word];
  for (const node of document.querySelectorAll("[data-label]")) node.setAttribute("aria-label", words[node.dataset.label]);
  for (const node of document.querySelectorAll("[data-placeholder]")) node.placeholder = words[node.dataset.placeholder];
  for (const node of document.querySelectorAll("[data-language]")) {
    node.setAttribute("aria-pressed", String(node.dataset.language === language));
  }
  byId("stories").replaceChildren();
  byId("timeline").replaceChildren();
  shown.tag = "";
  compared = "";
  refresh();
}

// --- the list

function listPath() {
  const form = new FormData(controls);
  const query = new URLSearchParams({ sort: form.get("sort"), at_least: form.get("at_least"), page });
  const sought = form.get("words").trim();
  if (sought) query.set("words", sought);
  const hours = Number(form.get("hours"));
  if (hours && shown.streamTime) query.set("since", shown.streamTime - hours * 3_600_000);
  return `/api/stories?${query}`;
}

function showList(data) {
  shown.streamTime = data.stream_time;
  if (page > data.pages) {
    page = data.pages;
    refresh();
    return;
  }
  const list = byId("stories");
  const old = new Map([...list.children].map((node) => [node.dataset.id, node]));
  const first = old.size === 0;
  data.stories.forEach((story, number) => {
    let node = old.get(story.id);
    old.delete(story.id);
    if (!node) {
      node = makeCard(story);
      if (!first) node.classList.add("fresh");
    }
    fillCard(node, story, data.growth_ms);
    if (list.children[number] !== node) list.insertBefore(node, list.children[number] ?? null);
  });
  for (const node of old.values()) node.remove();
  byId("nothing").hidden = data.stories.length > 0;
  setText(byId("nothing"), data.stream_time ? words.nothing : words.empty);
  byId("pager").hidden = data.pages < 2;
  setText(byId("page"), words.page(data.page, data.pages));
  byId("previous").disabled = data.page <= 1;
  byId("next").disabled = data.page >= data.pages;
  setText(byId("status"), data.stream_time ? words.stories(data.total, moment(data.stream_time)) : "");
}

function makeCard(story) {
  const node = make("li", "card");
  node.dataset.id = story.id;
  const title = make("h2");
  const link = make("a");
  link.href = `#story/${story.id}`;
  title.append(link);
  const facts = make("p", "facts");
  facts.append(make("span", "site"), make("span", "count"), make("span", "when"), make("span", "badge"));
  node.append(title, make("p", "latest"), facts);
  return node;
}

function fillCard(node, story, growthMs) {
  const title = story.title || words.untitled;
  setText(node.querySelector("a"), title);
  const latest = node.querySelector(".latest");
  latest.hidden = !story.newest_title || story.newest_title === title;
  setText(latest, words.latest(story.newest_title));
  setText(node.querySelector(".site"), story.site);
  setText(node.querySelector(".count"), `${words.pages(story.versions)} · ${words.sites(story.sites)}`);
  setText(node.querySelector(".when"), span(story.first_seen, story.last_seen));
  const badge = node.querySelector(".badge");
  badge.hidden = story.growth === 0 || story.versions < 2;
  setText(badge, words.growth(story.growth, Math.round(growthMs / 3_600_000)));
}

// --- one story

function showStory(data) {
  setText(byId("story-title"), data.title || words.untitled);
  const facts = [words.pages(data.versions), words.sites(data.sites), span(data.first_seen, data.last_seen)];
  byId("story-facts").replaceChildren(...facts.map((text) => make("span", "", text)));
  byId("timeline").replaceChildren(...data.timeline.map((version) => makeStep(version, data.timeline)));
  byId("left-out").hidden = data.left_out === 0;
  setText(byId("left-out"), words.left_out(data.left_out));
  setText(byId("status"), "");
  fillChoices(data.timeline);
}

function makeStep(version, all) {
  const node = make("li", version.founder ? "step founder" : "step");
  node.append(make("p", "title", version.title || words.untitled));
  const facts = make("p", "facts");
  const when = make("time", "", moment(version.first_seen));
  when.dateTime = new Date(version.first_seen).toISOString();
  facts.append(when, make("span", "", version.site));
  if (version.founder) facts.append(make("span", "", words.founder));
  if (version.similarity !== null) {
    const alike = make("span", "alike");
    const meter = make("meter");
    meter.max = 1;
    meter.value = version.similarity;
    meter.setAttribute("aria-hidden", "true");
    const other = all.find((one) => one.id === version.near_duplicate_of);
    alike.append(meter, make("span", "", words.alike(percent(version.similarity)) + (other && other.site ? ` ${words.like(other.site)}` : "")));
    facts.append(alike);
  }
  if (version.url) {
    const link = make("a", "", words.open);
    link.href = version.url;
    link.rel = "noopener noreferrer";
    link.target = "_blank";
    facts.append(link);
  }
  if (all.length > 1) {
    const button = make("button", "", words.compare);
    button.type = "button";
    button.addEventListener("click", () => {
      const others = all.filter((one) => one !== version);
      const closest = others.find((one) => one.id === version.near_duplicate_of);
      byId("left").value = (closest ?? others.find((one) => one.founder) ?? others[0]).id;
      byId("right").value = version.id;
      compare(true);
    });
    facts.append(button);
  }
  node.append(facts);
  return node;
}

function fillChoices(timeline) {
  for (const [name, fallback] of [["left", 0], ["right", 1]]) {
    const select = byId(name);
    const kept = select.value;
    select.replaceChildren(...timeline.map((version, number) => {
      const option = make("option", "", `${number + 1}. ${version.site || version.id}`);
      option.value = version.id;
      return option;
    }));
    select.value = timeline.some((version) => version.id === kept) ? kept : timeline[Math.min(fallback, timeline.length - 1)].id;
  }
}

async function compare(jump) {
  const query = new URLSearchParams({ a: byId("left").value, b: byId("right").value });
  if (!jump && compared === String(query)) return;
  compared = String(query);
  byId("comparison").hidden = false;
  const answer = await ask(`/api/compare?${query}`);
  if (compared !== String(query)) return;
  if (answer.error !== undefined) {
    setText(byId("difference"), answer.error);
    byId("text-a").replaceChildren();
    byId("text-b").replaceChildren();
    return;
  }
  const { a, b, words: count, cut } = answer.data;
  const differ = count.only_a + count.only_b ? words.differ(count.only_a, count.only_b, count.same) : words.same;
  setText(byId("difference"), cut ? `${differ} ${words.cut}` : differ);
  fillText("text-a", a, "left");
  fillText("text-b", b, "right");
  if (jump) byId("comparison-title").focus();
}

function fillText(id, pieces, choice) {
  const node = byId(id);
  node.setAttribute("aria-label", byId(choice).selectedOptions[0]?.textContent ?? "");
  node.replaceChildren(...pieces.map((piece) => (piece.differs ? make("mark", "", piece.text) : document.createTextNode(piece.text))));
}

// --- asking

async function ask(path, tag) {
  try {
    const answer = await fetch(path, { headers: tag ? { "If-None-Match": tag } : {}, cache: "no-store" });
    if (answer.status === 304) return { same: true };
    const data = await answer.json();
    if (!answer.ok) return { error: data.error ?? words.away, status: answer.status };
    return { data, tag: answer.headers.get("ETag") };
  } catch {
    return { error: words.away, status: 0 };
  }
}

async function refresh() {
  clearTimeout(timer);
  const mine = ++turn;
  const story = /^#story\/(\d+)$/.exec(location.hash)?.[1];
  const path = story ? `/api/stories/${story}` : listPath();
  const answer = await ask(path, shown.path === path ? shown.tag : "");
  if (mine !== turn) return;
  byId("home").querySelector(".dot").classList.toggle("away", answer.status === 0);
  timer = setTimeout(refresh, document.hidden ? 5 * EVERY_MS : EVERY_MS);
  if (answer.same) return;
  byId("list").hidden = Boolean(story);
  byId("story").hidden = !story;
  if (answer.error !== undefined) {
    shown.tag = "";
    setText(byId("status"), answer.status === 404 ? words.gone : answer.error);
    return;
  }
  const moved = shown.path.split("?")[0] !== path.split("?")[0];
  shown = { ...shown, path, tag: answer.tag };
  if (!story) return void showList(answer.data);
  if (moved) {
    byId("comparison").hidden = true;
    byId("left").replaceChildren();
    byId("right").replaceChildren();
    compared = "";
  }
  const focused = byId("timeline").contains(document.activeElement);
  if (moved || !focused) showStory(answer.data);
  else shown.tag = "";  // not under the reader's fingers: again, once the focus has gone on
  if (moved) byId("story-title").focus();
}

let searching = 0;
controls.addEventListener("input", () => {
  clearTimeout(searching);
  searching = setTimeout(() => { page = 1; refresh(); }, SEARCH_MS);
});
controls.addEventListener("submit", (event) => event.preventDefault());
byId("previous").addEventListener("click", () => { page -= 1; refresh(); scrollTo(0, 0); });
byId("next").addEventListener("click", () => { page += 1; refresh(); scrollTo(0, 0); });
byId("left").addEventListener("change", () => compare(false));
byId("right").addEventListener("change", () => compare(false));
for (const button of document.querySelectorAll("[data-language]")) {
  button.addEventListener("click", () => {
    language = button.dataset.language;
    try { localStorage.setItem("language", language); } catch { /* then only for now */ }
    speak();
  });
}
addEventListener("hashchange", () => { scrollTo(0, 0); refresh(); });
document.addEventListener("visibilitychange", () => { if (!document.hidden) refresh(); });
speak();
