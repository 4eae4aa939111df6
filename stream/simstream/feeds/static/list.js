// The list of stories.
import { chosenSite, currentPage, siteLink } from "./address.js";
import { byId, make, moment, number, setText, span, speech } from "./nodes.js";

const SKELETONS = 5;

export function clearList() {
  byId("stories").replaceChildren();
}

export function awaitList() {
  const list = byId("stories");
  byId("list").setAttribute("aria-busy", "true");
  if (list.children.length) return;
  list.replaceChildren(...Array.from({ length: SKELETONS }, () => make("li", "card skeleton")));
  byId("nothing").hidden = true;
}

export function failList() {
  byId("list").removeAttribute("aria-busy");
  for (const node of byId("stories").querySelectorAll(".skeleton")) node.remove();
}

export function showList(data) {
  const { words } = speech;
  failList();
  const list = byId("stories");
  const old = new Map([...list.children].map((node) => [node.dataset.id, node]));
  const first = old.size === 0;
  data.stories.forEach((story, place) => {
    let node = old.get(story.id);
    old.delete(story.id);
    if (!node) {
      node = makeCard(story);
      if (!first) node.classList.add("fresh");
    }
    fillCard(node, story, data.growth_ms);
    if (list.children[place] !== node) list.insertBefore(node, list.children[place] ?? null);
  });
  for (const node of old.values()) node.remove();
  const { site, all } = chosenSite();
  byId("chosen").hidden = !site;
  setText(byId("chosen-site"), words.of_site(site));
  byId("all-sites").href = all;
  byId("nothing").hidden = data.stories.length > 0;
  setText(byId("nothing"), data.stream_time ? words.nothing : words.empty);
  byId("pager").hidden = data.pages < 2;
  setText(byId("page"), words.page(number(data.page), number(data.pages)));
  byId("previous").disabled = currentPage() <= 1;
  byId("next").disabled = currentPage() >= data.pages;
  setText(byId("status"), data.stream_time ? words.stories(number(data.total), moment(data.stream_time)) : "");
  tellLeftOut(data.left_out, data.untitled, words.duration(data.window_ms / 1000));
}

function tellLeftOut({ too_old: tooOld, too_many: tooMany, lists }, untitled, windowTime) {
  const { words } = speech;
  const told = [];
  if (tooOld) told.push(words.too_old(number(tooOld), windowTime));
  if (lists) told.push(words.lists(number(lists)));
  if (tooMany) told.push(words.too_many(number(tooMany)));
  const sentences = told.length ? [words.not_shown(told)] : [];
  if (untitled) sentences.push(words.by_address(number(untitled)));
  byId("not-shown").hidden = sentences.length === 0;
  setText(byId("not-shown"), sentences.join(" "));
}

function makeCard(story) {
  const node = make("li", "card");
  node.dataset.id = story.id;
  const title = make("h2");
  const link = make("a");
  link.href = `#story/${story.id}`;
  title.append(link);
  const facts = make("p", "facts");
  facts.append(make("a", "site"), make("span", "count"), make("span", "when"), make("span", "badge"));
  const latest = make("p", "latest");
  latest.append(make("span"), make("bdi"));
  node.append(title, latest, facts);
  return node;
}

function fillCard(node, story, growthMs) {
  const { words } = speech;
  const title = story.title || words.untitled;
  setText(node.querySelector("a"), title);
  const latest = node.querySelector(".latest");
  latest.hidden = !story.newest_title || story.newest_title === title;
  setText(latest.firstChild, words.latest);
  setText(latest.lastChild, story.newest_title ?? "");
  const site = node.querySelector(".site");
  setText(site, story.site);
  site.href = siteLink(story.site);
  site.hidden = !story.site;
  setText(node.querySelector(".count"), `${words.sites(number(story.sites))} · ${words.pages(number(story.versions))}`);
  setText(node.querySelector(".when"), span(story.first_seen, story.last_seen));
  const badge = node.querySelector(".badge");
  badge.hidden = story.growth === 0 || story.versions < 2;
  setText(badge, words.growth(number(story.growth), words.duration(growthMs / 1000)));
}
