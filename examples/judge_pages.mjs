// Judges the pages of a file in JavaScript: Node 18 or later, no packages. Prints each page that is worth keeping.
//
//     node examples/judge_pages.mjs http://127.0.0.1:9470 examples/pages.jsonl
//
// The service: docs/how-to/crawler-http.md. A token, if it wants one, is in the environment: JUDGE_TOKEN.

import { realpathSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";
import { pathToFileURL } from "node:url";

const MOST_PAGES = 100; // at most 1,000 pages and 16 MB go into one request
const MOST_BYTES = 8 << 20;
const MOST_PAGE_BYTES = 10 << 20;
const ANSWER_SECONDS = 120; // the service answers a page within 30 seconds, and all of a request within this time
const MOST_PAUSES = 4; // of 1, 2, 4 and 8 seconds

/** Tells copies from pages whose links are to be followed first, within one crawl. Memory: an entry for each cluster. */
export class CopyFinder {
  #followed = new Map();

  /** Returns whether this crawl has seen the page's text under another address. */
  isCopy({ id, cluster_id: cluster }) {
    if (cluster === null || cluster === undefined) return false; // nothing to compare, such as a short list of links
    if (!this.#followed.has(cluster)) this.#followed.set(cluster, id);
    return this.#followed.get(cluster) !== id;
  }
}

/**
 * Returns the answer of each page, in order: a verdict, or { line, status, detail }.
 *
 * Asks up to five times for pages that have no verdict because the service is away, busy or late.
 */
export async function judge(service, pages) {
  const address = addressOf(service);
  const bodies = pages.map((page) => JSON.stringify(page));
  const isTooLarge = (at) => Buffer.byteLength(bodies[at]) > MOST_PAGE_BYTES;
  const answers = [];
  for (const at of [...pages.keys()].filter(isTooLarge)) {
    answers[at] = { line: at + 1, status: 413, detail: `the page is larger than ${MOST_PAGE_BYTES} bytes` };
  }
  let open = [...pages.keys()].filter((at) => !answers[at]);
  for (let pauses = 0; open.length; pauses++) {
    for (const batch of batches(open, bodies)) {
      const lines = await ask(address, batch.map((at) => bodies[at]));
      batch.forEach((at, line) => (answers[at] = lines[line].detail ? { ...lines[line], line: at + 1 } : lines[line]));
    }
    open = open.filter((at) => answers[at].detail && answers[at].status >= 500);
    if (!open.length || pauses === MOST_PAUSES) break;
    console.error(`${open.length === 1 ? "1 page has" : `${open.length} pages have`} no verdict (${answers[open[0]].detail}): waiting`);
    await sleep(1000 * 2 ** pauses);
  }
  return answers;
}

function addressOf(service) {
  try {
    return new URL(`${service.replace(/\/$/, "")}/judge?timeout=30`);
  } catch {
    throw new Error(`${service} is no address of a service: give one such as http://127.0.0.1:9470`);
  }
}

/** Yields the numbers of pages that go into one request. */
function* batches(numbers, bodies) {
  let batch = [];
  let bytes = 0;
  for (const at of numbers) {
    const size = Buffer.byteLength(bodies[at]);
    if (batch.length === MOST_PAGES || (batch.length && bytes + size > MOST_BYTES)) {
      yield batch;
      [batch, bytes] = [[], 0];
    }
    batch.push(at);
    bytes += size;
  }
  if (batch.length) yield batch;
}

/** Returns the answer to each page; all have the status 503 if the service is away. */
async function ask(address, bodies) {
  const token = process.env.JUDGE_TOKEN;
  const away = (detail) => bodies.map(() => ({ status: 503, detail }));
  const late = new AbortController();
  const timer = setTimeout(() => late.abort(new Error("no answer in time")), 1000 * ANSWER_SECONDS);
  let response, text;
  try {
    const headers = { "content-type": "application/x-ndjson", ...(token && { authorization: `Bearer ${token}` }) };
    response = await fetch(address, { method: "POST", headers, body: bodies.join("\n"), signal: late.signal });
    text = await response.text();
  } catch (error) {
    return away(`${error.message}${error.cause ? `: ${error.cause.message}` : ""}`);
  } finally {
    clearTimeout(timer);
  }
  const isAway = [408, 429].includes(response.status) || (response.status >= 500 && response.status !== 501);
  if (isAway) return away(`${response.status}: ${text.trim()}`);
  if (response.status === 401) throw new Error("the service wants its token: set JUDGE_TOKEN to it");
  if (!response.ok) throw new Error(`${response.status}: ${text}`);
  const lines = text.trim().split("\n");
  if (lines.length !== bodies.length || !text.trim()) return away("the answer ended too early");
  try {
    return lines.map((line) => JSON.parse(line));
  } catch {
    throw new Error(`${address.origin} answers with something else than verdicts`);
  }
}

function pageOf(line, number) {
  try {
    return JSON.parse(line);
  } catch (error) {
    throw new Error(`line ${number} is no page: ${error.message}`);
  }
}

async function main(service, file) {
  const lines = (await readFile(file, "utf8")).split("\n");
  const pages = lines.flatMap((line, at) => (line.trim() ? [pageOf(line, at + 1)] : []));
  const copies = new CopyFinder();
  const linesByDetail = new Map();
  for (const answer of await judge(service, pages)) {
    if (answer.detail) {
      if (!linesByDetail.has(answer.detail)) linesByDetail.set(answer.detail, []);
      linesByDetail.get(answer.detail).push(answer.line);
      process.exitCode = 1;
    } else if (copies.isCopy(answer)) console.error(`${answer.id} = ${answer.canonical}`);
    else if (answer.canonical) console.log(answer.id);
    else console.error(`${answer.id}: ${answer.verdict}`);
  }
  for (const [detail, lines] of linesByDetail) {
    const shown = lines.slice(0, 5).join(", ") + (lines.length > 5 ? ", …" : "");
    console.error(`${lines.length === 1 ? `page ${shown}` : `${lines.length} pages (${shown})`}: ${detail}`);
  }
}

if (process.argv[1] && import.meta.url === pathToFileURL(realpathSync(process.argv[1])).href) {
  const [service, file] = process.argv.slice(2);
  if (!file) {
    console.error("usage: node examples/judge_pages.mjs http://127.0.0.1:9470 PAGES.jsonl");
    process.exit(2);
  }
  await main(service, file).catch((error) => {
    console.error(error.message);
    process.exit(1);
  });
}
