// The page: which view the address names, and what the index can do.

import { get, post } from "./api.js";
import { counted, el, problem, say, show } from "./dom.js";
import * as ask from "./ask.js";
import * as health from "./health.js";
import * as map from "./map.js";
import * as memory from "./memory.js";
import * as sessions from "./sessions.js";

const VIEWS = { ask, map, memory, sessions, health };
const place = document.getElementById("view");
let shown = null; // { name, leave }
export const state = { health: null };

// "#ask?q=..." -> ["ask", its parameters]
export function address() {
  const [name, query] = location.hash.slice(1).split("?");
  return [Object.hasOwn(VIEWS, name) ? name : "ask", new URLSearchParams(query ?? "")];
}

export function go(name, parameters = {}) {
  const kept = Object.entries(parameters).filter(([, value]) => value !== "" && value !== null && value !== undefined);
  const query = new URLSearchParams(kept).toString();
  location.hash = query ? `${name}?${query}` : name;
}

export function link(name, parameters) {
  return `#${name}?${new URLSearchParams(parameters)}`;
}

async function draw() {
  const [name, parameters] = address();
  for (const one of document.querySelectorAll("nav a")) {
    if (one.dataset.view === name) one.setAttribute("aria-current", "page");
    else one.removeAttribute("aria-current");
  }
  if (shown?.name === name && VIEWS[name].change) {
    VIEWS[name].change(parameters);
    return;
  }
  shown?.leave?.();
  const mine = shown = { name };
  document.title = `${name[0].toUpperCase()}${name.slice(1)} · Explorer`;
  try {
    state.health ??= await get("health");
    if (shown !== mine) return;
    const { memories, version } = state.health;
    show(document.getElementById("place"), counted(memories, "memory"), el("span", { class: "wide" }, ` · ${version}`));
    const own = el("div", { class: "view" }); // a slow view that was left draws where nobody sees it
    show(place, own);
    const leave = await VIEWS[name].draw(own, parameters, state.health);
    if (shown === mine) mine.leave = leave;
  } catch (error) {
    if (shown === mine) show(place, problem(error.message));
  }
}

async function refresh() {
  try {
    state.health = await post("refresh");
    say("Read again.");
  } catch (error) {
    say(error.message);
    show(place, problem(error.message));
    return;
  }
  shown?.leave?.();
  shown = null;
  await draw();
}

addEventListener("hashchange", draw);
document.getElementById("refresh").addEventListener("click", refresh);
addEventListener("keydown", (event) => {
  // "/" goes to the first field, as people know it from elsewhere
  if (event.key !== "/" || event.ctrlKey || event.metaKey || event.target.closest("input, select, textarea")) return;
  const field = place.querySelector("input");
  if (field) {
    event.preventDefault();
    field.focus();
  }
});
await draw();
