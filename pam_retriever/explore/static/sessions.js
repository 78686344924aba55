// Sessions: the list, a search in it, and one of them, step by step.

import { get } from "./api.js";
import { count, counted, date, el, isolated, number, percent, problem, say, show, words } from "./dom.js";
import { go, link } from "./main.js";

let view = null;
let turn = 0; // an answer that was overtaken by a later choice is not drawn

export async function draw(place, parameters, health) {
  view = { place, health };
  await change(parameters);
  return () => { view = null; };
}

export async function change(parameters) {
  const mine = ++turn;
  try {
    if (parameters.has("id")) await one(parameters.get("id"), Number(parameters.get("at") ?? 0));
    else await all(parameters.get("q") ?? "", Number(parameters.get("offset") ?? 0));
  } catch (error) {
    if (view && turn === mine) show(view.place, problem(error.message));
  }
}

async function all(q, offset) {
  const mine = turn;
  const found = await get("sessions", { q, offset });
  if (!view || turn !== mine) return;
  const field = el("input", { type: "search", class: "words", value: q, dir: "auto", "aria-label": "Search sessions", placeholder: "Name of a session, id of a memory, or words" });
  const form = el("form", { class: "question", role: "search", onsubmit: (event) => { event.preventDefault(); go("sessions", { q: field.value.trim() }); } },
    el("div", { class: "line" }, field, el("button", { class: "main", type: "submit" }, "Search")));
  const rows = found.sessions.map((session) => el("li", {}, el("a", { class: "card", href: link("sessions", { id: session.id }) },
    el("span", {}, isolated(session.id)),
    el("span", { class: "small faint" }, [counted(session.length, "step"), session.times && `${date(session.times[0])} to ${date(session.times[1])}`].filter(Boolean).join(" · ")),
    session.begins && el("span", { class: "one text short", dir: "auto" }, session.begins))));
  show(view.place,
    el("h1", {}, "Sessions"), form,
    found.looked_through !== null && el("p", { class: "faint small" }, `Names were looked for among the first ${count(found.looked_through)} sessions.`),
    rows.length ? el("ul", { class: "list" }, rows) : el("p", { class: "faint" }, q ? "Nothing found." : "The index has no sessions yet."),
    el("p", { class: "row" },
      offset > 0 && el("button", { type: "button", onclick: () => go("sessions", { q, offset: Math.max(0, offset - 30) || "" }) }, "Earlier"),
      found.more && el("button", { type: "button", onclick: () => go("sessions", { q, offset: offset + 30 }) }, "Later")));
}

async function one(id, at) {
  if (view.session?.id === id && view.session.steps.some((step) => step.position === at)) return mark(at);
  const offset = Math.max(0, at - 5);
  const mine = turn;
  const session = await get("session", { id, offset });
  if (!view || turn !== mine) return;
  view.session = session;
  const move = (by) => go("sessions", { id, at: Math.max(0, Math.min(session.length - 1, current() + by)) });
  const steps = el("ol", { class: "steps", tabindex: 0, "aria-label": "Steps; arrow keys move", onkeydown: (event) => {
    const by = { ArrowDown: 1, ArrowRight: 1, j: 1, ArrowUp: -1, ArrowLeft: -1, k: -1, PageDown: 10, PageUp: -10 }[event.key];
    if (!by || event.target.closest("a, button")) return;
    event.preventDefault();
    move(by);
  } }, session.steps.map(step));
  show(view.place,
    el("p", {}, el("a", { href: "#sessions" }, "All sessions")),
    el("h1", { class: "id" }, isolated(id)),
    el("p", { class: "faint" }, counted(session.length, "step"), session.deleted > 0 && `, ${count(session.deleted)} more were deleted`,
      session.steps.some((one) => one.surprise !== null) ? " · the bar says how unexpected a step was" : " · surprise is known after a fit"),
    el("p", { class: "row" }, el("button", { type: "button", onclick: () => move(-1) }, "Step back"), el("button", { type: "button", onclick: () => move(1) }, "Step on"), el("span", { class: "number faint", id: "at" })),
    steps,
    offset + session.steps.length < session.length && el("p", {}, el("button", { type: "button", onclick: () => go("sessions", { id, at: offset + session.steps.length }) }, "Later steps")));
  mark(at);
  if (document.activeElement === document.body) steps.focus({ preventScroll: true });
}

const current = () => Number(new URLSearchParams(location.hash.split("?")[1]).get("at") ?? 0);

function mark(at) {
  for (const row of view.place.querySelectorAll(".step")) {
    if (Number(row.dataset.position) === at) {
      row.setAttribute("aria-current", "step");
      row.scrollIntoView({ block: "nearest" });
    } else row.removeAttribute("aria-current");
  }
  document.getElementById("at").textContent = `Step ${count(at + 1)} of ${count(view.session.length)}`;
  const step = view.session.steps.find((one) => one.position === at);
  if (step) say(`Step ${at + 1}: ${step.name}`);
}

function step(one) {
  const surprise = one.surprise === null ? null : el("div", { class: "surprise small faint", title: `Surprise ${number(one.surprise)}` },
    el("span", { class: "number" }, `${percent(one.surprise)} surprise`), el("div", { class: "gauge" }, el("i", { "--w": percent(one.surprise).replace(" ", "") })));
  return el("li", { class: "step", "data-position": one.position, "data-surprise": one.surprise },
    el("span", { class: "number faint" }, count(one.position + 1)),
    el("div", {}, words(one.text ?? one.id, "text"), el("p", { class: "meta" }, el("a", { href: link("ask", { id: one.id }) }, isolated(one.id)), date(one.timestamp) && el("span", {}, date(one.timestamp)))),
    surprise);
}
