// Crawls a site, and fetches few copies: Node 18 or later, no packages. Prints the address of each page that is no copy.
//
//     node examples/crawler.mjs http://127.0.0.1:9470 https://a.example/ [patterns.json]
//
// The service: docs/how-to/crawler-http.md. A token, if it wants one, is in the environment: JUDGE_TOKEN.

import { readFileSync } from "node:fs";

import { CrawlQueue } from "./crawl_queue.mjs";
import { CopyFinder, judge } from "./judge_pages.mjs";

const AT_ONCE = 8;
const MOST_PAGES = 5000;
const FETCH_SECONDS = 30;
const LINK = /<a\s[^>]*?href\s*=\s*["']([^"'#]+)/gi; // a crawler in earnest uses a parser

/** Returns a fetched page of HTML, with its links within the host; null if there is none. */
async function fetched(link, host) {
  try {
    const response = await fetch(link.url, { signal: AbortSignal.timeout(1000 * FETCH_SECONDS) });
    if (!/^text\/html\b/i.test(response.headers.get("content-type") ?? "")) return null;
    const html = await response.text();
    const hrefs = [...html.matchAll(LINK)].map(([, href]) => address(href.replaceAll("&amp;", "&"), response.url));
    const links = hrefs.filter((url) => url?.host === host).map((url) => url.href);
    return { page: { url: link.url, html, status: response.status }, links };
  } catch (error) {
    console.error(`${link.url}: ${error.cause?.message ?? error.message}`);
    return null;
  }
}

function address(href, base) {
  try {
    return new URL(href, base);
  } catch {
    return null;
  }
}

async function crawl(service, start, patterns) {
  const { host, href } = new URL(start);
  const queue = new CrawlQueue([href], { patterns });
  const copies = new CopyFinder();
  let count = 0;
  while (count < MOST_PAGES) {
    const links = [];
    for (let link; links.length < AT_ONCE && (link = queue.next()); ) links.push(link);
    if (!links.length) break;
    const found = await Promise.all(links.map((link) => fetched(link, host)));
    const answers = await judge(service, found.filter(Boolean).map(({ page }) => page));
    links.forEach((link, at) => {
      if (!found[at]) return queue.take(link, null, []);
      const answer = answers.shift();
      if (answer.detail) console.error(`${link.url}: ${answer.detail}`);
      else if (!copies.isCopy(answer)) console.log(link.url);
      queue.take(link, answer.detail ? null : answer, found[at].links); // without a verdict its links are followed
    });
    count += links.length;
  }
  console.error(`${count} pages were fetched`);
}

const [service, start, file] = process.argv.slice(2);
if (!start) {
  console.error("usage: node examples/crawler.mjs http://127.0.0.1:9470 https://a.example/ [patterns.json]");
  process.exit(2);
}
const patterns = file ? JSON.parse(readFileSync(file, "utf8")).patterns : [];
await crawl(service, start, patterns).catch((error) => {
  console.error(error.message);
  process.exit(1);
});
