// Interactive charts as SVG, drawn from a description in JSON (see `build_figure` in html_blocks.py). Reports and the
// page of `weakform serve` use them. Values are shown on hovering; mouse and keyboard zoom and pan. Nothing is loaded.

const NS = "http://www.w3.org/2000/svg";
// Margins in pixels, for the labels of the axes.
const EDGE = { left: 58, right: 20, top: 26, bottom: 40 };
const charts = new Set();  // all charts of the page, which are drawn again when its size changes

function svgElement(name, attributes, parent) {
  const element = document.createElementNS(NS, name);
  for (const key in attributes) element.setAttribute(key, attributes[key]);
  if (parent) parent.appendChild(element);
  return element;
}

// A number for people: a power of ten for very small and large ones, a dash for missing ones.
export function formatNumber(value, digits = 5) {
  if (value === null || !isFinite(value)) return "–";
  const size = Math.abs(value);
  return size !== 0 && (size < 1e-3 || size >= 1e5)
    ? value.toExponential(Math.min(3, digits - 1)).replace(/\.?0+e/, "e").replace("-", "−")
    : String(+value.toPrecision(digits)).replace("-", "−");
}

// Round positions of ticks, about `count` of them.
function ticks(low, high, count) {
  const raw = (high - low) / count, power = Math.pow(10, Math.floor(Math.log10(raw)));
  const step = [1, 2, 2.5, 5, 10].map((m) => m * power).find((s) => s >= raw * 0.999);
  const positions = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + step * 1e-9 && positions.length < 20; k++) positions.push(+(k * step).toPrecision(12));
  return positions.length < 2 && count < 16 ? ticks(low, high, 2 * count) : positions;  // a scale needs two ticks
}

// The smallest and the largest value, widened where they are almost equal.
function range(values) {
  let low = Infinity, high = -Infinity;
  for (const v of values) if (v !== null && isFinite(v)) { low = Math.min(low, v); high = Math.max(high, v); }
  if (low > high) return [0, 1];
  const size = Math.max(Math.abs(low), Math.abs(high));
  if (high - low <= 1e-9 * size) { const pad = 0.05 * size || 1; return [low - pad, high + pad]; }
  return [low, high];
}

// Browsers fail to draw coordinates that are far outside the chart.
const clampCoordinate = (v) => Math.min(Math.max(v, -1e5), 1e5);

class Chart {
  constructor(holder, spec) {
    this.holder = holder;
    this.svg = svgElement("svg", { role: "img", tabindex: "0" });
    this.tip = document.createElement("div");
    this.tip.className = "tip";
    this.tools = document.createElement("div");
    this.tools.className = "tools";
    holder.append(this.svg, this.tools, this.tip);
    this.from = null;
    this.set(spec);
    const entries = [["+", "zoom in", () => this.zoom(0.5)], ["−", "zoom out", () => this.zoom(2)],
      ["Reset", "show everything", () => this.resetView()], ["SVG", "save as SVG", () => this.save("svg")],
      ["PNG", "save as PNG", () => this.save("png")]];
    for (const [text, description, action] of entries) {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = text;
      button.setAttribute("aria-label", description + ": " + spec.label);
      button.onclick = action;
      this.tools.appendChild(button);
    }
    this.listen();
  }

  // Draw another description in place of the current one.
  set(spec) {
    const isZoomed = this.spec && this.view && this.whole.join() !== this.view.join();  // a zoom outlives new values
    this.spec = spec;
    this.svg.setAttribute("aria-label", spec.label);
    this.whole = range(spec.series.flatMap((s) => s.x || []));
    if (!isZoomed) this.view = this.whole.slice();
    this.draw();
  }

  resetView() { this.view = this.whole.slice(); this.draw(); }

  zoom(factor) {
    const middle = (this.view[0] + this.view[1]) / 2;
    const low = Math.max(this.whole[0], middle + (this.view[0] - middle) * factor);
    const high = Math.min(this.whole[1], middle + (this.view[1] - middle) * factor);
    if (high - low > (this.whole[1] - this.whole[0]) * 1e-4) { this.view = [low, high]; this.draw(); }
  }

  // Move the visible range by a share of its length.
  pan(share) {
    let step = (this.view[1] - this.view[0]) * share;
    step = Math.max(this.whole[0] - this.view[0], Math.min(this.whole[1] - this.view[1], step));
    this.view = [this.view[0] + step, this.view[1] + step];
    this.draw();
  }

  isVisible(x) { return x >= this.view[0] && x <= this.view[1]; }

  visibleValues() {
    const values = [];
    for (const s of this.spec.series) {
      if (s.kind === "level") { values.push(s.y); continue; }
      s.x.forEach((x, k) => { if (this.isVisible(x)) { values.push(s.y[k]); if (s.upper) values.push(s.upper[k]); } });
    }
    return values;
  }

  draw() {
    const { spec, svg, view } = this, { left, right, top, bottom } = EDGE;
    this.width = Math.max(this.holder.clientWidth, 160);
    this.height = Math.max(spec.small ? 130 : 160, Math.min(spec.tall || 230, this.width * 0.66));
    if (printing && this.holder.closest(".single")) this.height = this.width * 0.1;  // flat: it takes the whole width of the paper
    const { width, height } = this;
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    svg.setAttribute("height", height);
    svg.replaceChildren();
    let limits = spec.range && view.join() === this.whole.join() ? spec.range : range(this.visibleValues());
    const pad = (limits[1] - limits[0]) * 0.06, step = (view[1] - view[0]) * 0.015;
    limits = [limits[0] - pad, limits[1] + pad];
    this.X = (v) => left + (v - view[0] + step) / (view[1] - view[0] + 2 * step) * (width - left - right);
    this.Y = (v) => height - bottom - (v - limits[0]) / (limits[1] - limits[0]) * (height - top - bottom);
    const id = "clip" + Math.random().toString(36).slice(2);
    const clip = svgElement("clipPath", { id }, svgElement("defs", {}, svg));
    svgElement("rect", { x: left - 4, y: top - 4, width: width - left - right + 8, height: height - top - bottom + 8 }, clip);
    const small = { "font-size": 11, fill: "var(--soft)" };
    for (const t of ticks(view[0], view[1], Math.max(2, Math.floor(width / 100)))) {
      svgElement("line", { x1: this.X(t), x2: this.X(t), y1: top, y2: height - bottom, stroke: "var(--line)" }, svg);
      svgElement("text", { x: this.X(t), y: height - bottom + 15, "text-anchor": "middle", ...small }, svg).textContent = formatNumber(t, 4);
    }
    for (const t of ticks(limits[0], limits[1], 4)) {
      svgElement("line", { x1: left, x2: width - right, y1: this.Y(t), y2: this.Y(t), stroke: "var(--line)" }, svg);
      svgElement("text", { x: left - 6, y: this.Y(t) + 4, "text-anchor": "end", ...small }, svg).textContent = formatNumber(t, 4);
    }
    const title = { "font-size": 12, fill: "var(--ink)" };
    svgElement("text", { x: (left + width - right) / 2, y: height - 8, "text-anchor": "middle", ...title }, svg).textContent = spec.x;
    svgElement("text", { x: 4, y: 14, "font-weight": 600, ...title }, svg).textContent = spec.y || "";
    const inner = svgElement("g", { "clip-path": `url(#${id})` }, svg);
    for (const s of spec.series) this.series(s, inner);
    this.cursor = svgElement("circle", { r: 5, fill: "none", stroke: "var(--mark)", "stroke-width": 2, visibility: "hidden" }, inner);
  }

  // Path data of a line that is interrupted where a value is missing.
  path(x, y) {
    let text = "", pen = false;
    for (let k = 0; k < x.length; k++) {
      if (y[k] === null || !isFinite(y[k])) { pen = false; continue; }
      text += (pen ? "L" : "M") + this.X(x[k]).toFixed(1) + " " + clampCoordinate(this.Y(y[k])).toFixed(1);
      pen = true;
    }
    return text;
  }

  series(s, parent) {
    const colour = `var(--${s.colour})`;
    if (s.kind === "level") {
      const ends = { x1: EDGE.left, x2: this.width - EDGE.right, y1: this.Y(s.y), y2: this.Y(s.y) };
      svgElement("line", { ...ends, stroke: colour, "stroke-dasharray": "5 4" }, parent);
    } else if (s.kind === "band") {
      const isNumber = (v) => v !== null && isFinite(v);
      let text = "", from = 0;
      for (let k = 0; k <= s.x.length; k++) {  // the band is interrupted where a limit is missing
        if (k < s.x.length && isNumber(s.y[k]) && isNumber(s.upper[k])) continue;
        const piece = (v) => v.slice(from, k);
        const back = this.path(piece(s.x).reverse(), piece(s.upper).reverse());
        if (k - from > 1) text += this.path(piece(s.x), piece(s.y)) + back.replace(/^M/, "L") + "Z";
        from = k + 1;
      }
      if (text) svgElement("path", { d: text, fill: "var(--band)", stroke: "none" }, parent);
    } else if (s.kind === "line") {
      svgElement("path", { d: this.path(s.x, s.y), fill: "none", stroke: colour, "stroke-width": 1.8,
        "stroke-linejoin": "round", "stroke-dasharray": s.dashed ? "6 4" : "none" }, parent);
    } else {
      const few = s.x.length < 60;  // few points are drawn larger
      let dots = "";
      s.x.forEach((x, k) => {
        if (s.y[k] === null || !this.isVisible(x)) return;
        dots += "M" + this.X(x).toFixed(1) + " " + clampCoordinate(this.Y(s.y[k])).toFixed(1) + "h0";
      });
      svgElement("path", { d: dots, stroke: colour, "stroke-width": s.size || (few ? 6 : 4.5), "stroke-linecap": "round",
        "stroke-opacity": few ? 1 : 0.8, fill: "none" }, parent);
    }
  }

  // The point closest to the pointer; horizontal distance counts twice, because one moves along the curve.
  nearest(px, py) {
    let best = null;
    for (const s of this.spec.series) {
      if (s.kind === "band" || s.kind === "level") continue;
      s.x.forEach((x, k) => {
        if (s.y[k] === null || !this.isVisible(x)) return;
        const d = Math.hypot(this.X(x) - px, (this.Y(s.y[k]) - py) * 0.5);
        if (!best || d < best.d) best = { d, s, k };
      });
    }
    return best;
  }

  showTip(best) {
    if (!best) { this.hideTip(); return; }
    const x = best.s.x[best.k], y = best.s.y[best.k], { tip } = this;
    tip.textContent = `${best.s.name}: ${this.spec.x} ${formatNumber(x)}, ${formatNumber(y)}`;
    tip.style.display = "block";
    tip.style.left = Math.max(0, Math.min(this.X(x) + 8, this.width - tip.offsetWidth - 4)) + "px";
    tip.style.top = Math.max(0, this.Y(y) - 34) + "px";
    this.cursor.setAttribute("cx", this.X(x));
    this.cursor.setAttribute("cy", this.Y(y));
    this.cursor.setAttribute("visibility", "visible");
  }

  hideTip() { this.tip.style.display = "none"; this.cursor.setAttribute("visibility", "hidden"); }

  listen() {
    const pointerX = (event) => event.clientX - this.svg.getBoundingClientRect().left;
    const toValue = (px) => this.view[0] + (px - EDGE.left) / (this.width - EDGE.left - EDGE.right) * (this.view[1] - this.view[0]);
    this.svg.addEventListener("pointermove", (event) => {
      this.showTip(this.nearest(pointerX(event), event.clientY - this.svg.getBoundingClientRect().top));
    });
    this.svg.addEventListener("pointerleave", () => this.hideTip());
    this.svg.addEventListener("pointerdown", (event) => { this.from = pointerX(event); });
    this.svg.addEventListener("pointerup", (event) => {
      const to = pointerX(event), from = this.from;
      this.from = null;
      if (from === null || Math.abs(to - from) <= 12) return;
      this.view = [Math.max(toValue(Math.min(from, to)), this.whole[0]), Math.min(toValue(Math.max(from, to)), this.whole[1])];
      this.draw();
    });
    this.svg.addEventListener("dblclick", () => this.resetView());
    const keys = { ArrowLeft: () => this.pan(-0.2), ArrowRight: () => this.pan(0.2), "+": () => this.zoom(0.5),
      "-": () => this.zoom(2), 0: () => this.resetView() };
    this.svg.addEventListener("keydown", (event) => {
      if (keys[event.key]) { keys[event.key](); event.preventDefault(); }
    });
  }

  // Save the chart as a file, with the colours of the current theme in place of the style sheet's variables.
  save(kind) {
    const style = getComputedStyle(this.holder);
    const copy = this.svg.cloneNode(true);
    copy.setAttribute("xmlns", NS);
    copy.setAttribute("width", this.width);
    const paper = svgElement("rect", { width: this.width, height: this.height, fill: "var(--paper)" });
    copy.insertBefore(paper, copy.firstChild);
    copy.setAttribute("font-family", "system-ui, sans-serif");
    const text = copy.outerHTML.replace(/var\((--[a-z]+)\)/g, (_, name) => style.getPropertyValue(name).trim());
    const name = this.spec.label.replace(/[^\p{L}\p{N}]+/gu, "-").slice(0, 60).replace(/^-|-$/g, "");
    if (kind === "svg") { download(new Blob([text], { type: "image/svg+xml" }), name + ".svg"); return; }
    const image = new Image();
    image.onload = () => {
      const canvas = document.createElement("canvas");
      canvas.width = this.width * 2;
      canvas.height = this.height * 2;
      canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
      canvas.toBlob((blob) => download(blob, name + ".png"));
    };
    image.src = "data:image/svg+xml;charset=utf-8," + encodeURIComponent(text);
  }
}

// Offer a file for download.
export function download(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

// Draw a chart into an element.
export function chart(holder, spec) {
  const created = new Chart(holder, spec);
  charts.add(created);
  return created;
}

// Draw all charts whose descriptions are inside an element.
export function drawAll(root) {
  for (const holder of root.querySelectorAll(".chart")) {
    const described = holder.querySelector("script");
    if (described && !holder.querySelector("svg")) chart(holder, JSON.parse(described.textContent));
  }
  makeScrollable(root);
}

// Let the keyboard reach the parts that scroll horizontally.
export function makeScrollable(root) {
  for (const part of root.querySelectorAll(".wide")) {
    const wide = part.scrollWidth > part.clientWidth + 1;
    if (!wide) { for (const name of ["tabindex", "role", "aria-label"]) part.removeAttribute(name); continue; }
    part.setAttribute("tabindex", "0");
    part.setAttribute("role", "group");
    part.setAttribute("aria-label", "scrolls horizontally");
  }
}

function redraw() {
  makeScrollable(document);
  for (const drawn of charts) if (drawn.holder.isConnected) drawn.draw(); else charts.delete(drawn);
}
let timer = null, printing = false;
window.addEventListener("resize", () => { clearTimeout(timer); timer = setTimeout(redraw, 100); });
window.addEventListener("beforeprint", () => { printing = true; redraw(); });
window.addEventListener("afterprint", () => { printing = false; redraw(); });

// Follow the light or dark theme of the system; the button switches it.
export function wireTheme(toggle) {
  const root = document.documentElement;
  const set = (theme) => {
    root.setAttribute("data-theme", theme);
    toggle.textContent = theme === "dark" ? "Light mode" : "Dark mode";
    toggle.setAttribute("aria-pressed", String(theme === "dark"));
  };
  set(window.matchMedia && window.matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  toggle.addEventListener("click", () => set(root.getAttribute("data-theme") === "dark" ? "light" : "dark"));
}
