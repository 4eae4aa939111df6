// Judges the pages of a file in JavaScript: Node 18 or later, no packages. Prints each page that is worth keeping.
//
//     node examples/judge_pages.mjs http://127.0.0.1:9470 examples/pages.jsonl
//
// The service: docs/how-to/crawler-http.md. A token, if it wants one, is in the environment: JUDGE_TOKEN.

import { readFile } from "node:fs/promises";

const AT_ONCE = 100; // at most 1,000 pages and 16 MB go into one request

/** Yields the answer of each page in order: a verdict, or { line, status, detail }. */
async function* judged(service, pages) {
  const token = process.env.JUDGE_TOKEN;
  const response = await fetch(`${service}/judge?timeout=30`, {
    method: "POST",
    headers: { "content-type": "application/x-ndjson", ...(token && { authorization: `Bearer ${token}` }) },
    body: pages.map((page) => JSON.stringify(page)).join("\n"),
  });
  if (!response.ok) throw new Error(`${response.status}: ${await response.text()}`);
  let rest = "";
  for await (const part of response.body.pipeThrough(new TextDecoderStream())) {
    const lines = (rest + part).split("\n");
    rest = lines.pop();
    yield* lines.map((line) => JSON.parse(line));
  }
}

const [service, file] = process.argv.slice(2);
if (!file) {
  console.error("usage: node examples/judge_pages.mjs http://127.0.0.1:9470 PAGES.jsonl");
  process.exit(2);
}
const pages = (await readFile(file, "utf8")).split("\n").filter(Boolean).map((line) => JSON.parse(line));
for (let at = 0; at < pages.length; at += AT_ONCE) {
  for await (const answer of judged(service, pages.slice(at, at + AT_ONCE))) {
    if (answer.detail) console.error(`page ${at + answer.line}: ${answer.detail}`);
    else if (answer.verdict === "near_duplicate") console.error(`${answer.id} = ${answer.near_duplicate_of}`);
    else console.log(answer.id);
  }
}
