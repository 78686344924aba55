// Why: the sessions in which a hit met the cue, the requests that it served, and what each source says.

import { get } from "./api.js";
import { counted, date, el, isolated, number, problem, show, words } from "./dom.js";
import { link } from "./main.js";

const MOST = 5; // sessions that are drawn
const AROUND = 3; // steps before and after

export async function why(place, hit, { sources, asked }) {
  show(place, el("p", { class: "faint" }, "Looking…"));
  try {
    const about = await get("memory", { id: hit.id });
    const drawn = await Promise.all(meetings(hit).slice(0, MOST).map(timeline));
    show(place, brought(hit, sources), experienced(hit, drawn, asked), said(hit), requests(about.requests), fields(about));
  } catch (error) {
    show(place, problem(error.message));
  }
}

// the evidence by session, the nearest meeting first
function meetings(hit) {
  const found = new Map();
  for (const one of hit.evidence ?? []) {
    if (!found.has(one.trajectory)) found.set(one.trajectory, []);
    found.get(one.trajectory).push(one);
  }
  return [...found.entries()];
}

function experienced(hit, drawn, asked) {
  const title = el("h3", {}, "Experienced together");
  if (hit.evidence === null) return null;
  if (!hit.evidence.length) return el("section", {}, title, el("p", {}, asked.id === undefined
    ? "Predicted, never experienced: the question is no stored memory, and was taken for none that met this one."
    : "Predicted, never experienced with the memory that was asked with."));
  const more = meetings(hit).length - MOST;
  return el("section", { class: "list" }, title, drawn, more > 0 && el("p", { class: "faint" }, `and in ${counted(more, "more session")}`));
}

async function timeline([id, occasions]) {
  const first = occasions[0];
  const start = Math.max(0, Math.min(first.cue_position, first.hit_position) - AROUND);
  const session = await get("session", { id, offset: start });
  const span = Math.max(session.length + session.deleted - 1, 1);
  const mark = (position, kind, label) => el("i", { class: kind, "--x": `${(100 * position) / span}%`, title: `${label}: step ${position + 1}` });
  const marks = occasions.slice(0, 20).flatMap((one) => [mark(one.cue_position, "cue", "cue"), mark(one.hit_position, "hit-mark", "hit")]);
  const last = Math.max(first.cue_position, first.hit_position) + AROUND;
  const steps = session.deleted ? [] : session.steps.filter((step) => step.position <= last);
  const cues = new Set(occasions.map((one) => one.cue_position)), hits = new Set(occasions.map((one) => one.hit_position));
  const label = `Step ${first.cue_position + 1} is the cue, step ${first.hit_position + 1} the hit, of ${session.length}`;
  return el("div", {},
    el("p", { class: "meta" }, el("a", { href: link("sessions", { id, at: first.hit_position }) }, isolated(id)), el("span", {}, label)),
    el("div", { class: "track", role: "img", "aria-label": label }, marks),
    el("ol", { class: "around" }, steps.map((step) => {
      const kind = hits.has(step.position) ? "hit" : cues.has(step.position) ? "cue" : "";
      return el("li", { class: kind && "marked" }, el("span", { class: "number" }, kind ? el("mark", {}, kind) : String(step.position + 1)), el("span", { class: "one", dir: "auto" }, step.name));
    })));
}

function brought(hit, names) {
  const rows = names.filter((name) => hit.sources?.[name]).map((name) => [name, hit.sources[name]]);
  if (!rows.length) return null;
  return el("section", {}, el("h3", {}, "What each source brings"), el("table", {}, el("tbody", {}, rows.map(([name, value]) =>
    el("tr", {}, el("th", { scope: "row" }, el("span", { class: `dot c${names.indexOf(name) % 10}` }), ` ${name}`), el("td", { class: "number" }, number(value)))))));
}

function said(hit) {
  const lines = [
    ...(hit.times ?? []).map((time) => `“${time.expression}”: ${time.meaning}`),
    ...(hit.mentions ?? []).map((one) => (one.way === "named by" ? `names “${one.source}”` : `${one.source === null ? "the question" : `“${one.source}”`} names “${one.name}”`)),
  ];
  return lines.length ? el("section", {}, el("h3", {}, "Times and names"), el("ul", {}, lines.map((line) => el("li", { dir: "auto" }, line)))) : null;
}

export function requests(past) {
  if (!past.length) return null;
  return el("section", {}, el("h3", {}, "Past requests"), el("ul", { class: "list" }, past.map((one) =>
    el("li", {}, words(one.text || one.id, "text short"), el("p", { class: "meta" }, one.weight > 0 ? "it helped" : "it did not help", date(one.timestamp) && el("span", {}, date(one.timestamp)))))));
}

export function fields(about) {
  const rows = Object.entries(about.metadata);
  if (!rows.length) return null;
  return el("section", {}, el("h3", {}, "Metadata"), el("table", {}, el("tbody", {}, rows.map(([key, value]) =>
    el("tr", {}, el("th", { scope: "row", dir: "auto" }, key), el("td", { dir: "auto" }, typeof value === "string" ? value : JSON.stringify(value)))))));
}
