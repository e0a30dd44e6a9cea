// Script of a report. It follows charts.js, draws all charts of the page and wires the button for the dark mode.
wireTheme(document.getElementById("theme"));
drawAll(document);
