// Finds the plain address of a page, without the parts that `simstream patterns` has learned to make no other page:
// Node 18 or later, no packages. Reads addresses from stdin, one on each line, and prints their plain forms.
//
//     node examples/plain_address.mjs patterns.json < addresses.txt
//
// The file and how to use it: docs/how-to/address-patterns.md, "In another program".

import { readFileSync, realpathSync } from "node:fs";
import { pathToFileURL } from "node:url";

const MAX_CHARS = 2048; // a longer address has no patterns, nor has one with more than MAX_PARTS segments or parameters
const MAX_PARTS = 16;
const MAX_NAME = 64;
const PORTS = { http: ":80", https: ":443" };

/**
 * Returns a function that gives an address's plain form; null if it cannot be cut. `patterns`: those of the file.
 *
 * An address without a pattern gets its normal form, as every plain form has it: compare with those of fetched pages.
 */
export function plainAddresses(patterns) {
  const formsOf = addressForms(patterns);
  return (url) => formsOf(url)?.plain ?? null;
}

/** Returns a function that gives an address's plain form, and the patterns that it has as a text, "" if it has none. */
export function addressForms(patterns) {
  const byPart = new Map();
  for (const one of patterns) {
    const key = keyOf(one.site, one.below, one.kind, one.name);
    byPart.set(key, [...(byPart.get(key) ?? []), one].slice(0, 4));
  }
  const first = (address) => {
    for (const [kind, name] of partsOf(address)) {
      for (const below of new Set(["", sectionOf(address)])) {
        const found = byPart.get(keyOf(address.site, below, kind, name)) ?? [];
        const pattern = found.find(({ to }) => !to || !address.path.includes(to));
        if (pattern) return pattern;
      }
    }
  };
  return (url) => {
    let address = cut(url);
    const used = [];
    for (let one; address && used.length < 2 * MAX_PARTS && (one = first(address)); used.push(one)) {
      address = without(address, one);
    }
    const form = used.map(({ kind, name, to, below }) => JSON.stringify([kind, name, to, below])).join(" ");
    return address && { plain: textOf(address), form };
  };
}

const keyOf = (...parts) => JSON.stringify(parts);
const nameOf = (parameter) => parameter.split("=", 1)[0];
const sectionOf = ({ path }) => (isName((path[0] ?? "").split(";", 1)[0]) ? path[0].split(";", 1)[0] : "");
const charsOf = (text) => [...text].length;
const isName = (segment) =>
  segment !== "" && charsOf(segment) <= MAX_NAME / 2 && segment.split("-").length < 3 && !/[\p{Nd}\p{No}]/u.test(segment);

/** Compares two names by code points, as `sort` does not. */
function compare(one, other) {
  const [a, b] = [[...one], [...other]];
  const at = a.findIndex((char, place) => char !== b[place]);
  if (at < 0) return a.length - b.length;
  return at < b.length ? a[at].codePointAt(0) - b[at].codePointAt(0) : 1;
}

/** Cuts a segment into its name and its parameters; only the first 16 `;` count. */
function cutSegment(segment) {
  const parts = segment.split(";");
  return parts.length > MAX_PARTS + 1 ? [...parts.slice(0, MAX_PARTS), parts.slice(MAX_PARTS).join(";")] : parts;
}

/** Cuts an address into site, segments and parameters. Those are sorted by name; the fragment does not count. */
function cut(url) {
  const whole = url.replace(/[\t\r\n]/g, "").replace(/^[\0- ]+/, "");
  const [, scheme, host, path, query] = /^(https?):\/\/([^/?#@]+)(?=[/?#]|$)([^?#]*)(?:\?([^#]*))?/i.exec(whole) ?? [];
  if (!scheme || charsOf(url) > MAX_CHARS) return null;
  const port = PORTS[scheme.toLowerCase()];
  const lower = host.toLowerCase();
  const site = `${scheme.toLowerCase()}://${lower.endsWith(port) ? lower.slice(0, -port.length) : lower}`;
  const segments = path.replace(/\/+$/, "").split("/").slice(1);
  const parameters = (query ?? "").split("&").filter(Boolean);
  if (segments.length > MAX_PARTS || parameters.length > MAX_PARTS) return null;
  return { site, path: segments, query: parameters.sort((one, other) => compare(nameOf(one), nameOf(other))) };
}

const textOf = ({ site, path, query }) =>
  `${site}${path.map((one) => `/${one}`).join("") || "/"}${query.length ? `?${query.join("&")}` : ""}`;

/** Returns the parts that a pattern can name: parameters, those that come together, and segments. */
function partsOf({ path, query }) {
  const names = [...new Set(query.map(nameOf))];
  const families = new Map();
  for (const name of names) {
    const start = name.split("_", 1)[0];
    families.set(start, [...(families.get(start) ?? []), name]);
  }
  const together = [...families.values(), names].filter((family) => family.length > 1 && family.every(Boolean));
  const found = [...names, ...together.map((family) => family.join("&"))].map((name) => ["parameter", name]);
  for (const segment of path) {
    const [name, ...parameters] = cutSegment(segment);
    found.push(...parameters.map((one) => ["path_parameter", nameOf(one)]));
    if (isName(name) && !parameters.length && path.filter((one) => one === name).length === 1) {
      found.push(["segment", name]);
    }
  }
  return found.slice(0, 3 * MAX_PARTS).filter(([, name]) => name !== "" && charsOf(name) <= MAX_NAME);
}

/** Returns the address without the part of a pattern; a segment may have another one in its place. */
function without({ site, path, query }, { kind, name, to }) {
  if (kind === "parameter") {
    const names = name.split("&");
    return { site, path, query: query.filter((one) => !names.includes(nameOf(one))) };
  }
  if (kind === "path_parameter") {
    const cleaned = path.map((segment) => {
      const [start, ...parameters] = cutSegment(segment);
      return [start, ...parameters.filter((one) => nameOf(one) !== name)].join(";");
    });
    return { site, path: cleaned, query };
  }
  return { site, path: path.flatMap((one) => (one !== name ? [one] : to ? [to] : [])), query };
}

if (process.argv[1] && import.meta.url === pathToFileURL(realpathSync(process.argv[1])).href) {
  const file = process.argv[2];
  if (!file) {
    console.error("usage: node examples/plain_address.mjs patterns.json < ADDRESSES");
    process.exit(2);
  }
  let plain;
  try {
    plain = plainAddresses(JSON.parse(readFileSync(file, "utf8")).patterns);
  } catch (error) {
    console.error(`${file} is no file of patterns: ${error.message}`);
    process.exit(1);
  }
  const addresses = readFileSync(0, "utf8").split("\n").filter(Boolean);
  for (const address of addresses) console.log(plain(address) ?? address);
}
