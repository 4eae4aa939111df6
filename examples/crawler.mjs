// Crawls a site, and fetches few copies: Node 18 or later, no packages. Prints the address of each page that is no copy.
//
//     node examples/crawler.mjs http://127.0.0.1:9470 https://a.example/ [patterns.json]
//
// The service: docs/how-to/crawler-http.md. A token, if it wants one, is in the environment: JUDGE_TOKEN.

import { readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";

import { CrawlQueue, parsed } from "./crawl_queue.mjs";
import { judge } from "./judge_pages.mjs";

const AT_ONCE = 8;
const MOST_PAGES = 5000;
const FETCH_SECONDS = 30;
const MOST_SILENT = 2; // batches without a verdict, each asked for five times, before the crawl ends
const PAUSE_SECONDS = 2; // before a page that was not there for the moment is fetched again
const TAG = /<(a|area|base)\s((?:[^>"']|"[^"]*"|'[^']*')*)>/gi; // a crawler in earnest uses a parser
const HREF = /(?:^|[\s"'])href\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+))/i;
const CHARACTERS = { amp: "&", quot: '"', apos: "'", lt: "<", gt: ">" };

/** Returns a fetched page, asking twice if its server is busy or away; null if it is no HTML, or not there. */
async function fetched(url) {
  for (let again = false; ; again = true) {
    try {
      const response = await fetch(url, { signal: AbortSignal.timeout(1000 * FETCH_SECONDS) });
      if ((response.status < 500 && response.status !== 429) || again) return await pageOf(response);
      await response.body?.cancel();
    } catch (error) {
      if (again) console.error(`${url}: ${error.cause?.message ?? error.message}`);
      if (again) return null;
    }
    await sleep(1000 * PAUSE_SECONDS);
  }
}

async function pageOf(response) {
  const type = response.headers.get("content-type") ?? "";
  if (!/^text\/html\b/i.test(type)) {
    await response.body?.cancel();
    return null;
  }
  const bytes = new Uint8Array(await response.arrayBuffer());
  const start = new TextDecoder("latin1").decode(bytes.subarray(0, 1024));
  const charset = /charset\s*=\s*["']?([\w-]+)/i.exec(`${type} ${start}`)?.[1] ?? "utf-8";
  return { address: response.url, status: response.status, html: decoderOf(charset).decode(bytes) };
}

function decoderOf(charset) {
  try {
    return new TextDecoder(charset);
  } catch {
    return new TextDecoder();
  }
}

/** Returns the addresses of a page's links within a host. A page that is not there has none. */
function linksOf({ address, status, html }, host) {
  let base = address;
  const links = [];
  for (const [, tag, attributes] of status < 400 ? html.matchAll(TAG) : []) {
    const found = HREF.exec(attributes);
    const url = found && parsed(decoded(found[1] ?? found[2] ?? found[3]).trim(), base);
    if (!url) continue;
    if (tag.toLowerCase() === "base") base = url.href;
    else if (url.host === host && /^https?:$/.test(url.protocol)) links.push(url.href);
  }
  return links;
}

const decoded = (text) =>
  text.replace(/&(?:#(\d+)|#x([\da-f]+)|(amp|quot|apos|lt|gt));/gi, (whole, decimal, hex, name) => {
    const point = decimal ? Number(decimal) : parseInt(hex, 16);
    return name ? CHARACTERS[name.toLowerCase()] : point < 0x110000 ? String.fromCodePoint(point) : whole;
  });

async function crawl(service, start, patterns) {
  const first = parsed(start);
  if (!first) throw new Error(`${start} is no address of a site: give one such as https://a.example/`);
  const queue = new CrawlQueue([first.href], { patterns });
  let host; // that of the first page, which may be another one than asked for
  let count = 0;
  let silent = 0; // batches in a row without a verdict
  while (count < MOST_PAGES) {
    const links = [];
    for (let link; links.length < AT_ONCE && (link = queue.next()); ) links.push(link);
    if (!links.length) break;
    const pages = await Promise.all(links.map(({ url }) => fetched(url)));
    if (!host && !pages[0]) throw new Error(`${start} has no HTML page, or does not answer`);
    host ??= new URL(pages[0].address).host;
    pages.forEach((page, at) => page && new URL(page.address).host !== host && (pages[at] = null));
    const found = pages.flatMap((page, at) => (page ? [{ ...page, url: links[at].url }] : []));
    const answers = await judge(service, found.map(({ url, html, status }) => ({ url, html, status })));
    const noVerdict = answers.length && answers.every((answer) => answer.status >= 500 && answer.detail);
    silent = noVerdict ? silent + 1 : 0;
    if (silent === MOST_SILENT) throw new Error(`${service} gives no verdicts: ${answers[0].detail}`);
    links.forEach((link, at) => {
      if (!pages[at]) return queue.take(link, null, []);
      const answer = answers.shift();
      if (answer.detail) console.error(`${link.url}: ${answer.detail}`);
      const isCopy = queue.take(link, answer.detail ? null : answer, linksOf(pages[at], host));
      if (!isCopy && pages[at].status < 400) console.log(link.url); // also without a verdict
    });
    count += links.length;
  }
  console.error(`${count} pages were fetched, ${queue.left} addresses were not`);
}

const [service, start, file] = process.argv.slice(2);
if (!start) {
  console.error("usage: node examples/crawler.mjs http://127.0.0.1:9470 https://a.example/ [patterns.json]");
  process.exit(2);
}
try {
  const patterns = file ? JSON.parse(readFileSync(file, "utf8")).patterns : [];
  await crawl(service, start, patterns);
} catch (error) {
  console.error(error.message);
  process.exit(1);
}
