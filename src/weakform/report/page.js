"use strict";
// Charts of the report: drawn as SVG from the JSON in the page. Hover or use the keyboard; nothing is loaded.
(function () {
  var NS = "http://www.w3.org/2000/svg";
  function node(name, attributes, parent) {
    var made = document.createElementNS(NS, name);
    for (var key in attributes) made.setAttribute(key, attributes[key]);
    if (parent) parent.appendChild(made);
    return made;
  }
  function shown(value) {
    if (value === null || !isFinite(value)) return "–";
    var size = Math.abs(value);
    return size !== 0 && (size < 1e-3 || size >= 1e5) ? value.toExponential(3) : String(+value.toPrecision(5));
  }
  function ticks(low, high, count) {
    var raw = (high - low) / count, power = Math.pow(10, Math.floor(Math.log10(raw)));
    var step = [1, 2, 5, 10].map(function (m) { return m * power; }).find(function (s) { return s >= raw; });
    var found = [];
    for (var k = Math.ceil(low / step - 1e-9); k * step <= high + step * 1e-9; k++) found.push(k * step);
    return found;
  }
  function range(values) {
    var low = Infinity, high = -Infinity;
    values.forEach(function (v) { if (v !== null && isFinite(v)) { low = Math.min(low, v); high = Math.max(high, v); } });
    if (low > high) return [0, 1];
    if (low === high) { var pad = Math.abs(low) || 1; return [low - pad, high + pad]; }
    return [low, high];
  }

  function Chart(holder) {
    var spec = JSON.parse(holder.querySelector("script").textContent);
    var xs = [], whole, view;
    spec.series.forEach(function (s) { if (s.x) xs = xs.concat(s.x); });
    whole = range(xs);
    view = whole.slice();
    var svg = node("svg", { role: "img", tabindex: "0", "aria-label": spec.label });
    var tip = document.createElement("div");
    tip.className = "tip";
    var tools = document.createElement("div");
    tools.className = "tools";
    [["+", "zoom in", function () { zoom(0.5); }], ["−", "zoom out", function () { zoom(2); }],
     ["all", "show all", function () { view = whole.slice(); draw(); }]].forEach(function (entry) {
      var button = document.createElement("button");
      button.type = "button";
      button.textContent = entry[0];
      button.setAttribute("aria-label", entry[1] + ": " + spec.label);
      button.onclick = entry[2];
      tools.appendChild(button);
    });
    holder.appendChild(svg);
    holder.appendChild(tools);
    holder.appendChild(tip);
    var left = 58, bottom = 34, top = 8, right = 22, width = 0, height = 0, X, Y, limits;

    function zoom(factor, at) {
      var middle = at === undefined ? (view[0] + view[1]) / 2 : at;
      var low = Math.max(whole[0], middle + (view[0] - middle) * factor);
      var high = Math.min(whole[1], middle + (view[1] - middle) * factor);
      if (high - low > (whole[1] - whole[0]) * 1e-4) { view = [low, high]; draw(); }
    }
    function pan(share) {
      var step = (view[1] - view[0]) * share;
      step = Math.max(whole[0] - view[0], Math.min(whole[1] - view[1], step));
      view = [view[0] + step, view[1] + step];
      draw();
    }
    function visible() {
      var values = [];
      spec.series.forEach(function (s) {
        if (s.kind === "level") { values.push(s.y); return; }
        s.x.forEach(function (x, k) {
          if (x >= view[0] && x <= view[1]) { values.push(s.y[k]); if (s.upper) values.push(s.upper[k]); }
        });
      });
      return values;
    }
    function draw() {
      width = Math.max(holder.clientWidth, 200);
      height = Math.max(150, Math.min(spec.tall || 220, width * 0.62));
      svg.setAttribute("viewBox", "0 0 " + width + " " + height);
      svg.setAttribute("height", height);
      while (svg.firstChild) svg.removeChild(svg.firstChild);
      limits = range(visible());
      var pad = (limits[1] - limits[0]) * 0.06;
      limits = [limits[0] - pad, limits[1] + pad];
      X = function (v) { return left + (v - view[0]) / (view[1] - view[0]) * (width - left - right); };
      Y = function (v) { return height - bottom - (v - limits[0]) / (limits[1] - limits[0]) * (height - top - bottom); };
      var id = "clip" + Math.random().toString(36).slice(2);
      var clip = node("clipPath", { id: id }, node("defs", {}, svg));
      node("rect", { x: left, y: top, width: width - left - right, height: height - top - bottom }, clip);
      ticks(view[0], view[1], Math.max(2, Math.floor(width / 95))).forEach(function (t) {
        node("line", { x1: X(t), x2: X(t), y1: top, y2: height - bottom, stroke: "var(--line)" }, svg);
        node("text", { x: X(t), y: height - bottom + 15, "text-anchor": "middle", "font-size": 11, fill: "var(--soft)" }, svg)
          .textContent = shown(t);
      });
      ticks(limits[0], limits[1], 4).forEach(function (t) {
        node("line", { x1: left, x2: width - right, y1: Y(t), y2: Y(t), stroke: "var(--line)" }, svg);
        node("text", { x: left - 6, y: Y(t) + 4, "text-anchor": "end", "font-size": 11, fill: "var(--soft)" }, svg)
          .textContent = shown(t);
      });
      node("text", { x: (left + width - right) / 2, y: height - 4, "text-anchor": "middle", "font-size": 12,
        fill: "var(--ink)" }, svg).textContent = spec.x;
      var inner = node("g", { "clip-path": "url(#" + id + ")" }, svg);
      spec.series.forEach(function (s) { series(s, inner); });
      cursor = node("circle", { r: 5, fill: "none", stroke: "var(--mark)", "stroke-width": 2, visibility: "hidden" }, inner);
    }
    var cursor;
    function path(x, y) {
      var text = "", pen = false;
      for (var k = 0; k < x.length; k++) {
        if (y[k] === null || !isFinite(y[k])) { pen = false; continue; }
        text += (pen ? "L" : "M") + X(x[k]).toFixed(1) + " " + Y(y[k]).toFixed(1);
        pen = true;
      }
      return text;
    }
    function series(s, parent) {
      var colour = "var(--" + s.colour + ")";
      if (s.kind === "level") {
        node("line", { x1: left, x2: width, y1: Y(s.y), y2: Y(s.y), stroke: colour, "stroke-dasharray": "5 4" }, parent);
      } else if (s.kind === "band") {
        var back = path(s.x.slice().reverse(), s.upper.slice().reverse());
        node("path", { d: path(s.x, s.y) + back.replace(/^M/, "L") + "Z", fill: "var(--band)", stroke: "none" }, parent);
      } else if (s.kind === "line") {
        node("path", { d: path(s.x, s.y), fill: "none", stroke: colour, "stroke-width": 1.8,
          "stroke-dasharray": s.dashed ? "6 4" : "none" }, parent);
      } else {
        var dots = "";
        s.x.forEach(function (x, k) {
          if (s.y[k] === null || x < view[0] || x > view[1]) return;
          dots += "M" + X(x).toFixed(1) + " " + Y(s.y[k]).toFixed(1) + "h0";
        });
        node("path", { d: dots, stroke: colour, "stroke-width": s.size || 4, "stroke-linecap": "round", fill: "none" }, parent);
      }
    }
    function nearest(px, py) {
      var best = null;
      spec.series.forEach(function (s) {
        if (s.kind === "band" || s.kind === "level") return;
        s.x.forEach(function (x, k) {
          if (s.y[k] === null || x < view[0] || x > view[1]) return;
          var d = Math.hypot(X(x) - px, (Y(s.y[k]) - py) * 0.5);
          if (!best || d < best.d) best = { d: d, s: s, k: k };
        });
      });
      return best;
    }
    function show(best) {
      if (!best) { hide(); return; }
      var x = best.s.x[best.k], y = best.s.y[best.k];
      tip.textContent = best.s.name + ": " + spec.x + " " + shown(x) + ", " + shown(y);
      tip.style.display = "block";
      tip.style.left = Math.max(0, Math.min(X(x) + 8, width - tip.offsetWidth - 4)) + "px";
      tip.style.top = Math.max(0, Y(y) - 34) + "px";
      cursor.setAttribute("cx", X(x));
      cursor.setAttribute("cy", Y(y));
      cursor.setAttribute("visibility", "visible");
    }
    function hide() { tip.style.display = "none"; if (cursor) cursor.setAttribute("visibility", "hidden"); }
    var from = null;
    svg.addEventListener("pointermove", function (event) {
      var box = svg.getBoundingClientRect();
      show(nearest(event.clientX - box.left, event.clientY - box.top));
    });
    svg.addEventListener("pointerleave", hide);
    svg.addEventListener("pointerdown", function (event) { from = event.clientX - svg.getBoundingClientRect().left; });
    svg.addEventListener("pointerup", function (event) {
      var to = event.clientX - svg.getBoundingClientRect().left;
      if (from !== null && Math.abs(to - from) > 12) {
        var back = function (px) { return view[0] + (px - left) / (width - left - right) * (view[1] - view[0]); };
        var ends = [back(Math.min(from, to)), back(Math.max(from, to))];
        view = [Math.max(ends[0], whole[0]), Math.min(ends[1], whole[1])];
        draw();
      }
      from = null;
    });
    svg.addEventListener("dblclick", function () { view = whole.slice(); draw(); });
    svg.addEventListener("keydown", function (event) {
      var keys = { ArrowLeft: function () { pan(-0.2); }, ArrowRight: function () { pan(0.2); },
        "+": function () { zoom(0.5); }, "-": function () { zoom(2); }, "0": function () { view = whole.slice(); draw(); } };
      if (keys[event.key]) { keys[event.key](); event.preventDefault(); }
    });
    this.draw = draw;
    draw();
  }

  var charts = Array.prototype.map.call(document.querySelectorAll(".chart"), function (holder) { return new Chart(holder); });
  var timer = null;
  function redraw() { charts.forEach(function (chart) { chart.draw(); }); }
  window.addEventListener("resize", function () { clearTimeout(timer); timer = setTimeout(redraw, 100); });
  window.addEventListener("beforeprint", redraw);

  var root = document.documentElement, toggle = document.getElementById("theme");
  function set(theme) {
    root.setAttribute("data-theme", theme);
    toggle.textContent = theme === "dark" ? "light page" : "dark page";
    toggle.setAttribute("aria-pressed", String(theme === "dark"));
  }
  set(window.matchMedia && window.matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  toggle.addEventListener("click", function () { set(root.getAttribute("data-theme") === "dark" ? "light" : "dark"); });
})();
