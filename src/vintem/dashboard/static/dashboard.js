"use strict";
// Makes a few things nicer; every page works without it.
document.documentElement.classList.add("js");

// On a phone the menu starts closed: what was asked for comes first.
const menu = document.querySelector(".menu details");
if (menu && matchMedia("(max-width: 56rem)").matches) menu.open = false;

document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  await navigator.clipboard.writeText(button.dataset.copy);
  button.classList.add("done");
  setTimeout(() => button.classList.remove("done"), 2000);
});

document.addEventListener("keydown", (event) => {
  const isTyping = event.target.closest("input, textarea, select");
  if (event.key === "/" && !isTyping) {
    const search = document.getElementById("q");
    if (search) { event.preventDefault(); search.focus(); }
  }
});

const faults = document.getElementById("faults");
if (faults) faults.focus();
