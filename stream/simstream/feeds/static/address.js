// What the reader sees is in the address: order, filters and page in the query, the story in the fragment.
import { byId } from "./nodes.js";

const FIRST = { sort: "newest", words: "", hours: "", sites: "1" };
const controls = byId("controls");
let page = 1;
let site = "";

export function storyInAddress() {
  return /^#story\/(\d{1,19})$/.exec(location.hash)?.[1] ?? "";
}

export function readAddress() {
  const query = new URLSearchParams(location.search);
  const asked = Number(query.get("page"));
  site = query.get("site") ?? "";
  page = Number.isSafeInteger(asked) && asked >= 1 ? Math.min(asked, 1_000_000_000) : 1;
  for (const [name, first] of Object.entries(FIRST)) {
    const field = controls.elements[name];
    field.value = query.get(name) ?? first;
    if (field.value === "" && name !== "words") field.value = first;  // the address has an unknown value
  }
}

function queryOf() {
  const form = new FormData(controls);
  const query = new URLSearchParams();
  for (const [name, first] of Object.entries(FIRST)) {
    const value = form.get(name).trim();
    if (value !== first) query.set(name, value);
  }
  if (site) query.set("site", site);
  if (page > 1) query.set("page", page);
  return String(query);
}

export function writeAddress({ toPage = 1, replace = false } = {}) {
  page = toPage;
  const query = queryOf();
  const address = `${location.pathname}${query ? `?${query}` : ""}${location.hash}`;
  history[replace ? "replaceState" : "pushState"](null, "", address);
}

export function currentPage() {
  return page;
}

export function siteLink(name) {
  return `/?${new URLSearchParams({ site: name })}`;
}

// The site whose stories are shown, if any, and the address of the stories of all sites.
export function chosenSite() {
  const others = new URLSearchParams(queryOf());
  others.delete("site");
  others.delete("page");
  return { site, all: `/?${others}` };
}

// The addresses of the feeds of what the list shows.
export function writeFeedLinks() {
  const shown = new URLSearchParams(queryOf());
  shown.delete("sort");
  shown.delete("page");
  for (const link of document.querySelectorAll("[data-feed]")) link.search = shown;
}

export function listPath() {
  const query = queryOf();
  return `/api/stories${query ? `?${query}` : ""}`;
}
