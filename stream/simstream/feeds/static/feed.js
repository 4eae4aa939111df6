// The news page: asks for JSON, and again every two seconds; text of pages only ever becomes text nodes.
import { currentPage, listPath, readAddress, storyInAddress, writeAddress, writeFeedLinks } from "./address.js";
import { ask } from "./ask.js";
import { compare } from "./compare.js";
import { awaitList, clearList, failList, showList } from "./list.js";
import { byId, choose, setText, speech } from "./nodes.js";
import { noticeOf, show } from "./notice.js";
import { awaitStory, failStory, openStory, showStory } from "./story.js";

const EVERY_MS = 2000;
const SEARCH_MS = 250;
const WAITING_MS = 3000;
const shown = { view: "", path: "", tag: "", notice: ["", ""], scroll: 0 };
let timer = 0;
let turn = 0;

function speak() {
  const { language, words } = speech;
  document.documentElement.lang = language;
  document.title = words.name;
  for (const node of document.querySelectorAll("[data-word]")) node.textContent = words[node.dataset.word];
  for (const node of document.querySelectorAll("[data-label]")) node.setAttribute("aria-label", words[node.dataset.label]);
  for (const node of document.querySelectorAll("[data-placeholder]")) node.placeholder = words[node.dataset.placeholder];
  for (const node of document.querySelectorAll("[data-language]")) {
    node.setAttribute("aria-pressed", String(node.dataset.language === language));
  }
  clearList();
  shown.tag = "";
  if (!byId("comparison").hidden) compare();
  refresh();
}

// --- which of the two views

function turnTo(story) {
  const view = story || "list";
  if (shown.view === view) return;
  if (shown.view === "list") shown.scroll = scrollY;
  byId("list").hidden = Boolean(story);
  byId("story").hidden = !story;
  document.title = speech.words.name;
  if (story) openStory();
  scrollTo(0, story || !shown.view ? 0 : shown.scroll);
  Object.assign(shown, { view, path: "", tag: "" });
}

async function refresh() {
  clearTimeout(timer);
  const mine = ++turn;
  const story = storyInAddress();
  turnTo(story);
  const path = story ? `/api/stories/${story}` : listPath();
  const isNew = shown.path !== path;
  if (isNew) (story ? awaitStory : awaitList)();
  const slow = setTimeout(() => mine === turn && byId("notice").hidden && show(["loading", speech.words.waiting]), WAITING_MS);
  const answer = await ask(path, isNew ? "" : shown.tag);
  clearTimeout(slow);
  if (mine !== turn) return;
  timer = setTimeout(refresh, document.hidden ? 5 * EVERY_MS : EVERY_MS);
  const notice = noticeOf(answer);
  if (!answer.same) shown.notice = notice;
  show(shown.notice);
  byId("home").querySelector(".dot").classList.toggle("away", ["away", "error"].includes(shown.notice[0]));
  if (!answer.same) take(answer, story, path);
}

function take(answer, story, path) {
  byId("main").classList.toggle("stale", answer.error !== undefined && answer.status !== 404);
  if (answer.error !== undefined) {
    shown.tag = "";
    if (answer.condition?.state === "reading") return;
    if (story) failStory(answer.status === 404);
    else failList();
    return;
  }
  if (!story) showPage(answer, path);
  else showStoryOf(answer, path);
}

// Has a screen reader read a sentence, also if it is the last one again.
function say(sentence) {
  byId("said").textContent = "";
  requestAnimationFrame(() => setText(byId("said"), sentence));
}

function showPage({ data, tag }, path) {
  if (currentPage() > data.pages) {
    writeAddress({ toPage: data.pages, replace: true });
    refresh();
    return;
  }
  const isNew = shown.path !== path;
  Object.assign(shown, { path, tag });
  showList(data);
  if (isNew) say(byId("status").textContent);  // a list that grows by itself is not read out
  writeFeedLinks();
}

function showStoryOf({ data, tag }, path) {
  const isNew = shown.path !== path;
  Object.assign(shown, { path, tag });
  if (!isNew && byId("timeline").contains(document.activeElement)) {
    shown.tag = "";  // do not change a focused element: draw it again once the focus has moved
    return;
  }
  showStory(data);
  if (isNew) byId("story-title").focus({ preventScroll: true });
}

// --- what the reader does

function goTo(page) {
  writeAddress({ toPage: page });
  refresh();
  scrollTo(0, 0);
}

let searching = 0;
byId("controls").addEventListener("input", (event) => {
  const isTyped = event.target.name === "words";
  clearTimeout(searching);
  searching = setTimeout(() => {
    writeAddress({ replace: isTyped });
    refresh();
  }, isTyped ? SEARCH_MS : 0);
});
byId("controls").addEventListener("submit", (event) => event.preventDefault());
byId("previous").addEventListener("click", () => goTo(currentPage() - 1));
byId("next").addEventListener("click", () => goTo(currentPage() + 1));
byId("again").addEventListener("click", refresh);
byId("compare-again").addEventListener("click", compare);
byId("left").addEventListener("change", compare);
byId("right").addEventListener("change", compare);
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();  // the fragment says which story is shown
  byId("main").focus();
});
for (const button of document.querySelectorAll("[data-language]")) {
  button.addEventListener("click", () => {
    choose(button.dataset.language);
    speak();
  });
}
function followAddress() {
  readAddress();
  refresh();
}
addEventListener("popstate", followAddress);
addEventListener("hashchange", followAddress);
document.addEventListener("visibilitychange", () => { if (!document.hidden) refresh(); });
byId("controls").hidden = byId("languages").hidden = false;
readAddress();
speak();
