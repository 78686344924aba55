// When: how many memories there were over time, and a stretch of it that hits must lie in.

import { get } from "./api.js";
import { counted, date, el, say, show } from "./dom.js";

const WIDE = 600, HIGH = 44;

// place: an empty element; chosen(during) is called when somebody chose: [from, to] as a question takes them, or null
export async function timeline(place, chosen) {
  let times;
  try {
    times = (await get("times")).times;
  } catch (error) {
    say(error.message);
    return null;
  }
  if (!times || times.end <= times.start) return null;
  return new Line(place, times, chosen);
}

class Line {
  constructor(place, times, chosen) {
    Object.assign(this, { times, chosen, bins: times.counts.length });
    const most = Math.max(...times.counts), step = WIDE / this.bins;
    this.bars = times.counts.map((some, at) => el("rect", { x: at * step + 0.5, width: step - 1, y: HIGH - Math.max(some && 2, (HIGH * some) / most), height: Math.max(some && 2, (HIGH * some) / most) }));
    this.svg = el("svg", { viewBox: `0 0 ${WIDE} ${HIGH}`, preserveAspectRatio: "none", "aria-hidden": "true" }, this.bars);
    const range = (label) => el("input", { type: "range", min: 0, max: this.bins, step: 1, "aria-label": label, oninput: () => this.slid(), onchange: () => this.done() });
    this.from = range("Not before");
    this.to = range("Before");
    this.said = el("span", { class: "number" });
    this.all = el("button", { type: "button", class: "quiet", onclick: () => { this.mark(0, this.bins); this.done(); } }, "All times");
    show(place, el("div", { class: "row" }, el("span", { class: "faint small" }, "When"), this.said, this.all), this.svg, el("div", { class: "ends" }, this.from, this.to));
    place.hidden = false;
    this.mark(0, this.bins);
    this.drag();
  }

  // what a question says of time: null, or two ends as the server reads them
  set(during) {
    const at = (end, other) => (end === null || end === undefined ? other : Math.round(((this.seconds(end) - this.times.start) / (this.times.end - this.times.start)) * this.bins));
    if (during) this.mark(at(during[0], 0), at(during[1], this.bins));
    else this.mark(0, this.bins);
  }

  seconds = (end) => (this.times.kind === "dates" ? Date.parse(end) / 1000 : Number(end));
  time = (at) => this.times.start + ((this.times.end - this.times.start) * at) / this.bins;

  mark(from, to) {
    const low = Math.max(0, Math.min(from, to, this.bins - 1)), high = Math.min(this.bins, Math.max(from, to, low + 1));
    [this.low, this.high, this.from.value, this.to.value] = [low, high, low, high];
    this.bars.forEach((bar, at) => bar.setAttribute("class", at >= low && at < high ? "" : "out"));
    const shown = (at) => (this.times.kind === "dates" ? date(this.time(at)).slice(0, 10) : String(Number(this.time(at).toPrecision(6))));
    const inside = this.times.counts.slice(low, high).reduce((sum, some) => sum + some, 0);
    this.said.textContent = `${shown(low)} to ${shown(high)} · ${counted(inside, "memory")}`;
    for (const [input, at] of [[this.from, low], [this.to, high]]) input.setAttribute("aria-valuetext", shown(at));
    this.all.hidden = low === 0 && high === this.bins;
  }

  slid() {
    const [from, to] = [Number(this.from.value), Number(this.to.value)];
    this.mark(from < to ? from : this.low, from < to ? to : this.high);
  }

  done() {
    const said = (at) => (this.times.kind === "dates" ? new Date(1000 * this.time(at)).toISOString().replace("Z", "+00:00") : this.time(at));
    const whole = this.low === 0 && this.high === this.bins;
    this.chosen(whole ? null : [this.low === 0 ? null : said(this.low), this.high === this.bins ? null : said(this.high)]);
  }

  drag() {
    let held = null;
    const bin = (event) => {
      const box = this.svg.getBoundingClientRect();
      return Math.max(0, Math.min(this.bins, ((event.clientX - box.left) / box.width) * this.bins));
    };
    this.svg.addEventListener("pointerdown", (event) => { held = bin(event); this.svg.setPointerCapture(event.pointerId); event.preventDefault(); });
    this.svg.addEventListener("pointermove", (event) => {
      if (held === null) return;
      const other = bin(event);
      this.mark(Math.floor(Math.min(held, other)), Math.ceil(Math.max(held, other)));
    });
    this.svg.addEventListener("pointerup", () => { if (held !== null) this.done(); held = null; });
    this.svg.addEventListener("pointercancel", () => { held = null; });
  }
}
