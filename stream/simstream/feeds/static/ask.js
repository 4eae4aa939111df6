// Asks the server for JSON. Every question ends: without an answer in time it counts as unanswered.
const PATIENCE_MS = 12_000;

export async function ask(path, tag) {
  try {
    const headers = tag ? { "If-None-Match": tag } : {};
    const answer = await fetch(path, { headers, cache: "no-store", signal: AbortSignal.timeout(PATIENCE_MS) });
    if (answer.status === 304) return { same: true, status: 304 };
    const data = await answer.json();
    if (!answer.ok) return { error: data.error ?? "", code: data.code, condition: data.condition, status: answer.status };
    return { data, condition: data.condition, tag: answer.headers.get("ETag"), status: answer.status };
  } catch {
    return { error: "", status: 0 };
  }
}
