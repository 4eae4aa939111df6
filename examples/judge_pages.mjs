// Judges the pages of a file in JavaScript: Node 18 or later, no packages. Prints each page that is worth keeping.
//
//     node examples/judge_pages.mjs http://127.0.0.1:9470 examples/pages.jsonl
//
// The service: docs/how-to/crawler-http.md. A token, if it wants one, is in the environment: JUDGE_TOKEN.

import { readFile } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";
import { pathToFileURL } from "node:url";

const AT_ONCE = 100; // at most 1,000 pages and 16 MB go into one request
const MOST_PAUSE_S = 8;

/** Tells whether a page has the text of another page: then follow its links last, or not at all. */
export const isCopy = (verdict) => Boolean(verdict.canonical) && verdict.canonical !== verdict.id;

/**
 * Returns the answer of each page, in order: a verdict, or { line, status, detail }.
 *
 * Asks again, for some 15 seconds, while the service is away or a verdict is late.
 */
export async function judge(service, pages) {
  const answers = [];
  let open = [...pages.keys()];
  for (let pause = 1; open.length; pause *= 2) {
    try {
      const lines = await ask(service, open.map((at) => pages[at]));
      open.forEach((at, line) => (answers[at] = lines[line].detail ? { ...lines[line], line: at + 1 } : lines[line]));
      open = open.filter((at) => answers[at].detail && answers[at].status >= 500);
      if (pause > MOST_PAUSE_S) break;
    } catch (error) {
      if (error.status < 500 || pause > MOST_PAUSE_S) throw error;
    }
    if (open.length) await sleep(1000 * pause);
  }
  return answers;
}

async function ask(service, pages) {
  const token = process.env.JUDGE_TOKEN;
  const response = await fetch(new URL("/judge?timeout=30", service), {
    method: "POST",
    headers: { "content-type": "application/x-ndjson", ...(token && { authorization: `Bearer ${token}` }) },
    body: pages.map((page) => JSON.stringify(page)).join("\n"),
  });
  const text = await response.text();
  if (!response.ok) throw Object.assign(new Error(`${response.status}: ${text}`), { status: response.status });
  const lines = text.trim().split("\n");
  if (lines.length !== pages.length) throw new Error("the service ended within its answer");
  return lines.map((line) => JSON.parse(line));
}

async function main(service, file) {
  const pages = (await readFile(file, "utf8")).split("\n").filter(Boolean).map((line) => JSON.parse(line));
  for (let at = 0; at < pages.length; at += AT_ONCE) {
    for (const answer of await judge(service, pages.slice(at, at + AT_ONCE))) {
      if (answer.detail) console.error(`page ${at + answer.line}: ${answer.detail}`);
      else if (isCopy(answer)) console.error(`${answer.id} = ${answer.canonical}`);
      else if (answer.canonical) console.log(answer.id);
      else console.error(`${answer.id}: ${answer.verdict}`);
    }
  }
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) {
  const [service, file] = process.argv.slice(2);
  if (!file) {
    console.error("usage: node examples/judge_pages.mjs http://127.0.0.1:9470 PAGES.jsonl");
    process.exit(2);
  }
  await main(service, file).catch((error) => {
    console.error(`${error.message}${error.cause ? `: ${error.cause.message}` : ""}`);
    process.exit(1);
  });
}
