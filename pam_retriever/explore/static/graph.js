// The neighbourhood of a memory: nodes by similarity, edges exact or predicted.

import { post } from "./api.js";
import { el, problem, say, show } from "./dom.js";
import { go } from "./main.js";

const WIDE = 1000, HIGH = 560;

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
    el("ul", { class: "legend" }, legend("exact", "experienced together"), legend("predicted", "predicted"), el("li", {}, "Near each other: alike")),
    el("details", {}, el("summary", { class: "faint" }, "As a list"), el("ul", {}, found.edges.map((edge) =>
      el("li", { dir: "auto" }, `${drawing.name(edge.from)} – ${drawing.name(edge.to)}: ${edge.score.toFixed(3)}, ${edge.exact ? "experienced" : "predicted"}`)))));
  say(`${found.nodes.length} memories, ${found.edges.length} edges.`);
  return null;
}

const legend = (kind, text) => el("li", {}, el("svg", { class: "graph sample", viewBox: "0 0 28 8", width: 28, height: 8, "aria-hidden": "true" }, el("line", { class: kind, x1: 0, x2: 28, y1: 4, y2: 4 })), text);

class Drawing {
  constructor({ nodes, edges }, label) {
    this.label = label;
    this.nodes = nodes.map((node) => ({ ...node, x: WIDE / 2 + node.at[0] * WIDE * 0.4, y: HIGH / 2 + node.at[1] * HIGH * 0.4 }));
    this.byId = new Map(this.nodes.map((node) => [node.id, node]));
    this.edges = edges.filter((edge) => this.byId.has(edge.from) && this.byId.has(edge.to));
    this.spread();
    this.view = { x: 0, y: 0, scale: 1 };
    this.lines = this.edges.map((edge) => el("line", { class: edge.exact ? "exact" : "predicted" }, el("title", {}, edge.exact ? "experienced together" : "predicted")));
    this.dots = this.nodes.map((node) => this.dot(node));
    this.inside = el("g", {}, this.lines, this.dots);
    this.svg = el("svg", { class: "graph", viewBox: `0 0 ${WIDE} ${HIGH}`, tabindex: 0, role: "group", "aria-label": `Neighbourhood: ${this.nodes.length} memories` }, this.inside);
    this.move();
    this.listen();
  }

  name(id) {
    return this.byId.get(id)?.name ?? id;
  }

  // where names would lie on each other, nodes give way; who is alike stays near
  spread() {
    const home = this.nodes.map(({ x, y }) => [x, y]);
    for (let turn = 0; turn < 200; turn++) {
      for (let a = 0; a < this.nodes.length; a++) {
        for (let b = a + 1; b < this.nodes.length; b++) {
          const one = this.nodes[a], other = this.nodes[b];
          const dx = (other.x - one.x) / 165, dy = (other.y - one.y) / 36, far = Math.hypot(dx, dy);
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
    for (const [axis, size, edge] of [["x", WIDE, 90], ["y", HIGH, 40]]) {
      const values = this.nodes.map((node) => node[axis]), low = Math.min(...values), span = Math.max(...values) - low;
      const scale = span > 1e-6 ? (size - 2 * edge) / span : 0;
      for (const node of this.nodes) node[axis] = scale ? edge + (node[axis] - low) * scale : size / 2;
    }
  }

  dot(node) {
    const name = node.name.length > 24 ? `${node.name.slice(0, 23)}…` : node.name;
    return el("g", { class: `node h${node.hop}`, tabindex: 0, role: "button", "aria-description": node.text || node.name, "data-id": node.id,
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
    const box = this.svg.getBoundingClientRect(), scale = box.width / WIDE;
    this.label.style.setProperty("--x", `${Math.min(box.width - 300, Math.max(8, (node.x * this.view.scale + this.view.x) * scale + 12))}px`);
    this.label.style.setProperty("--y", `${Math.max(8, (node.y * this.view.scale + this.view.y) * (box.height / HIGH) + 14)}px`);
  }

  move() {
    const { x, y, scale } = this.view;
    this.inside.setAttribute("transform", `translate(${x} ${y}) scale(${scale})`);
    this.dots.forEach((dot, at) => dot.setAttribute("transform", `translate(${this.nodes[at].x} ${this.nodes[at].y})`));
    this.lines.forEach((line, at) => {
      const one = this.byId.get(this.edges[at].from), other = this.byId.get(this.edges[at].to);
      for (const [name, value] of [["x1", one.x], ["y1", one.y], ["x2", other.x], ["y2", other.y]]) line.setAttribute(name, value);
    });
  }

  zoom(by, x = WIDE / 2, y = HIGH / 2) {
    const scale = Math.min(8, Math.max(0.4, this.view.scale * by)), real = scale / this.view.scale;
    this.view = { x: x - (x - this.view.x) * real, y: y - (y - this.view.y) * real, scale };
    this.move();
  }

  listen() {
    let held = null;
    const ratio = () => WIDE / this.svg.getBoundingClientRect().width;
    this.svg.addEventListener("pointerdown", (event) => {
      const id = event.target.closest(".node")?.dataset.id;
      held = { node: id === undefined ? null : this.byId.get(id), x: event.clientX, y: event.clientY };
      this.moved = false;
    });
    this.svg.addEventListener("pointermove", (event) => {
      if (!held) return;
      const dx = (event.clientX - held.x) * ratio(), dy = (event.clientY - held.y) * ratio();
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
      this.zoom(Math.exp(-event.deltaY / 400), (event.clientX - box.left) * ratio(), (event.clientY - box.top) * ratio());
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
