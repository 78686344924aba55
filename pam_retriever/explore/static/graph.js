// The neighbourhood of a memory: nodes by similarity, edges exact, named or predicted.

import { post } from "./api.js";
import { counted, el, problem, say, show } from "./dom.js";
import { go } from "./main.js";

const longest = () => (innerWidth < 600 ? 14 : 24); // characters of a name beside its node

export async function graph(place, cue, hops) {
  const asked = cue.id !== undefined ? { id: cue.id } : { text: cue.q };
  show(place, el("p", { class: "faint" }, "Looking…"));
  let found;
  try {
    found = await post("neighbourhood", { ...asked, hops });
  } catch (error) {
    show(place, problem(error.message));
    return null;
  }
  const label = el("div", { class: "label", hidden: true });
  const drawing = new Drawing(found, label);
  const buttons = [1, 2, 3].map((count) => el("button", { type: "button", "aria-pressed": String(count === hops), onclick: () => go("map", { ...cue, hops: count }) }, count === 1 ? "1 hop" : `${count} hops`));
  show(place,
    el("div", { class: "row" }, buttons, el("span", { class: "faint small" }, "Enter or a click asks with a memory; drag to move, wheel or + and − to zoom")),
    el("div", { class: "picture" }, drawing.svg, label),
    el("ul", { class: "legend" }, legend("exact", "experienced together"), legend("named", "one names the other"), legend("predicted", "predicted"), el("li", {}, "Near each other: alike")),
    el("details", {}, el("summary", { class: "faint" }, "As a list"), el("ul", {}, found.edges.map((edge) =>
      el("li", { dir: "auto" }, `${drawing.name(edge.from)} – ${drawing.name(edge.to)}: ${edge.score.toFixed(3)}, ${reason(edge)}`)))));
  drawing.lay();
  say(`${counted(found.nodes.length, "memory")}, ${counted(found.edges.length, "edge")}.`);
  const watch = new ResizeObserver(() => drawing.lay());
  watch.observe(drawing.svg);
  return () => watch.disconnect();
}

const legend = (kind, text) => el("li", {}, el("svg", { class: "graph sample", viewBox: "0 0 28 8", width: 28, height: 8, "aria-hidden": "true" }, el("line", { class: kind, x1: 0, x2: 28, y1: 4, y2: 4 })), text);

const kind = (edge) => (edge.exact ? "exact" : edge.named.length ? "named" : "predicted");
const reason = (edge) => (edge.exact ? "experienced together" : edge.named.length ? edge.named.join(", ") : "predicted");

class Drawing {
  constructor({ nodes, edges }, label) {
    this.label = label;
    this.nodes = nodes;
    this.byId = new Map(this.nodes.map((node) => [node.id, node]));
    this.edges = edges.filter((edge) => this.byId.has(edge.from) && this.byId.has(edge.to));
    this.view = { x: 0, y: 0, scale: 1 };
    this.lines = this.edges.map((edge) => el("line", { class: kind(edge) }, el("title", {}, reason(edge))));
    this.dots = this.nodes.map((node) => this.dot(node));
    this.svg = el("svg", { class: "graph", tabindex: 0, role: "group", "aria-label": `Neighbourhood: ${counted(this.nodes.length, "memory")}` }, el("g", {}, this.lines, this.dots));
    this.listen();
  }

  name(id) {
    return this.byId.get(id)?.name ?? id;
  }

  // a pixel of the picture is one of the screen, so that names have one size in any window
  lay() {
    const box = this.svg.getBoundingClientRect(), wide = Math.round(box.width), high = Math.round(box.height);
    if (!wide || !high || (this.wide === wide && this.high === high)) return;
    [this.wide, this.high] = [wide, high];
    this.svg.setAttribute("viewBox", `0 0 ${wide} ${high}`);
    for (const node of this.nodes) {
      node.x = wide / 2 + node.at[0] * wide * 0.4;
      node.y = high / 2 + node.at[1] * high * 0.4;
    }
    this.widths = this.dots.map((dot) => dot.querySelector("text").getComputedTextLength());
    this.spread();
    this.move();
  }

  // where names would lie on each other, nodes give way; who is alike stays near
  spread() {
    const home = this.nodes.map(({ x, y }) => [x, y]), room = Math.min(165, this.wide / 3);
    for (let turn = 0; turn < 200; turn++) {
      for (let a = 0; a < this.nodes.length; a++) {
        for (let b = a + 1; b < this.nodes.length; b++) {
          const one = this.nodes[a], other = this.nodes[b];
          const dx = (other.x - one.x) / room, dy = (other.y - one.y) / 36, far = Math.hypot(dx, dy);
          if (far >= 1) continue;
          const push = (1 - far) / 2, nx = far > 1e-6 ? dx / far : Math.cos(a + b), ny = far > 1e-6 ? dy / far : Math.sin(a + b);
          one.x -= nx * push * 60; one.y -= ny * push * 20; other.x += nx * push * 60; other.y += ny * push * 20;
        }
      }
      this.nodes.forEach((node, at) => {
        const pull = turn < 150 ? 0.02 : 0;
        node.x += (home[at][0] - node.x) * pull;
        node.y += (home[at][1] - node.y) * pull;
      });
    }
    for (const [axis, size, edge] of [["x", this.wide, Math.min(90, this.wide / 8)], ["y", this.high, 40]]) {
      const values = this.nodes.map((node) => node[axis]), low = Math.min(...values), span = Math.max(...values) - low;
      const scale = span > 1e-6 ? (size - 2 * edge) / span : 0;
      for (const node of this.nodes) node[axis] = scale ? edge + (node[axis] - low) * scale : size / 2;
    }
  }

  dot(node) {
    const name = node.name.length > longest() ? `${node.name.slice(0, longest() - 1).trimEnd()}…` : node.name;
    return el("g", { class: `node h${node.hop}`, tabindex: 0, role: "button", "aria-label": name, "aria-description": node.text || null, "data-id": node.id,
      onclick: () => this.moved || this.open(node), onkeydown: (event) => { if (event.key === "Enter") this.open(node); },
      onfocus: () => this.tell(node), onblur: () => this.tell(null), onpointerenter: () => this.tell(node), onpointerleave: () => this.tell(null) },
      el("circle", { r: node.hop ? 7 : 10 }), el("text", { y: -13 }, name));
  }

  open(node) {
    if (node.id) go("ask", { id: node.id });
  }

  tell(node) {
    this.label.hidden = node === null;
    if (node === null) return;
    this.label.textContent = (node.text || node.name).slice(0, 200);
    const { x, y } = this.at(node);
    this.label.style.setProperty("--x", `${Math.min(this.wide - 300, Math.max(8, x + 12))}px`);
    this.label.style.setProperty("--y", `${Math.max(8, y + 14)}px`);
  }

  // where a node is in the picture
  at(node) {
    const { x, y, scale } = this.view;
    return { x: node.x * scale + x, y: node.y * scale + y };
  }

  move() {
    const places = this.nodes.map((node) => this.at(node)), byId = new Map(this.nodes.map((node, at) => [node.id, places[at]]));
    this.dots.forEach((dot, at) => dot.setAttribute("transform", `translate(${places[at].x} ${places[at].y})`));
    this.lines.forEach((line, at) => {
      const one = byId.get(this.edges[at].from), other = byId.get(this.edges[at].to);
      for (const [name, value] of [["x1", one.x], ["y1", one.y], ["x2", other.x], ["y2", other.y]]) line.setAttribute(name, value);
    });
    this.names(places);
  }

  // names that would cover another are left out, those farther from the cue first; zooming in makes room for them
  names(places) {
    const taken = places.map(({ x, y }) => ({ left: x - 4, right: x + 4, top: y - 4, bottom: y + 4 })); // the nodes themselves
    const free = (box) => !taken.some((one) => box.left < one.right && one.left < box.right && box.top < one.bottom && one.top < box.bottom);
    const order = this.nodes.map((_, at) => at).sort((a, b) => this.nodes[a].hop - this.nodes[b].hop || a - b);
    for (const at of order) {
      const { x, y } = places[at], half = this.widths[at] / 2 + 2, text = this.dots[at].querySelector("text");
      const middle = Math.max(half, Math.min(this.wide - half, x));
      const seen = x >= 0 && y >= 0 && x <= this.wide && y <= this.high;
      const place = seen && [-13, 24].map((down) => ({ down, left: middle - half, right: middle + half, top: y + down - 12, bottom: y + down + 3 })).find(free);
      text.setAttribute("visibility", place ? "visible" : "hidden");
      if (!place) continue;
      taken.push(place);
      text.setAttribute("x", middle - x);
      text.setAttribute("y", place.down);
    }
  }

  zoom(by, x = this.wide / 2, y = this.high / 2) {
    const scale = Math.min(8, Math.max(0.4, this.view.scale * by)), real = scale / this.view.scale;
    this.view = { x: x - (x - this.view.x) * real, y: y - (y - this.view.y) * real, scale };
    this.move();
  }

  listen() {
    let held = null;
    this.svg.addEventListener("pointerdown", (event) => {
      const id = event.target.closest(".node")?.dataset.id;
      held = { node: id === undefined ? null : this.byId.get(id), x: event.clientX, y: event.clientY };
      this.moved = false;
    });
    this.svg.addEventListener("pointermove", (event) => {
      if (!held) return;
      const dx = event.clientX - held.x, dy = event.clientY - held.y;
      if (Math.hypot(dx, dy) > 3) this.moved = true;
      if (!this.moved) return;
      if (held.node) { held.node.x += dx / this.view.scale; held.node.y += dy / this.view.scale; }
      else { this.view.x += dx; this.view.y += dy; }
      [held.x, held.y] = [event.clientX, event.clientY];
      this.move();
    });
    for (const name of ["pointerup", "pointerleave"]) this.svg.addEventListener(name, () => { held = null; });
    this.svg.addEventListener("wheel", (event) => {
      event.preventDefault();
      const box = this.svg.getBoundingClientRect();
      this.zoom(Math.exp(-event.deltaY / 400), event.clientX - box.left, event.clientY - box.top);
    }, { passive: false });
    this.svg.addEventListener("keydown", (event) => {
      const by = { ArrowLeft: [40, 0], ArrowRight: [-40, 0], ArrowUp: [0, 40], ArrowDown: [0, -40] }[event.key];
      if (by) { this.view.x += by[0]; this.view.y += by[1]; this.move(); }
      else if (event.key === "+" || event.key === "=") this.zoom(1.25);
      else if (event.key === "-") this.zoom(0.8);
      else return;
      event.preventDefault();
    });
  }
}
