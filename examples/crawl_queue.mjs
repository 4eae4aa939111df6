// Decides in which order a crawl fetches its links, and which it leaves out: Node 18 or later, no packages. It is the rule
// of simstream's middleware for Scrapy, docs/tutorials/crawler.md. But on a page that is no copy it follows all links, also
// those to print pages. So an endless number of them, or of pages with too little text to compare, never ends: set a limit.

import { CopyFinder } from "./judge_pages.mjs";
import { addressForms } from "./plain_address.mjs";

const TRIALS = 8; // a kind of address is given up after so many copies in a row
const PAGES_A_TRIAL = 4; // or after one for so many new pages that it brought, if that is more
const FAMILY_TRIALS = 8; // times as many for all kinds with one first segment, for sites where every page is of its own kind
const MOST_THROUGH = 8;
const MOST_PROGRAMS = 8; // so many names before a `?`, or words behind it, are kinds of their own; more are titles
const MOST_WAITING = 20_000; // further links of copies are left out
const MOST_NAME = 16;
const SAMPLE_EVERY = 100; // one in so many addresses that a pattern calls a copy is fetched nevertheless

/** A list from which the first entry is taken, in constant time. */
class Line {
  #entries = [];
  #first = 0;

  push(entry) {
    this.#entries.push(entry);
  }

  shift() {
    if (this.#first === this.#entries.length) return undefined;
    const entry = this.#entries[this.#first];
    this.#entries[this.#first++] = undefined;
    if (this.#first > 1000 && 2 * this.#first > this.#entries.length) {
      this.#entries = this.#entries.slice(this.#first);
      this.#first = 0;
    }
    return entry;
  }

  get length() {
    return this.#entries.length - this.#first;
  }
}

/**
 * The links of a crawl. Memory: some entries for each address, and for each link of each text.
 *
 *     const queue = new CrawlQueue(["https://a.example/"]);
 *     for (let link; (link = queue.next()); ) queue.take(link, verdict, links); // after its fetch
 *
 * `next` may be called several times before `take`, for pages that are fetched at once. With `patterns`, those of
 * `simstream patterns`, links that they call copies of fetched pages are left out.
 */
export class CrawlQueue {
  #now = new Line();
  #late = new Line(); // links with a pattern: their plain addresses come first
  #waiting = new Map(); // links of copies, by kind of address
  #places = new Map(); // where each address is: now, late, waiting, fetched or skipped
  #held = 0;
  #names = new Set(); // in addresses of fetched pages: paths, numbers or names of pages, values of parameters
  #programs = new Map(); // by kind of addresses with a query: its kinds with names, until these are too many
  #originals = new Set(); // paths and parameters of pages that are no copies
  #ledTo = new Set(); // those of the links of all pages with one text
  #kinds = new Map();
  #copies = new CopyFinder();
  #predictor;

  constructor(start, { patterns = [] } = {}) {
    this.#predictor = new CopyPredictor(patterns);
    for (const url of start) this.#follow({ url, through: [] });
  }

  /** How many addresses were found, and are not fetched: a crawl that has ended leaves them out. */
  get left() {
    return [...this.#places.values()].filter((place) => place !== "fetched").length;
  }

  /** Returns the next link to fetch; undefined if there is none, or none until `take` has been called for others. */
  next() {
    const link = this.#shift(this.#now, "now") ?? this.#shift(this.#late, "late") ?? this.#tried();
    if (!link) return undefined;
    this.#places.set(link.url, "fetched");
    link.kind ??= this.#kindNow(link.url);
    this.#kind(link.kind).pending++;
    const { path, last, values } = namesOf(link.url);
    for (const name of [path, last, ...values.values()]) this.#names.add(name);
    return link;
  }

  /**
   * Takes in a fetched page: its verdict, or null if it has none, and the addresses of its links, [] if the fetch failed.
   * Returns whether the page is a copy of another one of this crawl.
   */
  take(link, verdict, links) {
    this.#kind(link.kind).pending--;
    const isCompared = verdict?.cluster_id != null;
    const isCopy = isCompared && this.#copies.isCopy(verdict);
    if (isCompared) {
      const leads = this.#leadsToOriginals(link.url, verdict.cluster_id, isCopy, links);
      if (isCopy && !leads) for (const kind of [link.kind, familyOf(link.kind)]) this.#kind(kind).wasted++;
      if (!isCopy) for (const kind of new Set([link.kind, ...link.through])) this.#credit(kind);
      this.#predictor.add(link.url, verdict.cluster_id, links);
    }
    const through = isCopy ? [link.kind, ...link.through].slice(0, MOST_THROUGH) : isCompared ? [] : link.through;
    for (const address of links) {
      const url = address.split("#", 1)[0];
      if (isCopy) this.#hold({ url, through });
      else this.#follow({ url, through });
    }
    return isCopy;
  }

  /**
   * Returns whether a copy has a link to a page that is none, and that no page with its text had. So an archive whose
   * pages share an introduction is followed through its known articles to the unknown ones.
   */
  #leadsToOriginals(url, cluster, isCopy, links) {
    if (!isCopy) for (const name of linkNamesOf(url)) this.#originals.add(name);
    let found = false;
    for (const name of links.flatMap(linkNamesOf)) {
      const key = `${cluster} ${name}`;
      found ||= this.#originals.has(name) && !this.#ledTo.has(key);
      this.#ledTo.add(key);
    }
    return found;
  }

  #follow(link) {
    const place = this.#places.get(link.url);
    if (place && place !== "waiting") return;
    const isLate = this.#predictor.hasPattern(link.url);
    (isLate ? this.#late : this.#now).push(link);
    this.#places.set(link.url, isLate ? "late" : "now");
  }

  #hold(link) {
    if (this.#places.has(link.url)) return;
    const kind = this.#kindNow(link.url);
    const { brought, wasted } = this.#kind(kind);
    if (brought && !wasted) return this.#follow(link); // the last page of this kind was no copy
    if (this.#held === MOST_WAITING) return this.#places.set(link.url, "skipped");
    this.#held++;
    this.#places.set(link.url, "waiting");
    this.#waitingOf(kind).push(link);
  }

  #waitingOf(kind) {
    if (!this.#waiting.has(kind)) this.#waiting.set(kind, new Line());
    return this.#waiting.get(kind);
  }

  /** Returns the first link of a list that is still in this place, and no copy by a pattern. */
  #shift(list, place) {
    for (let link; (link = list.shift()); ) {
      if (place === "waiting") this.#held--;
      if (this.#places.get(link.url) !== place) continue;
      if (!this.#predictor.isCopy(link.url)) return link;
      this.#places.set(link.url, "skipped");
    }
  }

  /** Returns a waiting link of a kind that has trials left; kinds take turns. */
  #tried() {
    const kinds = [...this.#waiting.keys()];
    for (const kind of kinds) {
      if (this.#trials(kind) <= 0) continue;
      const links = this.#waiting.get(kind);
      if (!links) continue;
      for (let link; (link = this.#shift(links, "waiting")); ) {
        link.kind = this.#kindNow(link.url);
        if (link.kind === kind) {
          this.#waiting.delete(kind);
          if (links.length) this.#waiting.set(kind, links);
          return link;
        }
        kinds.push(link.kind); // what was fetched meanwhile makes it one of another kind
        this.#held++;
        this.#waitingOf(link.kind).push(link);
      }
      this.#waiting.delete(kind);
    }
  }

  #trials(kind) {
    const { brought, wasted, pending } = this.#kind(kind);
    const left = Math.max(TRIALS, Math.floor(brought / PAGES_A_TRIAL)) - wasted;
    const family = TRIALS * FAMILY_TRIALS - this.#kind(familyOf(kind)).wasted;
    return (brought ? left : Math.min(left, family)) - pending;
  }

  #credit(kind) {
    for (const name of [kind, familyOf(kind)]) {
      const record = this.#kind(name);
      record.brought++;
      record.wasted = 0;
    }
  }

  #kind(name) {
    if (!this.#kinds.has(name)) this.#kinds.set(name, { brought: 0, wasted: 0, pending: 0 });
    return this.#kinds.get(name);
  }

  /**
   * Returns the kind of an address, with a mark that says what is new in it. So session numbers of fetched pages do not use
   * up the trials of pages that nobody has seen.
   */
  #kindNow(url) {
    const { path, last, values } = namesOf(url);
    const kind = values.size ? this.#withProgram(url) : kindOf(url);
    if (!this.#names.has(path)) return (this.#names.has(last) ? "named:" : "") + kind;
    const fresh = [...values].filter(([, value]) => !this.#names.has(value)).map(([name]) => encodeURIComponent(name));
    return fresh.length ? `value:${kind} +${fresh.sort().join(",")}` : `seen:${kind}`;
  }

  /** Returns the kind of an address with a query, with the name before it and words in it if these are few. */
  #withProgram(url) {
    let kind = kindOf(url);
    for (const finer of [kindOf(url, { withName: true }), kindOf(url, { withName: true, withWords: true })]) {
      if (!this.#programs.has(kind)) this.#programs.set(kind, new Set());
      const names = this.#programs.get(kind);
      if (names.size <= MOST_PROGRAMS) names.add(finer);
      if (names.size > MOST_PROGRAMS) break;
      kind = finer;
    }
    return kind;
  }
}

/** Predicts by learned patterns which addresses bring copies of fetched pages, once eight in a row of their kind have. */
class CopyPredictor {
  #formsOf;
  #fetched = new Map(); // by plain address: cluster, form and plain links of its first page
  #copies = new Map(); // for two forms and a kind of address: how many in a row were copies

  constructor(patterns) {
    this.#formsOf = patterns.length ? addressForms(patterns) : () => null;
  }

  hasPattern(url) {
    return Boolean(this.#formsOf(url)?.form);
  }

  isCopy(url) {
    const { plain, form } = this.#formsOf(url) ?? {};
    const before = this.#fetched.get(plain);
    if (!form || !before || (this.#copies.get(pairOf(plain, form, before.form)) ?? 0) < TRIALS) return false;
    return [...url].reduce((sum, char) => (sum * 31 + char.codePointAt(0)) % 1_000_003, 7) % SAMPLE_EVERY !== 0;
  }

  add(url, cluster, links) {
    const { plain, form } = this.#formsOf(url) ?? {};
    if (plain === undefined) return;
    const own = new Set(links.map((link) => this.#formsOf(link)?.plain ?? link.split("#", 1)[0]));
    const before = this.#fetched.get(plain);
    if (!before || !form) {
      this.#fetched.set(plain, { cluster, form, links: own });
      return;
    }
    const hasOwn = [...own].some((link) => link !== plain && !before.links.has(link) && !this.#fetched.has(link));
    const pair = pairOf(plain, form, before.form);
    this.#copies.set(pair, before.cluster === cluster && !hasOwn ? (this.#copies.get(pair) ?? 0) + 1 : 0);
  }
}

const pairOf = (plain, form, before) => JSON.stringify([form, before, kindOf(plain, { withName: true })]);
const familyOf = (kind) => kind.split(" ", 1)[0];

/**
 * Returns the kind of an address: host, path and names of parameters, without numbers, names and titles. `withName`: a
 * short name at the path's end stays. `withWords`: so does the value of a parameter that is a short word.
 */
export function kindOf(url, { withName = false, withWords = false } = {}) {
  const parts = parsed(url);
  if (!parts) return "? ?";
  const segments = parts.pathname.split("/").filter(Boolean);
  const path = segments.map((segment, at) => masked(segment, !withName && at === segments.length - 1));
  const query = [...parts.searchParams].map(([name, value]) => (withWords && isWord(value) ? `${name}=${value}` : name));
  return `${parts.host}/${path[0] ?? ""} ${path.slice(1).join("/")}?${[...new Set(query)].sort().join("&")}`;
}

const isWord = (value) => value.length <= MOST_NAME && /^[\p{L}_-]*\p{L}[\p{L}_-]*$/u.test(value);

function masked(segment, isTitle) {
  const numbers = segment.match(/\d+/g) ?? [];
  const without = segment.replace(/\d+/g, "#");
  if (numbers.length) return numbers.length <= 2 && without.length <= 12 ? without : "*";
  return isTitle || segment.length > MOST_NAME || segment.split("-").length > 2 ? "*" : segment;
}

/** Returns the path of an address, the numbers or the name in its last part, and the values of its parameters by name. */
function namesOf(url) {
  const parts = parsed(url) ?? new URL("https://unreadable/");
  const path = parts.host + parts.pathname.replace(/;[^/]*/g, "").replace(/\/+$/, "");
  const last = path.slice(path.lastIndexOf("/") + 1);
  const name = (last.match(/\d+/g) ?? []).join("-") || last.split(".", 1)[0];
  const values = new Map([...parts.searchParams].map(([name, value]) => [name, `${path}?${name}=${value}`]));
  return { path, last: `${parts.host}#${name}`, values };
}

/** Returns what makes a link different from others: its path, and the value of each parameter. */
function linkNamesOf(url) {
  const { path, values } = namesOf(url);
  return [path, ...values.values()];
}

/** Returns an address in its parts; null if it cannot be read. */
export function parsed(href, base) {
  try {
    return new URL(href, base);
  } catch {
    return null;
  }
}
