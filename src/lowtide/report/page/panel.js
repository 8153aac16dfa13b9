  // One plan: its figures and its cursor. Names are a stranger's: text in the page, never markup.
  class Panel {
    constructor(view, number, before) {
      const home = document.getElementById("plan-" + number);
      Object.assign(this, { view, number, home, before, lo: 0, hi: Math.max(view.steps, 1), step: view.peak, chosen: -1, pinned: false });
      this.changed = () => {};
      this.figures = [];
      this.build();
    }

    build() {
      const { view } = this;
      const tools = element("div", { class: "tools", role: "toolbar", "aria-label": "view of " + view.title });
      const button = (text, label, run) => {
        const made = element("button", { type: "button", "aria-label": label, title: label }, text);
        made.addEventListener("click", run);
        tools.append(made);
      };
      button("peak", "go to the peak (P)", () => this.go(view.peak, true));
      button("−", "show more steps (-)", () => this.zoom(2));
      button("+", "show fewer steps (+)", () => this.zoom(0.5));
      button("all", "show all steps (0)", () => this.show(0, view.steps));
      const label = element("label", {}, "search ");
      this.search = element("input", { type: "search", placeholder: "op or tensor", "aria-label": "search ops and tensors by name" });
      this.search.addEventListener("input", () => this.find());
      this.search.addEventListener("keydown", (event) => { if (event.key === "Enter") this.next(event.shiftKey ? -1 : 1); });
      label.append(this.search);
      this.matches = element("span", { class: "matches", role: "status" });
      tools.append(label, this.matches);
      if (view.memories.length && view.modules.length > 1) {
        const choice = element("select", { "aria-label": "colour of what is in memory" }, element("option", {}, "kind"), element("option", {}, "module"));
        choice.addEventListener("change", () => { this.byModule = choice.value === "module"; this.legend(); this.draw(); });
        tools.append(element("label", {}, "colour by ", choice));
      }
      this.key = element("div", { class: "legend" });
      this.legend();
      this.home.append(tools, this.key);
      this.add("live", "live bytes over the steps", () => this.drawLive(), 250);
      if (this.editRows().length) this.add("edits", "what was changed, by step", () => this.drawEdits(), this.editRows().length * 14 + 4);
      view.memories.forEach((memory, m) => this.add("arena", `${memory[0]}: addresses over the steps`, (f) => this.drawArena(f, m), 300));
      this.home.append((this.readout = element("div", { class: "readout", "aria-live": "polite" })));
      this.draw();
      new ResizeObserver(() => { if (this.figures[0].box.clientWidth !== this.drawn) this.draw(); }).observe(this.figures[0].box);
      this.tables();
    }

    colour(i) {
      return this.byModule ? MODULES[this.view.module[i]] : COLOURS[this.view.kinds[this.view.kind[i]]];
    }

    legend() {
      const made = this.key;
      made.replaceChildren();
      const entry = (style, text) => {
        const swatch = element("i", { class: style[0] === "#" ? "" : style });
        if (style[0] === "#") swatch.style.background = style;
        made.append(element("span", {}, swatch, " " + text));
      };
      for (const [kind] of this.view.stacks) entry(COLOURS[kind], kind);
      if (this.before) entry("own", "the other plan, when the same op runs");
      else entry("own", "file order, at its own steps");
      if (this.view.memories.length) {
        entry("outline", "live at the peak");
        if (this.view.over.some((o) => o >= 0)) entry("hatch", "in place: written over an input");
        entry("free", "white: free");
      }
      if (this.byModule) {
        made.append(element("span", {}, "addresses by module:"));
        this.view.modules.forEach((name, m) => entry(MODULES[m], name));
      }
    }

    add(kind, title, draw, height) {
      const figure = element("figure", { class: kind });
      const caption = element("figcaption", {}, title);
      const box = element("div", { class: "box" });
      box.style.height = height + "px";
      const canvas = element("canvas", { "aria-hidden": "true" });
      const svg = shape("svg", { role: "img", "aria-label": `${title} of ${this.view.title}` });
      const over = shape("svg", { class: "over", "aria-hidden": "true" });
      box.append(canvas, svg, over);
      figure.append(caption, box);
      this.home.append(figure);
      const made = { kind, box, canvas, svg, over, height, draw: () => draw(made) };
      this.figures.push(made);
      if (kind === "live") {
        for (const [key, value] of Object.entries({ tabindex: 0, role: "slider", "aria-label": "step", "aria-valuemin": 0, "aria-valuemax": Math.max(this.view.steps - 1, 0) }))
          box.setAttribute(key, value);
        this.slider = box;
      }
      box.addEventListener("pointermove", (event) => this.pointer(event, made));
      box.addEventListener("pointerdown", (event) => { this.from = this.stepAt(event, made); this.fromX = event.clientX; });
      box.addEventListener("pointerup", (event) => this.release(event, made));
      box.addEventListener("keydown", (event) => this.key_(event));
      box.addEventListener("wheel", (event) => {
        if (!event.ctrlKey && !event.altKey) return;
        event.preventDefault();
        this.zoom(event.deltaY > 0 ? 1.25 : 0.8, this.stepAt(event, made));
      }, { passive: false });
    }

    // -- where things are
    x(step) { return LEFT + ((step - this.lo) / (this.hi - this.lo)) * this.width; }
    stepAt(event, figure) {
      const at = event.clientX - figure.box.getBoundingClientRect().left - LEFT;
      return Math.max(this.lo, Math.min(this.hi - 1, this.lo + Math.floor((at / this.width) * (this.hi - this.lo))));
    }

    // -- drawing
    draw() {
      this.drawn = this.figures[0].box.clientWidth;
      this.width = Math.max(40, this.drawn - LEFT - RIGHT);
      for (const figure of this.figures) {
        const width = figure.box.clientWidth;
        for (const svg of [figure.svg, figure.over]) {
          svg.setAttribute("viewBox", `0 0 ${width} ${figure.height}`);
          svg.replaceChildren();
        }
        figure.draw();
      }
      this.mark();
    }

    frame(figure, most, room) {
      const { svg, height } = figure, foot = height - 22;
      const y = (value) => foot - (value / most) * (foot - PEAK);
      for (const [value, text] of ticks(most, room)) {
        svg.append(shape("line", { x1: LEFT, x2: LEFT + this.width, y1: y(value), y2: y(value), class: "grid" }));
        svg.append(shape("text", { x: LEFT - 6, y: y(value) + 4, class: "tick", "text-anchor": "end" }, text));
      }
      for (const s of stepTicks(this.lo, this.hi, this.width)) {
        const x = this.x(s + 0.5);
        svg.append(shape("line", { x1: x, x2: x, y1: foot, y2: foot + 4, class: "axis" }));
        svg.append(shape("text", { x, y: foot + 16, class: "tick", "text-anchor": "middle" }, count(s)));
      }
      svg.append(shape("line", { x1: LEFT, x2: LEFT + this.width, y1: foot, y2: foot, class: "axis" }));
      svg.append(shape("text", { x: LEFT - 6, y: foot + 16, class: "tick", "text-anchor": "end" }, "step"));
      return y;
    }

    drawLive() {
      const { view } = this, figure = this.figures[0];
      const own = this.grey(), most = Math.max(1, ...[view.bound || 0, view.live[view.peak] || 0, own.most].map((v) => v * 1.04));
      const top = view.room && view.room < 2 * most ? Math.max(most, view.room * 1.04) : most;
      const y = this.frame(figure, top, figure.height - 30);
      const svg = figure.svg;
      const path = (points, base) => {
        let d = "";
        for (const [from, to, value] of points) d += `${d ? "L" : "M"}${this.x(from).toFixed(1)},${y(value).toFixed(1)}L${this.x(to).toFixed(1)},${y(value).toFixed(1)}`;
        if (base) for (const [from, to, value] of [...base].reverse()) d += `L${this.x(to).toFixed(1)},${y(value).toFixed(1)}L${this.x(from).toFixed(1)},${y(value).toFixed(1)}`;
        return base ? d + "Z" : d;
      };
      const grey = own.points(this.lo, this.hi, this.width);
      svg.append(shape("path", { d: path(grey, [[this.lo, this.hi, 0]]), class: "own-area" }));
      const picked = columnsOf(view.live, this.lo, this.hi, this.width);
      let below = picked.map(([from, to]) => [from, to, 0]);
      for (const [kind, column] of view.stacks) {
        const above = picked.map(([from, to, s], i) => [from, to, below[i][2] + column[s]]);
        svg.append(shape("path", { d: path(above, below), fill: COLOURS[kind] }, undefined));
        below = above;
      }
      svg.append(shape("path", { d: path(below), class: "total" }));
      svg.append(shape("path", { d: path(grey), class: "own-line" }));
      const lines = [];
      if (view.bound) lines.push([view.bound, "lower bound " + short(view.bound), "bound"]);
      if (view.room) lines.push([view.room, (view.moving ? "fast memory " : "room in the budget ") + short(view.room) + (view.room > top ? ", above this figure" : ""), "budget"]);
      this.lines(figure, lines, y, top);
    }

    lines(figure, lines, y, top) {
      const drawn = lines.filter(([value]) => value <= top).map(([value]) => y(value)).sort((a, b) => a - b);
      let last = -100;
      for (const [value, text, style] of lines.sort((a, b) => b[0] - a[0])) {
        const at = y(Math.min(value, top));
        if (value <= top) figure.svg.append(shape("line", { x1: LEFT, x2: LEFT + this.width, y1: at, y2: at, class: style }));
        last = Math.max(last + 15, at + 13);
        for (const line of drawn) if (line > last - 11 && line < last + 3) last = line + 13;
        figure.svg.append(shape("text", { x: LEFT + this.width - 4, y: last, class: "label " + style, "text-anchor": "end" }, text));
      }
    }

    grey() {
      const { view, before } = this;
      if (before) {  // the other plan's bytes when the same op of the user's runs
        const values = new Float64Array(view.steps);
        for (let s = 0, held = 0; s < view.steps; s++) {
          const there = before.stepOf.get(userName(view, s));
          values[s] = held = there === undefined ? held : before.live[there];
        }
        return { most: values.reduce((a, b) => Math.max(a, b), 0), points: (lo, hi, width) => columnsOf(values, lo, hi, width).map(([a, b, s]) => [a, b, values[s]]), at: (step) => values[step] };
      }
      const steps = view.own.length, scale = Math.max(view.steps, 1) / Math.max(steps, 1);
      const most = view.own.reduce((a, b) => Math.max(a, b), 0);
      return {
        most,
        points: (lo, hi, width) => columnsOf(view.own, Math.floor(lo / scale), Math.max(Math.floor(lo / scale) + 1, Math.ceil(hi / scale)), width)
          .map(([a, b, s]) => [Math.max(lo, a * scale), Math.min(hi, b * scale), view.own[s] || 0]),
        at: (step) => view.own[Math.min(steps - 1, Math.floor(step / scale))] || 0,
      };
    }

    editRows() {
      const { view } = this, rows = [];
      const words = { again: "recomputed", loop: "loop", part: "in tiles", store: "to host", load: "from host" };
      const colours = { recomputed: COLOURS.input, loop: COLOURS.activation, "to host": COLOURS.workspace, "from host": COLOURS.output };
      const found = new Map();
      for (const [step, edit] of Object.entries(view.edits)) {
        const word = words[edit] || "tiled";
        found.set(word, [...(found.get(word) || []), +step]);
      }
      for (const [word, steps] of found) rows.push([word, steps, colours[word] || COLOURS.constant]);
      if (view.spill.length) rows.push(["spill", [...view.spill], COLOURS.workspace]);
      if (view.fill.length) rows.push(["fill", [...view.fill], COLOURS.output]);
      return rows;
    }
    drawEdits() {
      const figure = this.figures.find((f) => f.kind === "edits");
      this.editRows().forEach(([name, steps, colour], row) => {
        figure.svg.append(shape("text", { x: LEFT - 6, y: row * 14 + 11, class: "tick", "text-anchor": "end" }, name));
        const wide = Math.max(1, this.x(1) - this.x(0));
        let d = "", last = -9;
        for (const s of steps) {
          const x = this.x(s);
          if (s < this.lo || s >= this.hi || x - last < 0.5) continue;
          d += `M${x.toFixed(1)},${row * 14 + 2}h${wide.toFixed(1)}v10h${(-wide).toFixed(1)}z`;
          last = x;
        }
        figure.svg.append(shape("path", { d, fill: colour }));
      });
    }

    drawArena(figure, memory) {
      const { view } = this, [, size, capacity] = view.memories[memory];
      const most = Math.max(size, capacity && capacity < 1.5 * size ? capacity : 0, 1) * 1.02;
      const y = this.frame(figure, most, figure.height - 30);
      figure.svg.prepend(shape("rect", { x: LEFT, width: this.width, y: y(size), height: y(0) - y(size), class: "arena-free" }));
      const seen = [];
      for (let i = 0; i < view.count; i++)
        if (view.memory[i] === memory && view.offset[i] >= 0 && view.start[i] < this.hi && view.end[i] > this.lo && view.size[i]) seen.push(i);
      Object.assign(figure, { seen, y });
      const place = (i) => {
        const left = Math.max(LEFT, this.x(view.start[i])), right = Math.min(LEFT + this.width, this.x(view.end[i]));
        const top = y(view.offset[i] + view.size[i]);
        return [left, top, right - left, y(view.offset[i]) - top];
      };
      const began = performance.now();
      const crisp = seen.length <= MOST_SVG;
      figure.canvas.hidden = crisp;
      if (crisp) this.marksSvg(figure, seen, place);
      else this.marksCanvas(figure, seen, place);
      const lines = [[size, `${view.memories[memory][0]} ${short(size)}`, "bound"]];
      if (capacity && capacity !== size) lines.push([capacity, `there is ${short(capacity)}${capacity > most ? ", above this figure" : ""}`, "budget"]);
      this.lines(figure, lines, y, most);
      figure.box.dataset.drawn = `${seen.length} ${crisp ? "svg" : "canvas"} ${(performance.now() - began).toFixed(1)}`;
    }

    marksSvg(figure, seen, place) {
      const { view, number } = this, id = `hatch-${number}-${this.figures.indexOf(figure)}`;
      const pattern = shape("pattern", { id, width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" });
      pattern.append(shape("line", { x1: 0, y1: 0, x2: 0, y2: 6, stroke: "#000", "stroke-width": 2, "stroke-opacity": 0.45 }));
      const definitions = shape("defs", {});
      definitions.append(pattern);
      const marks = shape("g", { class: "marks" }), names = [];
      for (const i of seen) {
        const [x, top, w, h] = place(i), box = { x: x.toFixed(2), y: top.toFixed(2), width: w.toFixed(2), height: h.toFixed(2) };
        const rectangle = shape("rect", { ...box, fill: SHADES[this.colour(i)][i % 3], class: !view.atPeak[i] ? "" : h < 2 ? "at-peak hair" : h < 4 ? "at-peak thin" : "at-peak" });
        rectangle.append(shape("title", {}, `${view.names[i]}, ${bytes(view.size[i])}`));
        marks.append(rectangle);
        if (view.over[i] >= 0) marks.append(shape("rect", { ...box, fill: `url(#${id})`, class: "hatched" }));
      }
      for (const i of seen) {
        const [x, top, w, h] = place(i), room = Math.floor((w - 6) / 6.9);
        if (h < 14 || room < 4) continue;
        const name = cut(view, view.label[i], room), y = freeHeight(names, x + 4, 6.9 * name.length, [top + h / 2 + 4, top + 12, top + h - 4]);
        if (y !== undefined) marks.append(shape("text", { x: x + 4, y, class: "name" }, name));
      }
      figure.svg.append(definitions, marks);
    }

    marksCanvas(figure, seen, place) {
      const { view } = this, canvas = figure.canvas, ratio = devicePixelRatio || 1;
      canvas.width = figure.box.clientWidth * ratio;
      canvas.height = figure.height * ratio;
      const pen = canvas.getContext("2d");
      pen.scale(ratio, ratio);
      const y = figure.y, style = getComputedStyle(figure.box);
      pen.fillStyle = style.getPropertyValue("--free");
      figure.svg.querySelector(".arena-free").remove();
      pen.fillRect(LEFT, y(view.memories[view.memory[seen[0]]][1]), this.width, y(0) - y(view.memories[view.memory[seen[0]]][1]));
      const { lo, width } = this, scale = width / (this.hi - lo), right = LEFT + width;
      const boxes = new Float32Array(4 * seen.length), piles = new Map();
      seen.forEach((i, k) => {
        const from = Math.max(LEFT, LEFT + (view.start[i] - lo) * scale), to = Math.min(right, LEFT + (view.end[i] - lo) * scale);
        const top = y(view.offset[i] + view.size[i]);
        boxes.set([from, top, Math.max(to - from, 0.6), Math.max(y(view.offset[i]) - top, 0.6)], 4 * k);
        const paint = SHADES[this.colour(i)][i % 3];
        if (!piles.has(paint)) piles.set(paint, []);
        piles.get(paint).push(4 * k);
      });
      for (const [paint, pile] of piles) {
        pen.fillStyle = paint;
        for (const k of pile) pen.fillRect(boxes[k], boxes[k + 1], boxes[k + 2], boxes[k + 3]);
      }
      const tile = element("canvas", { width: 6, height: 6 }), stripe = tile.getContext("2d");
      stripe.strokeStyle = "rgba(0,0,0,.45)";
      stripe.lineWidth = 1.6;
      stripe.beginPath();
      for (const k of [-6, 0, 6]) { stripe.moveTo(k, 6); stripe.lineTo(k + 6, 0); }
      stripe.stroke();
      pen.fillStyle = pen.createPattern(tile, "repeat");
      for (const i of seen) {
        if (view.over[i] < 0) continue;
        const [x, top, w, h] = place(i);
        if (w > 3 && h > 3) pen.fillRect(x, top, w, h);
      }
      pen.strokeStyle = style.getPropertyValue("--ink");
      pen.lineWidth = 1;
      for (const i of seen) {
        const [x, top, w, h] = place(i);
        if (view.atPeak[i] && h > 2.5) pen.strokeRect(x, top, w, h);
      }
    }

    // -- cursor, choice
    mark() {
      const { view } = this;
      const wide = Math.max(1, this.x(this.step + 1) - this.x(this.step));
      for (const figure of this.figures) {
        const over = figure.over, foot = figure.kind === "edits" ? figure.height : figure.height - 22;
        over.replaceChildren();
        if (this.step >= this.lo && this.step < this.hi)
          over.append(shape("rect", { x: this.x(this.step), width: wide, y: 0, height: foot, class: this.pinned ? "cursor pinned" : "cursor" }));
        if (figure.kind !== "arena" || !figure.seen) continue;
        const outline = (i, style) => {
          const left = Math.max(LEFT, this.x(view.start[i])), right = Math.min(LEFT + this.width, this.x(view.end[i])), y = figure.y;
          if (right <= left || view.memory[i] !== this.memoryOf(figure) || view.offset[i] < 0) return;
          over.append(shape("rect", { x: left, width: right - left, y: y(view.offset[i] + view.size[i]), height: Math.max(1, y(view.offset[i]) - y(view.offset[i] + view.size[i])), class: style }));
        };
        let shown = 0;
        for (const i of figure.seen) if (view.found[i] && shown++ < 500) outline(i, "found");
        if (this.chosen >= 0) outline(this.chosen, "chosen");
      }
      this.say();
    }
    memoryOf(figure) { return this.figures.filter((f) => f.kind === "arena").indexOf(figure); }

    say() {
      const { view, step } = this, out = this.readout;
      if (!view.steps) return out.replaceChildren("no ops run in this plan");
      const live = liveAt(view, step), total = view.live[step];
      const region = view.repeated.find(([first, steps, parts]) => step >= first && step < first + steps * parts);
      const part = region && `part ${1 + Math.floor((step - region[0]) / region[1])} of ${region[2]}`;
      const edit = [(view.edits[step] !== "part" || !part) && view.edits[step], view.of[step] && "of " + view.of[step]].filter(Boolean).join(" ");
      const name = element("b", {}, view.ops[step]);
      const head = element("p", {}, `step ${count(step)} of ${count(view.steps)}${this.pinned ? " (pinned)" : ""}: `, name, ` (${[view.types[view.type[step]], edit, part].filter(Boolean).join(", ")})`.replace(" ()", ""));
      const parts = view.stacks.filter(([, column]) => column[step]).map(([kind, column]) => `${kind} ${short(column[step])}`).join(" + ");
      const grey = this.before ? `; the other plan: ${short(this.grey().at(step))}` : `; file order at this place: ${short(this.grey().at(step))}`;
      const sum = element("p", {}, `${bytes(total)} live = ${parts || "nothing"}${grey}${step === view.peak ? "; this is the peak" : ""}`);
      const list = element("ol", {});
      for (const i of live.slice(0, 8)) list.append(element("li", {}, this.link(i), ` ${bytes(view.size[i])}, ${total ? ((100 * view.size[i]) / total).toFixed(1) : 0} %, ${view.kinds[view.kind[i]]}${view.over[i] >= 0 && view.start[i] === step ? ", over an input that ends here" : ""}`));
      out.replaceChildren(head, sum, list);
      if (live.length > 8) out.append(element("p", {}, `and ${count(live.length - 8)} more`));
      if (this.chosen >= 0) out.append(this.about(this.chosen));
      this.slider.setAttribute("aria-valuenow", step);
      this.slider.setAttribute("aria-valuetext", `step ${step}, ${view.ops[step]}, ${count(total)} bytes`);
    }
    link(i) {
      const made = element("button", { type: "button", class: "link" }, this.view.names[i]);
      made.addEventListener("click", () => this.choose(i, true));
      return made;
    }
    about(i) {
      const { view } = this, made = element("dl", { class: "about" });
      const row = (key, ...value) => made.append(element("dt", {}, key), element("dd", {}, ...value));
      row(view.kinds[view.kind[i]], element("b", {}, view.names[i]), view.forms[i] ? ` ${view.forms[i]}` : "");
      row("size", bytes(view.size[i]) + (view.atPeak[i] ? ", live at the peak" : ""));
      if (view.offset[i] >= 0) row("addresses", `${hex(view.offset[i])} to ${hex(view.offset[i] + view.size[i] - 1)} of ${view.memories[view.memory[i]][0]}`);
      const last = view.end[i] - 1, from = view.start[i];
      row("steps", `${count(from)} to ${count(last)}`);
      if (view.kinds[view.kind[i]] !== "workspace") {
        const [first, behind] = view.uses[i] || [from, last + 1];
        row("from", view.kinds[view.kind[i]] === "input" || first !== from ? "there before its first use" : view.ops[from]);
        row("last used by", behind > first ? view.ops[behind - 1] + (behind - 1 < last ? `, and kept to step ${count(last)}` : "") : "no op");
      }
      if (view.over[i] >= 0) row("written over", this.link(view.over[i]));
      if (view.shares[i]) row("shared with", view.shares[i]);
      return made;
    }
    choose(i, go) {
      this.chosen = i;
      const { view } = this;
      if (go && (this.step < view.start[i] || this.step >= view.end[i])) return this.go(view.start[i], true);
      this.mark();
    }
    go(step, pin) {
      this.step = Math.max(0, Math.min(this.view.steps - 1, step));
      if (pin !== undefined) this.pinned = pin;
      if (this.step < this.lo || this.step >= this.hi) {
        const half = Math.floor((this.hi - this.lo) / 2);
        return this.show(this.step - half, this.step - half + (this.hi - this.lo));
      }
      this.mark();
      this.changed(this.step);
    }
    show(lo, hi) {
      const wide = Math.max(Math.min(4, this.view.steps), Math.min(Math.round(hi - lo), this.view.steps), 1);
      this.lo = Math.max(0, Math.min(Math.round(lo), this.view.steps - wide));
      this.hi = this.lo + wide;
      this.draw();
      this.changed(this.step);
    }
    zoom(factor, around = this.step) {
      const wide = (this.hi - this.lo) * factor;
      const part = (around - this.lo) / (this.hi - this.lo);
      this.show(around - part * wide, around + (1 - part) * wide);
    }

    // -- hands
    pointer(event, figure) {
      if (event.buttons && this.fromX !== undefined && Math.abs(event.clientX - this.fromX) > 4) {
        const a = this.x(Math.min(this.from, this.stepAt(event, figure))), b = this.x(Math.max(this.from, this.stepAt(event, figure)) + 1);
        figure.over.querySelector(".selection")?.remove();
        figure.over.append(shape("rect", { x: a, width: b - a, y: 0, height: figure.height - 22, class: "selection" }));
        return;
      }
      if (this.pinned) return;
      this.step = this.stepAt(event, figure);
      if (figure.kind === "arena") this.chosen = this.hit(event, figure);
      this.mark();
      this.changed(this.step);
    }
    hit(event, figure) {
      const { view } = this, step = this.stepAt(event, figure);
      const at = event.clientY - figure.box.getBoundingClientRect().top;
      let best = -1;
      for (const i of figure.seen)
        if (view.start[i] <= step && step < view.end[i] && figure.y(view.offset[i] + view.size[i]) <= at && at <= figure.y(view.offset[i])) best = i;
      return best;
    }
    release(event, figure) {
      const to = this.stepAt(event, figure), dragged = Math.abs(event.clientX - this.fromX) > 4;
      this.fromX = undefined;
      if (dragged) return this.show(Math.min(this.from, to), Math.max(this.from, to) + 1);
      if (figure.kind === "arena") this.chosen = this.hit(event, figure);
      this.go(to, this.pinned && to === this.step ? false : true);
    }
    key_(event) {
      const far = event.shiftKey ? 10 : 1;
      const does = {
        ArrowLeft: () => this.go(this.step - far, true), ArrowRight: () => this.go(this.step + far, true),
        PageUp: () => this.go(this.step - 50, true), PageDown: () => this.go(this.step + 50, true),
        Home: () => this.go(0, true), End: () => this.go(this.view.steps - 1, true),
        p: () => this.go(this.view.peak, true), "+": () => this.zoom(0.5), "-": () => this.zoom(2), 0: () => this.show(0, this.view.steps),
        Escape: () => { this.pinned = false; this.chosen = -1; this.mark(); }, "/": () => this.search.focus(),
      }[event.key.length === 1 ? event.key.toLowerCase() : event.key];
      if (!does || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      does();
    }
    find() {
      const { view } = this, text = this.search.value.trim().toLowerCase();
      this.hits = [];
      view.found.fill(0);
      if (text) {
        for (let i = 0; i < view.count; i++) if (view.names[i].toLowerCase().includes(text)) { view.found[i] = 1; this.hits.push([view.start[i], i]); }
        for (let s = 0; s < view.steps; s++) if (view.ops[s].toLowerCase().includes(text)) this.hits.push([s, -1]);
        this.hits.sort((a, b) => a[0] - b[0] || a[1] - b[1]);
      }
      this.turn = -1;
      this.matches.textContent = text ? `${count(this.hits.length)} found` + (this.hits.length ? ", Enter for the next" : "") : "";
      this.mark();
    }
    next(by) {
      if (!this.hits?.length) return;
      this.turn = (this.turn + by + this.hits.length) % this.hits.length;
      const [step, i] = this.hits[this.turn];
      this.matches.textContent = `${count(this.turn + 1)} of ${count(this.hits.length)}`;
      this.chosen = i >= 0 ? i : this.chosen;
      this.go(step, true);
    }

    // -- tables, made when they are opened
    tables() {
      const MOST = 5000, { view } = this;
      const table = (title, heads, total, row) => {
        const details = element("details", {}, element("summary", {}, `${title} (${count(total)})`));
        details.addEventListener("toggle", () => {
          if (!details.open || details.querySelector("table")) return;
          const made = element("table", {}), body = element("tbody", {});
          made.append(element("thead", {}, element("tr", {}, ...heads.map((h) => element("th", { scope: "col" }, h)))), body);
          for (let i = 0; i < Math.min(total, MOST); i++) body.append(element("tr", {}, ...row(i).map((cell) => element("td", typeof cell === "number" ? { class: "number" } : {}, typeof cell === "number" ? count(cell) : cell))));
          details.append(element("div", { class: "scroll" }, made));
          if (total > MOST) details.append(element("p", {}, `the first ${count(MOST)} of ${count(total)}`));
        });
        this.home.append(details);
      };
      table("every step", ["step", "op", "type", "live bytes", ...view.stacks.map(([kind]) => kind)], view.steps,
        (s) => [s, view.ops[s], view.types[view.type[s]], view.live[s], ...view.stacks.map(([, column]) => column[s])]);
      table("everything in memory", ["name", "kind", "bytes", "first step", "last step", "memory", "address", "at the peak", "over"], view.count,
        (i) => [view.names[i], view.kinds[view.kind[i]], view.size[i], view.start[i], view.end[i] - 1, view.memories[view.memory[i]]?.[0] ?? "", view.offset[i] < 0 ? "" : hex(view.offset[i]), view.atPeak[i] ? "yes" : "", view.over[i] < 0 ? "" : view.names[view.over[i]]]);
    }
  }
