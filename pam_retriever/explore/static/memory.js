// One memory: all of its text, the sessions that hold it, the requests that it served.

import { get } from "./api.js";
import { counted, el, isolated, show, words } from "./dom.js";
import { link } from "./main.js";
import { fields, requests } from "./why.js";

export async function draw(place, parameters) {
  const about = await get("memory", { id: parameters.get("id") ?? "" });
  show(place,
    el("h1", { class: "id" }, isolated(about.id)),
    el("div", { class: "card" }, words(about.text ?? "It has no text.", "text")),
    el("p", { class: "row" }, el("a", { href: link("ask", { id: about.id }) }, "Ask with it"), el("a", { href: link("map", { id: about.id }) }, "Neighbourhood")),
    about.sessions.length > 0 && el("section", {}, el("h2", {}, "Sessions"), el("ul", {}, about.sessions.map((one) =>
      el("li", {}, el("a", { href: link("sessions", { id: one.id }) }, isolated(one.id)), ` ${counted(one.length, "step")}`)))),
    el("div", { class: "why" }, requests(about.requests), fields(about)));
  return null;
}
