// What is drawn: the data that lies in the page, numbers and names as people read them. One of three files that the page
// puts together, in this order: data.js, panel.js, page.js.
"use strict";
(async () => {
  const MOST_SVG = 2000, LEFT = 84, RIGHT = 14, PEAK = 8;
  const COLOURS = { activation: "#56b4e9", input: "#e69f00", output: "#22a884", constant: "#cc79a7", workspace: "#e8743b" };
  const MODULES = ["#56b4e9", "#e69f00", "#22a884", "#cc79a7", "#e8743b", "#f0d53c", "#8f9bff", "#b0b0b8"];
  const SVG = "http://www.w3.org/2000/svg";
  const dark = matchMedia("(prefers-color-scheme: dark)");

  function element(tag, attributes, ...children) {
    const made = document.createElement(tag);
    for (const [key, value] of Object.entries(attributes || {})) made.setAttribute(key, value);
    made.append(...children);
    return made;
  }
  function shape(tag, attributes, text) {
    const made = document.createElementNS(SVG, tag);
    for (const key in attributes) made.setAttribute(key, attributes[key]);
    if (text !== undefined) made.textContent = text;
    return made;
  }
  const count = (n) => n.toLocaleString("en");
  function bytes(n) {
    const exact = count(n) + " B";
    return n < 1024 ? exact : `${exact} (${short(n)})`;
  }
  function short(n) {
    const unit = n < 1024 ? 0 : Math.min(4, Math.floor(Math.log2(n) / 10));
    const value = n / 1024 ** unit;
    return (unit ? value.toFixed(value < 10 ? 2 : value < 100 ? 1 : 0) : value) + " " + ["B", "KiB", "MiB", "GiB", "TiB"][unit];
  }
  const hex = (n) => "0x" + n.toString(16).padStart(8, "0");

  // ---- data -------------------------------------------------------------------------------------------------------
  async function unpack() {
    const source = document.getElementById("lowtide-data");
    let data = Uint8Array.from(atob(source.textContent.trim()), (c) => c.charCodeAt(0));
    if (source.dataset.form === "deflate") {
      const stream = new Blob([data]).stream().pipeThrough(new DecompressionStream("deflate"));
      data = new Uint8Array(await new Response(stream).arrayBuffer());
    }
    let at = 0;
    function varint() {
      let value = 0, scale = 1, byte;
      do {
        byte = data[at++];
        value += (byte & 127) * scale;
        scale *= 128;
      } while (byte & 128);
      return value;
    }
    const length = varint();
    const head = JSON.parse(new TextDecoder().decode(data.subarray(at, at + length)));
    at += length;
    for (const view of head.views) view.stacks = [];
    for (const [name, size] of head.columns) {
      const column = new Float64Array(size);
      for (let i = 0, value = 0; i < size; i++) {
        const step = varint();
        value += step % 2 ? -(step + 1) / 2 : step / 2;
        column[i] = value;
      }
      const dot = name.indexOf("."), view = head.views[+name.slice(0, dot)], what = name.slice(dot + 1);
      if (what.startsWith("kind ")) view.stacks.push([what.slice(5), column]);
      else view[what] = column;
    }
    return head.views;
  }

  function prepare(view) {
    view.steps = view.ops.length;
    view.count = view.start.length;
    view.end = view.start.map((s, i) => s + view.length[i]);
    view.peak = 0;
    for (let i = 1; i < view.steps; i++) if (view.live[i] > view.live[view.peak]) view.peak = i;
    view.counted = (i) => !view.moving || view.memory[i] === 0;
    view.atPeak = new Uint8Array(view.count);
    for (const i of liveAt(view, view.peak)) view.atPeak[i] = 1;
    view.found = new Uint8Array(view.count);
    view.label = labels(view.names);
    view.stepOf = new Map();
    for (let s = view.steps - 1; s >= 0; s--) view.stepOf.set(userName(view, s), s);
    return view;
  }
  // Names without what most of them have in common, which tells nobody which one it is.
  function labels(names) {
    const parts = names.map((name) => [...new Set(name.split(/[/;]/))]), often = new Map();
    for (const list of parts) for (const part of list) often.set(part, (often.get(part) || 0) + 1);
    const most = Math.max(4, names.length / 4);
    return names.map((name, i) => parts[i].filter((part) => often.get(part) <= most).join("/") || name);
  }
  // So many letters of a label: its begin or its end, whichever tells more of them apart.
  function cut(view, label, room) {
    if (label.length <= room) return label;
    view.heads ??= new Map();
    if (!view.heads.has(room)) {
      const different = (part) => new Set(view.label.map(part)).size;
      view.heads.set(room, different((l) => l.slice(0, room - 1)) > different((l) => l.slice(1 - room)));
    }
    return view.heads.get(room) ? label.slice(0, room - 1) + "…" : "…" + label.slice(1 - room);
  }
  const userName = (view, step) => view.of[step] ?? view.ops[step];
  function liveAt(view, step) {
    const live = [];
    for (let i = 0; i < view.count; i++)
      if (view.start[i] <= step && step < view.end[i] && view.counted(i)) live.push(i);
    return live.sort((a, b) => view.size[b] - view.size[a] || a - b);
  }

  // Of each column of pixels the step with the most: no peak is lost however many steps there are.
  function columnsOf(values, lo, hi, width) {
    const span = hi - lo, wide = Math.max(1, Math.min(Math.round(width), span)), picked = [];
    for (let c = 0; c < wide; c++) {
      const from = lo + Math.floor((c * span) / wide), to = Math.max(from + 1, lo + Math.floor(((c + 1) * span) / wide));
      let best = from;
      for (let s = from + 1; s < to && s < values.length; s++) if (values[s] > values[best]) best = s;
      picked.push([from, to, best]);
    }
    return picked;
  }

  function mixed(colour, towards, part) {
    const channel = (text, i) => parseInt(text.slice(1 + 2 * i, 3 + 2 * i), 16);
    return "#" + [0, 1, 2].map((i) => Math.round(channel(colour, i) * (1 - part) + channel(towards, i) * part)
      .toString(16).padStart(2, "0")).join("");
  }
  const SHADES = {};
  for (const colour of [...MODULES, ...Object.values(COLOURS)]) SHADES[colour] = [0, 0.22, 0.42].map((part) => mixed(colour, "#ffffff", part));

  function ticks(most, room) {
    const unit = 1024 ** (most < 1024 ? 0 : Math.min(4, Math.floor(Math.log2(most) / 10)));
    let step = 1;
    for (const factor of [0.1, 0.2, 0.25, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 256, 512])
      if ((most / unit / (step = factor)) * 24 <= room) break;
    if (unit === 1) step = Math.max(1, Math.round(step));
    const made = [];
    for (let k = 0; k * step * unit <= most * 1.0001; k++) made.push(k * step * unit);
    const name = ["B", "KiB", "MiB", "GiB", "TiB"][Math.round(Math.log2(unit) / 10)];
    const digits = step % 1 ? (step * 10) % 1 ? 2 : 1 : 0;
    return made.map((value) => [value, `${(value / unit).toFixed(digits)} ${name}`]);
  }
  function stepTicks(lo, hi, width) {
    let step = 1;
    for (let power = 1; ((hi - lo) / step) * 60 > width; power *= 10)
      for (const k of [1, 2, 5]) if (((hi - lo) / step) * 60 > width) step = k * power;
    const made = [];
    for (let s = Math.ceil(lo / step) * step; s < hi; s += step) made.push(s);
    return made;
  }
  // The first of some heights at which a name meets none of those before it: what lies over its input has two.
  function freeHeight(names, x, width, heights) {
    const y = heights.find((at) => !names.some(([left, right, height]) => x < right && left < x + width && Math.abs(height - at) < 12));
    if (y !== undefined) names.push([x, x + width, y]);
    return y;
  }
