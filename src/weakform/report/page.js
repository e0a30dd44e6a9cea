// The script of a report: what charts.js, which stands before it, has to draw.
themed(document.getElementById("theme"));
drawAll(document);
