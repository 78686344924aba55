// Elements, made of text nodes only: nothing from an index is ever read as HTML.

const SVG = "http://www.w3.org/2000/svg";
const SVG_TAGS = new Set(["svg", "g", "circle", "line", "polyline", "path", "rect", "text", "title"]);

export function el(tag, attributes = {}, ...children) {
  const node = SVG_TAGS.has(tag) ? document.createElementNS(SVG, tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name.startsWith("--")) node.style.setProperty(name, value);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

// a text as it was written, in its own direction
export const words = (text, kind = "text") => el("p", { class: kind, dir: "auto" }, text);
export const isolated = (text) => el("bdi", {}, text);

export function show(place, ...children) {
  place.replaceChildren(...children.flat(Infinity).filter(Boolean));
}

export const number = (value, digits = 3) => (value === null || value === undefined ? "" : value.toFixed(digits));
export const percent = (value) => `${Math.round(100 * value)} %`;
export const count = (value) => value.toLocaleString("en");
/** Returns a number with its noun: "1 memory", "2,000 memories". */
export const counted = (value, noun) => `${count(value)} ${value === 1 ? noun : noun.replace(/y$/, "ie") + "s"}`;

export function date(seconds) {
  // numbers of a unit of one's own are shown as they are; seconds since 1970 as dates
  if (seconds === null || seconds === undefined) return "";
  if (Math.abs(seconds) < 1e8) return String(seconds);
  return new Date(1000 * seconds).toISOString().slice(0, 16).replace("T", " ");
}

export function say(text) {
  document.getElementById("said").textContent = text;
}

export const problem = (text) => el("p", { class: "card problem", role: "alert" }, text);
