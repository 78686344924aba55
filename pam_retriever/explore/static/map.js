// Map: what lies and what happened around one memory, or all memories in the plane.

import { el, show } from "./dom.js";
import { go } from "./main.js";
import { graph } from "./graph.js";
import { plane } from "./plane.js";

let leave = null;

export async function draw(place, parameters, health) {
  await change(parameters, place, health);
  return () => { leave?.(); leave = null; };
}

let kept = null;

export async function change(parameters, place = kept.place, health = kept.health) {
  kept = { place, health };
  leave?.();
  leave = null;
  const around = parameters.has("id") || parameters.has("q");
  const tab = (name, on, to) => el("button", { type: "button", "aria-pressed": String(on), onclick: to }, name);
  const cue = parameters.has("id") ? { id: parameters.get("id") } : { q: parameters.get("q") };
  const body = el("div", { class: "map" });
  const field = el("input", { type: "search", value: parameters.get("id") ?? "", "aria-label": "Id of a memory", placeholder: "Id of a memory", dir: "auto", autocomplete: "off" });
  show(place, el("h1", {}, "Map"),
    el("form", { class: "row", onsubmit: (event) => { event.preventDefault(); if (field.value) go("map", { id: field.value }); } },
      tab("All memories", !around, () => go("map")), field, el("button", { type: "submit" }, "Show its neighbourhood")),
    body);
  leave = around ? await graph(body, cue, Number(parameters.get("hops") ?? 1)) : await plane(body, parameters.get("by") ?? "", parameters.get("method") ?? "", health);
}
