// Typeset what pymdownx.arithmatex has marked: \(...\) in a span, \[...\] in a div.
document.addEventListener("DOMContentLoaded", () => {
  for (const element of document.querySelectorAll(".arithmatex"))
    katex.render(element.textContent.trim().slice(2, -2), element, { displayMode: element.tagName === "DIV" });
});
