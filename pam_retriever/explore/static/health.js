// Health: what the index holds, what the last fit said, what it has yet to learn, and whether it is sound.

import { post } from "./api.js";
import { count, counted, el, number, percent, problem, show } from "./dom.js";

export async function draw(place, parameters, health) {
  const fit = health.fit;
  show(place, el("h1", {}, "Health"), facts(health), unlearnt(health), check(health),
    fit ? el("section", {}, el("h2", {}, "The last fit"), el("p", { class: "faint" }, fitted(fit))) : el("p", { class: "card" }, "Nothing was fitted yet: similarity, words and links answer."),
    fit && el("div", { class: "charts" }, loss(fit.losses), ...validation(fit.validation), ...reliability(fit.validation)));
  return null;
}

function facts(health) {
  const shown = [
    ["Memories", count(health.memories)], ["Experienced", count(health.experienced)], ["Sessions", count(health.trajectories)],
    ["Past requests", health.requests === null ? "not stored here" : count(health.requests)], ["Dimensions", count(health.dim)], ["Window", health.fitted ? count(health.window) : "not fitted"],
  ];
  const words = [["Index", health.backend], ["Where", health.location], ["Embedder", health.embedder ?? "none"]];
  return [
    el("dl", { class: "facts" }, shown.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value)))),
    el("table", { class: "plain" }, el("tbody", {}, words.map(([name, value]) => el("tr", {}, el("th", { scope: "row" }, name), el("td", {}, value))))),
  ];
}

function unlearnt(health) {
  const waiting = [];
  if (health.new_trajectories) waiting.push(`${counted(health.new_trajectories, "session")} came or grew`);
  const requests = (health.requests ?? 0) - (health.fit?.requests ?? 0);
  if (requests > 0) waiting.push(`${counted(requests, "past request")} came`);
  const alone = health.memories - health.experienced;
  const text = waiting.length ? `Since the last fit ${waiting.join(" and ")}.` : "All that was experienced is learnt.";
  return el("div", { class: "card" }, el("h2", {}, "Not yet learnt"), el("p", {}, text),
    alone > 0 && el("p", { class: "faint" }, `Without any session: ${counted(alone, "memory")}. Similarity, words and names find such a memory.`));
}

function check(health) {
  if (!health.checks) return null;
  const found = el("div", { role: "status" });
  const button = el("button", { type: "button", onclick: async () => {
    button.disabled = true;
    show(found, el("p", { class: "faint" }, "Reading everything…"));
    try {
      const { wrong } = await post("check");
      show(found, wrong.length ? el("ul", {}, wrong.map((line) => el("li", {}, line))) : el("p", {}, "It is sound."));
    } catch (error) {
      show(found, problem(error.message));
    }
    button.disabled = false;
  } }, "Check the files");
  return el("div", { class: "row" }, button, found);
}

function fitted(fit) {
  const when = fit.finished ? `${fit.finished.slice(0, 16).replace("T", " ")} UTC` : "at an unknown time";
  const learnt = `${counted(fit.trajectories, "session")}, ${counted(fit.associations, "association")}, ${counted(fit.requests, "past request")}`;
  return `${when} · ${learnt} · ${number(fit.seconds, 1)} s on ${fit.device} · stopped by ${fit.stopped_by}`;
}

function loss(losses) {
  if (losses.length < 2) return null;
  const [wide, high, left] = [420, 180, 44], low = Math.min(...losses), top = Math.max(...losses), span = top - low || 1;
  const x = (at) => left + ((wide - left) * at) / (losses.length - 1), y = (value) => 8 + ((high - 36) * (top - value)) / span;
  return el("section", { class: "card" }, el("h2", {}, "Loss"),
    el("svg", { viewBox: `0 0 ${wide} ${high}`, role: "img", "aria-label": `Mean loss, from ${number(losses[0])} to ${number(losses.at(-1))} in ${losses.length} passes` },
      el("line", { class: "axis", x1: left, x2: wide, y1: high - 28, y2: high - 28 }),
      el("polyline", { class: "line", points: losses.map((value, at) => `${x(at)},${y(value)}`).join(" ") }),
      el("text", { x: 0, y: y(top) + 4 }, number(top, 2)), el("text", { x: 0, y: y(low) + 4 }, number(low, 2)),
      el("text", { x: left, y: high - 8 }, "pass 1"), el("text", { x: wide, y: high - 8, "text-anchor": "end" }, String(losses.length))));
}

const KINDS = { question: "Questions", "seen cue": "Memories that were used", "unseen cue": "Memories never used" };

function validation(worths) {
  if (!worths.length) return [el("section", { class: "card" }, el("h2", {}, "Validation"), el("p", { class: "faint" }, "There were too few past requests to hold 20 of them out. With more, fit says here what each source is worth on your data."))];
  return [...new Set(worths.map((one) => one.kind))].map((kind) => {
    const rows = worths.filter((one) => one.kind === kind).sort((a, b) => b.recall.mean - a.recall.mean);
    return el("section", { class: "card" }, el("h2", {}, `${KINDS[kind] ?? kind}: R@10 of each source`),
      el("p", { class: "faint small" }, `${count(rows[0].questions)} held out; the black line is the 95 % interval`),
      el("ul", { class: "bars" }, rows.map(({ source, recall }) => el("li", { class: source === "mixture" ? "mixture" : "" }, el("span", {}, source),
        el("span", { class: "rail", role: "img", "aria-label": `${source}: ${number(recall.mean)}, from ${number(recall.low)} to ${number(recall.high)}` },
          el("i", { "--w": `${100 * recall.mean}%` }), el("b", { "--l": `${100 * recall.low}%`, "--w": `${100 * (recall.high - recall.low)}%` })),
        el("span", { class: "number" }, number(recall.mean))))));
  });
}

function reliability(worths) {
  return worths.filter((one) => one.reliability.length).map((worth) => {
    const [wide, high, left] = [300, 300, 36], side = wide - left;
    const x = (value) => left + side * value, y = (value) => side * (1 - value);
    const most = Math.max(...worth.reliability.map((bin) => bin.count));
    const label = worth.reliability.map((bin) => `${percent(bin.confidence)} sure, ${percent(bin.frequency)} used`).join("; ");
    return el("section", { class: "card" }, el("h2", {}, `${KINDS[worth.kind] ?? worth.kind}: is the confidence right?`),
      el("p", { class: "faint small" }, `On the diagonal it is. Mean distance ${percent(worth.calibration_error)}.`),
      el("svg", { viewBox: `0 0 ${wide} ${high}`, role: "img", "aria-label": label },
        el("line", { class: "axis", x1: x(0), y1: y(0), x2: x(1), y2: y(1), "stroke-dasharray": "4 4" }),
        el("line", { class: "axis", x1: x(0), y1: y(0), x2: x(1), y2: y(0) }), el("line", { class: "axis", x1: x(0), y1: y(0), x2: x(0), y2: y(1) }),
        worth.reliability.map((bin) => el("circle", { class: "bin", cx: x(bin.confidence), cy: y(bin.frequency), r: 3 + 4 * Math.sqrt(bin.count / most), fill: "var(--accent)", "fill-opacity": 0.75 }, el("title", {}, `${percent(bin.confidence)} sure, ${percent(bin.frequency)} used, ${count(bin.count)} hits`))),
        el("text", { x: x(1), y: high - 16, "text-anchor": "end" }, "how sure"), el("text", { x: 0, y: 10 }, "used")));
  });
}
