// Ask: what looks like a question, and what happened with it.

import { file, post } from "./api.js";
import { count, counted, el, isolated, number, percent, problem, say, show, words } from "./dom.js";
import { go, link } from "./main.js";
import { timeline } from "./when.js";
import { why } from "./why.js";

const COLOURS = 10;
let page = null; // of the view that is drawn: what change() needs

export async function draw(place, parameters, health) {
  const kind = el("select", { "aria-label": "What to ask with", id: "kind" },
    el("option", { value: "q", disabled: !health.texts }, "Words"), el("option", { value: "id" }, "Memory id"));
  const field = el("input", { class: "words", type: "search", id: "question", dir: "auto", autocomplete: "off", spellcheck: "false", "aria-label": "Question" });
  const k = el("input", { type: "number", min: 1, max: 200, value: 10 });
  const where = el("input", { type: "text", placeholder: '{"session": 3}', spellcheck: "false", autocomplete: "off" });
  const without = new Set();
  const when = el("div", { class: "when", hidden: true, role: "group", "aria-label": "When" });
  const sources = el("div", { class: "sources", role: "group", "aria-label": "Sources that count" });
  const answer = el("div", { id: "answer", "aria-busy": "false" });
  const options = el("details", {}, el("summary", {}, "Filter and number of hits"),
    el("div", { class: "row" }, el("label", { class: "k" }, "Hits", k), el("label", { class: "where" }, "Metadata filter, as JSON", where)));
  const form = el("form", { class: "question", role: "search", onsubmit: (event) => { event.preventDefault(); ask(); } },
    el("div", { class: "line" }, kind, field, el("button", { class: "main", type: "submit" }, "Ask")), options, when);
  page = { health, kind, field, k, where, without, sources, answer, options, line: null, during: null, cancel: null };
  const mine = page;
  kind.addEventListener("change", () => hint(page));
  for (const one of [k, where]) one.addEventListener("change", ask);
  show(place, el("h1", { class: "hidden" }, "Ask"), form, sources, answer);
  change(parameters);
  if (!field.value) field.focus({ preventScroll: true });
  timeline(when, (during) => { mine.during = during; ask(); }).then((line) => { mine.line = line; line?.set(mine.during); });
  return () => { page?.cancel?.abort(); page = null; };
}

function hint({ kind, field, health }) {
  field.placeholder = kind.value === "q" ? "What do you want to know?" : "The id of a memory";
  if (!health.texts) field.title = "This index has no embedder here: ask with the id of a memory";
}

// the address changed: the question is what it says. Who changed it by the form may be typing on.
export function change(parameters) {
  const { kind, field, k, where, without, options, health } = page;
  page.parameters = parameters;
  if (page.own !== location.hash) {
    const id = parameters.get("id");
    kind.value = id !== null || !health.texts ? "id" : "q";
    field.value = id ?? parameters.get("q") ?? "";
    k.value = parameters.get("k") ?? 10;
    where.value = parameters.get("where") ?? "";
    if (where.value) options.open = true;
    page.during = read(parameters, "during", null);
    page.line?.set(page.during);
    without.clear();
    for (const name of names(parameters)) without.add(name);
    hint(page);
  }
  if (parameters.has("id") || parameters.has("q")) answerNow();
  else show(page.answer, welcome(health));
}

function read(parameters, name, otherwise) {
  try {
    return JSON.parse(parameters.get(name) ?? "null") ?? otherwise;
  } catch {
    return otherwise; // somebody wrote the address by hand
  }
}

const names = (parameters) => read(parameters, "without", []);

function welcome(health) {
  if (!health.memories) return el("p", { class: "faint" }, "The index holds no memories yet.");
  const how = health.texts ? "Ask in words, or take a memory from a session or the map." : "Ask with the id of a memory; take one from a session or the map.";
  return el("p", { class: "faint" }, how);
}

// what is asked goes to the address, and from there to the answer
function ask() {
  const { kind, field, k, where, without, during } = page;
  if (!field.value.trim()) return;
  const said = { [kind.value]: field.value, k: k.value === "10" ? "" : k.value, where: where.value.trim(), without: without.size ? JSON.stringify([...without]) : "", during: during ? JSON.stringify(during) : "" };
  const before = location.hash;
  go("ask", said);
  page.own = location.hash;
  if (location.hash === before) answerNow(); // the same question again
}

function question(parameters) {
  const asked = parameters.has("id") ? { id: parameters.get("id") } : { text: parameters.get("q") };
  const filter = parameters.get("where");
  return { ...asked, k: Number(parameters.get("k") ?? 10), where: filter ? JSON.parse(filter) : null, without: names(parameters), during: read(parameters, "during", null) };
}

async function answerNow() {
  const mine = page, { answer, sources, without } = page;
  mine.cancel?.abort();
  mine.cancel = new AbortController();
  answer.setAttribute("aria-busy", "true");
  const began = performance.now();
  try {
    const asked = question(mine.parameters);
    const found = await post("ask", asked, mine.cancel.signal);
    if (page !== mine) return;
    answer.dataset.seconds = JSON.stringify({ ...found.seconds, page: (performance.now() - began) / 1000 });
    switches(sources, found.sources, without);
    show(answer, columns(found, asked, mine.health));
    say(`${counted(found.looks.length, "hit")} by similarity, ${found.happened.length} by association.`);
  } catch (error) {
    if (error.name === "AbortError") return;
    show(sources);
    show(answer, problem(error instanceof SyntaxError ? `The filter is no JSON: ${error.message}` : error.message));
  }
  answer.setAttribute("aria-busy", "false");
  answer.dataset.drawn = String((performance.now() - began) / 1000);
}

function switches(place, names, without) {
  if (!names.length) return show(place);
  show(place, el("span", { class: "faint small" }, "Sources"), names.map((name, at) =>
    el("button", {
      type: "button", class: `c${at % COLOURS}`, "data-source": name, "aria-pressed": String(!without.has(name)),
      onclick: () => { without.has(name) ? without.delete(name) : without.add(name); ask(); refocus(name); },
    }, el("span", { class: "dot" }), name)));
}

// the switch is drawn anew with the answer: who used it by keyboard stays on it
function refocus(name) {
  const place = page.sources;
  new MutationObserver((_, watching) => {
    [...place.querySelectorAll("button")].find((one) => one.dataset.source === name)?.focus();
    watching.disconnect();
  }).observe(place, { childList: true });
}

function columns(found, asked, health) {
  const both = new Set(found.happened.map((hit) => hit.id).filter((id) => found.looks.some((one) => one.id === id)));
  const context = { sources: found.sources, asked, health, both, request: crypto.randomUUID(), used: new Set(), unused: new Set() };
  const cue = found.cue && el("div", { class: "card" }, el("p", { class: "small faint" }, "The memory asked with"), words(found.cue.text ?? found.cue.id, "text short"),
    el("p", { class: "meta" }, el("a", { href: link("memory", { id: found.cue.id }) }, isolated(found.cue.id)), el("a", { href: link("map", { id: found.cue.id }) }, "Neighbourhood")));
  const ms = (seconds) => `${Math.max(1, Math.round(1000 * seconds))} ms`;
  return [
    cue,
    el("div", { class: "columns" },
      el("section", { "aria-labelledby": "looks" }, el("h2", { id: "looks" }, "Looks like it"),
        el("p", { class: "about faint small" }, `By cosine alone · ${ms(found.seconds.search)}`), list(found.looks, context, false)),
      el("section", { "aria-labelledby": "happened" }, el("h2", { id: "happened" }, "Happened with it"),
        el("p", { class: "about faint small" }, `By all that was learnt · ${ms(found.seconds.recall)}`), list(found.happened, context, true))),
    el("p", { class: "row" },
      el("button", { type: "button", class: "quiet", onclick: () => copy() }, "Copy a link to this question"),
      el("button", { type: "button", class: "quiet", onclick: () => download(asked) }, "Save as a file"),
      asked.text !== undefined && el("a", { class: "small", href: link("map", { q: asked.text }) }, "Neighbourhood")),
  ];
}

async function copy() {
  try {
    await navigator.clipboard.writeText(location.href);
    say("Copied.");
  } catch {
    say("The browser does not allow it: the address of this page is the link.");
  }
}

async function download(asked) {
  try {
    const address = URL.createObjectURL(await file("export", asked));
    el("a", { href: address, download: "recall.html" }).click();
    URL.revokeObjectURL(address);
    say("Saved.");
  } catch (error) {
    show(page.answer, problem(error.message));
  }
}

function list(hits, context, explained) {
  if (!hits.length) return el("p", { class: "faint" }, "Nothing.");
  const most = Math.max(...hits.map((hit) => Object.values(hit.sources ?? {}).reduce((sum, value) => sum + Math.abs(value), 0)), 1e-9);
  return el("ol", { class: "hits" }, hits.map((hit) => card(hit, context, most, explained)));
}

function card(hit, context, most, explained) {
  const text = words(hit.text ?? hit.id, "text short");
  const more = el("div", { class: "why", hidden: true });
  const opened = el("button", { type: "button", class: "quiet", "aria-expanded": "false" }, "Why");
  opened.addEventListener("click", async () => {
    more.hidden = !more.hidden;
    opened.setAttribute("aria-expanded", String(!more.hidden));
    text.classList.toggle("short", more.hidden);
    if (!more.hidden && !more.childNodes.length) await why(more, hit, context);
  });
  return el("li", { class: `card hit ${context.both.has(hit.id) ? "both" : ""}`, "data-id": hit.id, "data-score": hit.score },
    el("p", { class: "score" }, el("span", { class: "number" }, number(hit.score)),
      hit.confidence !== null && el("span", { class: "sure", title: "Calibrated by fit" }, `${percent(hit.confidence)} sure`)),
    el("div", { class: "body" }, text, explained && bar(hit.sources, context.sources, most),
      el("div", { class: "meta" }, el("a", { href: link("memory", { id: hit.id }) }, isolated(hit.id)), met(hit, explained, context),
        context.both.has(hit.id) && el("span", {}, "in both"),
        el("span", { class: "doing" }, explained && opened,
          el("button", { type: "button", class: "quiet", onclick: () => go("ask", { id: hit.id }) }, "Ask with it"),
          context.health.writes && helpful(hit, context))),
      more));
}

function met(hit, explained, context) {
  if (!explained || hit.evidence === null) return null;
  if (!hit.evidence.length) return context.asked.id === undefined ? null : el("span", {}, "predicted");
  const steps = hit.evidence[0].offset;
  const times = hit.evidence.length > 1 ? `, ${count(hit.evidence.length)} times` : "";
  return el("span", {}, `met ${Math.abs(steps)} ${Math.abs(steps) === 1 ? "step" : "steps"} ${steps > 0 ? "after" : "before"}${times}`);
}

export function bar(brought, names, most) {
  if (!brought) return null;
  const label = Object.entries(brought).map(([name, value]) => `${name} ${number(value)}`).join(", ");
  return el("div", { class: "brought", role: "img", "aria-label": label, title: label }, names.flatMap((name, at) => {
    const value = brought[name];
    return value ? [el("i", { class: `c${at % COLOURS} ${value < 0 ? "minus" : ""}`, "--w": `${(100 * Math.abs(value)) / most}%` })] : [];
  }));
}

function helpful(hit, context) {
  const { used, unused } = context;
  const buttons = [["This one helped", used, unused], ["This one did not", unused, used]].map(([label, mine, other]) =>
    el("button", { type: "button", class: "quiet", "aria-pressed": "false", onclick: () => press(mine, other) }, label));
  // one after the other, in the order of the clicks: the last word on a hit is the one that stays
  const press = (mine, other) => { context.turn = (context.turn ?? Promise.resolve()).then(() => store(mine, other)); };
  async function store(mine, other) {
    const before = [new Set(used), new Set(unused)];
    const place = buttons.at(-1).parentElement;
    place.querySelector(".problem")?.remove();
    other.delete(hit.id);
    mine.has(hit.id) ? mine.delete(hit.id) : mine.add(hit.id);
    const wait = el("span", { class: "faint small" }, "Waiting: another program writes to this index.");
    const waiting = setTimeout(() => { place.append(wait); say(wait.textContent); }, 500);
    try {
      await post("feedback", { ...context.asked, request: `explorer:${context.request}`, used: [...used], unused: [...unused] });
      say("Stored.");
    } catch (error) {
      for (const [set, old] of [[used, before[0]], [unused, before[1]]]) { set.clear(); for (const id of old) set.add(id); }
      say("");
      place.append(problem(error.message));
    } finally {
      clearTimeout(waiting);
      wait.remove();
    }
    buttons[0].setAttribute("aria-pressed", String(used.has(hit.id)));
    buttons[1].setAttribute("aria-pressed", String(unused.has(hit.id)));
  }
  return buttons;
}
