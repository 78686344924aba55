// All memories in the plane: a canvas of up to 100,000 points, drawn pixel by pixel.

import { bytes, get } from "./api.js";
import { count, counted, el, percent, problem, say, show } from "./dom.js";
import { go } from "./main.js";

const SOME = ["#2f5fd0", "#d97a1e", "#2a9d74", "#b8478f", "#7a5cc9", "#8a6d1f", "#2b93b8", "#c0443c", "#6b7a3a", "#c26bd6"];
const NONE = [140, 148, 160];
const CELLS = 64; // of the grid in which the point under the pointer is looked for

export async function plane(place, by, method, { fields, umap }) {
  const choose = el("select", { onchange: () => go("map", { by: choose.value, method }) }, el("option", { value: "" }, "Session"),
    fields.map((field) => el("option", { value: field, selected: field === by }, field)));
  const layout = el("select", { onchange: () => go("map", { by, method: layout.value }) }, el("option", { value: "" }, "PCA"),
    el("option", { value: "umap", selected: method === "umap" }, "UMAP, up to 20,000"));
  const canvas = el("canvas", { tabindex: 0, role: "img", "aria-label": "All memories" });
  const label = el("div", { class: "label", hidden: true });
  const about = el("p", { class: "faint small" }, "Drawing…");
  const legend = el("ul", { class: "legend" });
  show(place, el("div", { class: "row" }, el("label", {}, "Colour by", choose), umap && el("label", {}, "Layout", layout), about), el("div", { class: "picture" }, canvas, label), legend);
  const began = performance.now();
  let sent;
  try {
    sent = await bytes("map", { by, method });
  } catch (error) {
    show(place, problem(error.message));
    return null;
  }
  const picture = read(sent);
  const cloud = new Cloud(canvas, label, picture, by);
  cloud.fit();
  cloud.draw();
  canvas.dataset.drawn = String((performance.now() - began) / 1000);
  const { total, count: shown, explained } = picture.head;
  about.textContent = `${shown < total ? `${count(shown)} of ` : ""}${counted(total, "memory")}${explained[0] ? ` · two axes with ${percent(explained[0] + explained[1])} of the variance` : ""} · drag, zoom, click`;
  canvas.setAttribute("aria-label", `${counted(shown, "memory")} in the plane. Arrow keys move, + and − zoom.`);
  show(legend, said(picture.head.legend));
  say(`${counted(shown, "memory")} drawn.`);
  const watch = new ResizeObserver(() => { cloud.size(); cloud.draw(); });
  watch.observe(canvas);
  return () => watch.disconnect();
}

function read(sent) {
  const length = new DataView(sent).getUint32(0, true);
  const head = JSON.parse(new TextDecoder().decode(new Uint8Array(sent, 4, length)));
  const points = new Float32Array(sent, 4 + length, 2 * head.count);
  return { head, points, groups: new Int16Array(sent, 4 + length + 8 * head.count, head.count) };
}

function said(legend) {
  if (legend.kind === "order") return el("li", {}, el("bdi", {}, legend.from), el("span", { class: "ramp" }), el("bdi", {}, legend.to));
  const named = legend.values.map((value, at) => el("li", {}, el("span", { class: "dot", "--c": SOME[at] }), el("bdi", {}, value)));
  return [...named, legend.others > 0 && el("li", {}, el("span", { class: "dot" }), `${count(legend.others)} others`)];
}

// the colour of each group as the canvas stores it, little-endian: alpha, blue, green, red
function palette(legend) {
  const packed = ([r, g, b]) => ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0;
  const parsed = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
  if (legend.kind === "values") return { of: [...SOME.slice(0, legend.values.length).map((hex) => packed(parsed(hex))), packed(NONE)], none: packed(NONE) };
  const stops = [[66, 108, 207], [150, 86, 196], [208, 78, 122], [222, 138, 48]];
  const of = Array.from({ length: 256 }, (_, at) => {
    const where = (at / 255) * (stops.length - 1), low = Math.min(Math.floor(where), stops.length - 2), part = where - low;
    return packed(stops[low].map((value, channel) => Math.round(value + part * (stops[low + 1][channel] - value))));
  });
  return { of, none: packed(NONE) };
}

class Cloud {
  constructor(canvas, label, { head, points, groups }, by) {
    Object.assign(this, { canvas, label, points, count: head.count, by });
    const { of, none } = palette(head.legend);
    this.colours = Uint32Array.from(groups, (group) => (group < 0 ? none : of[Math.min(group, of.length - 1)]));
    this.context = canvas.getContext("2d");
    this.cells();
    this.size();
    this.listen();
  }

  // the places of the points in a grid, to find the one under the pointer
  cells() {
    let [left, top, right, bottom] = [Infinity, Infinity, -Infinity, -Infinity];
    for (let at = 0; at < 2 * this.count; at += 2) {
      left = Math.min(left, this.points[at]); right = Math.max(right, this.points[at]);
      top = Math.min(top, this.points[at + 1]); bottom = Math.max(bottom, this.points[at + 1]);
    }
    if (!this.count) [left, top, right, bottom] = [0, 0, 1, 1];
    this.box = { left, top, wide: right - left || 1, high: bottom - top || 1 };
    this.grid = new Map();
    for (let at = 0; at < this.count; at++) {
      const cell = this.cell(this.points[2 * at], this.points[2 * at + 1]);
      if (!this.grid.has(cell)) this.grid.set(cell, []);
      this.grid.get(cell).push(at);
    }
  }

  column = (x) => Math.max(0, Math.min(CELLS - 1, Math.floor(((x - this.box.left) / this.box.wide) * CELLS)));
  line = (y) => Math.max(0, Math.min(CELLS - 1, Math.floor(((y - this.box.top) / this.box.high) * CELLS)));
  cell = (x, y) => this.line(y) * CELLS + this.column(x);

  size() {
    const ratio = Math.min(window.devicePixelRatio || 1, 2), box = this.canvas.getBoundingClientRect();
    this.ratio = ratio;
    const wide = Math.max(1, Math.round(box.width * ratio)), high = Math.max(1, Math.round(box.height * ratio));
    if (this.canvas.width === wide && this.canvas.height === high && this.image) return;
    this.canvas.width = wide;
    this.canvas.height = high;
    this.image = this.context.createImageData(wide, high);
    this.pixels = new Uint32Array(this.image.data.buffer);
  }

  fit() {
    const { left, top, wide, high } = this.box, { width, height } = this.canvas;
    const scale = 0.92 * Math.min(width / wide, height / high);
    this.view = { scale, x: width / 2 - scale * (left + wide / 2), y: height / 2 - scale * (top + high / 2) };
  }

  draw() {
    const began = performance.now(), { width, height } = this.canvas, { scale, x, y } = this.view, { points, colours, pixels } = this;
    pixels.fill(0);
    const big = this.count < 3000 ? 3 : this.count < 30000 ? 2 : 1, edge = big * Math.max(1, Math.round(this.ratio));
    for (let at = 0; at < this.count; at++) {
      const px = Math.round(points[2 * at] * scale + x), py = Math.round(points[2 * at + 1] * scale + y);
      if (px < edge || py < edge || px >= width - edge || py >= height - edge) continue;
      const colour = colours[at];
      for (let dy = -edge; dy <= edge; dy++) {
        const start = (py + dy) * width + px, half = dy === -edge || dy === edge ? edge - 1 : edge;
        for (let dx = -half; dx <= half; dx++) pixels[start + dx] = colour;
      }
    }
    this.context.putImageData(this.image, 0, 0);
    this.canvas.dataset.frame = String(performance.now() - began);
    this.canvas.dataset.frames = String(Number(this.canvas.dataset.frames ?? 0) + 1);
  }

  soon() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => { this.waiting = false; this.draw(); });
  }

  zoom(by, px = this.canvas.width / 2, py = this.canvas.height / 2) {
    const scale = this.view.scale * by;
    this.view = { scale, x: px - (px - this.view.x) * by, y: py - (py - this.view.y) * by };
    this.soon();
  }

  // the point nearest to a place of the canvas, within 8 pixels; -1 for none
  at(px, py) {
    const { scale, x, y } = this.view, reach = (8 * this.ratio) / scale, cx = (px - x) / scale, cy = (py - y) / scale;
    let best = -1, near = reach;
    for (let line = this.line(cy - reach); line <= this.line(cy + reach); line++) {
      for (let column = this.column(cx - reach); column <= this.column(cx + reach); column++) {
        for (const at of this.grid.get(line * CELLS + column) ?? []) {
          const far = Math.hypot(this.points[2 * at] - cx, this.points[2 * at + 1] - cy);
          if (far < near) [best, near] = [at, far];
        }
      }
    }
    return best;
  }

  listen() {
    let held = null, moved = false, asked = null;
    const place = (event) => { const box = this.canvas.getBoundingClientRect(); return [(event.clientX - box.left) * this.ratio, (event.clientY - box.top) * this.ratio]; };
    const memory = (at) => get("map/point", { by: this.by, offset: at });
    this.canvas.addEventListener("pointerdown", (event) => { held = [event.clientX, event.clientY]; moved = false; this.canvas.setPointerCapture(event.pointerId); this.label.hidden = true; });
    this.canvas.addEventListener("pointermove", async (event) => {
      if (held) {
        const dx = (event.clientX - held[0]) * this.ratio, dy = (event.clientY - held[1]) * this.ratio;
        if (Math.hypot(dx, dy) > 3) moved = true;
        if (moved) { this.view.x += dx; this.view.y += dy; held = [event.clientX, event.clientY]; this.soon(); }
        return;
      }
      const [px, py] = place(event), at = this.at(px, py);
      if (at === asked) return;
      asked = at;
      this.label.hidden = true;
      if (at < 0) return;
      await new Promise((done) => setTimeout(done, 60)); // only where the pointer rests
      if (asked !== at) return;
      try {
        const about = await memory(at);
        if (asked !== at) return;
        this.label.textContent = (about.text || about.id).slice(0, 200);
        this.label.style.setProperty("--x", `${Math.max(4, Math.min(px / this.ratio + 12, this.canvas.clientWidth - 300))}px`);
        this.label.style.setProperty("--y", `${py / this.ratio + 14}px`);
        this.label.hidden = false;
      } catch (error) {
        say(error.message);
      }
    });
    this.canvas.addEventListener("pointerup", async (event) => {
      held = null;
      if (moved) return;
      const at = this.at(...place(event));
      if (at < 0) return;
      try {
        go("map", { id: (await memory(at)).id });
      } catch (error) {
        say(error.message);
      }
    });
    this.canvas.addEventListener("pointerleave", () => { asked = null; this.label.hidden = true; });
    this.canvas.addEventListener("wheel", (event) => { event.preventDefault(); this.zoom(Math.exp(-event.deltaY / 400), ...place(event)); }, { passive: false });
    this.canvas.addEventListener("keydown", (event) => {
      const by = { ArrowLeft: [40, 0], ArrowRight: [-40, 0], ArrowUp: [0, 40], ArrowDown: [0, -40] }[event.key];
      if (by) { this.view.x += by[0] * this.ratio; this.view.y += by[1] * this.ratio; this.soon(); }
      else if (event.key === "+" || event.key === "=") this.zoom(1.25);
      else if (event.key === "-") this.zoom(0.8);
      else if (event.key === "0") { this.fit(); this.soon(); }
      else return;
      event.preventDefault();
    });
  }
}
