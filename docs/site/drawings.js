"use strict";

// Draw the pages' diagrams; without the library they stay text.
document.addEventListener("DOMContentLoaded", () => {
  if (typeof mermaid === "undefined") return;
  const dark = window.matchMedia("(prefers-color-scheme: dark)").matches;
  mermaid.initialize({startOnLoad: false, securityLevel: "strict", theme: dark ? "dark" : "neutral"});
  for (const block of document.querySelectorAll("div.highlight-mermaid")) {
    const drawing = document.createElement("div");
    drawing.className = "mermaid";
    drawing.setAttribute("role", "img");
    drawing.setAttribute("aria-label", "Drawing: " + block.textContent.trim().replace(/\s+/g, " "));
    drawing.textContent = block.textContent;
    block.replaceWith(drawing);
  }
  mermaid.run({querySelector: "div.mermaid"});
});
