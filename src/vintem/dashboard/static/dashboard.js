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

// On a phone, a table that does not fit becomes cards; the roles keep what it says to a screen reader.
const ROLES = { TABLE: "table", THEAD: "rowgroup", TBODY: "rowgroup", TFOOT: "rowgroup", TR: "row", TD: "cell" };
const phone = matchMedia("(max-width: 40rem)");
const layTables = () => {
  for (const frame of document.querySelectorAll(".table")) {
    frame.classList.remove("as-cards");
    frame.classList.toggle("as-cards", phone.matches && frame.scrollWidth > frame.clientWidth);
  }
};
for (const table of document.querySelectorAll(".table table")) {
  const labels = [...table.querySelectorAll("thead th")].map((head) => head.querySelector(".hide") ? "" : head.textContent.trim());
  for (const one of [table, ...table.querySelectorAll("thead, tbody, tfoot, tr, th, td")]) {
    one.setAttribute("role", one.scope === "row" ? "rowheader" : one.scope === "col" ? "columnheader" : ROLES[one.tagName] || "cell");
  }
  for (const cell of table.querySelectorAll("tbody td")) {
    if (labels[cell.cellIndex]) cell.dataset.label = labels[cell.cellIndex];
  }
}
layTables();
// A long filter that nobody has used yet waits behind its name.
for (const form of document.querySelectorAll("form.filters")) {
  if (!phone.matches || form.querySelectorAll(".field").length < 3) continue;
  const fold = document.createElement("details");
  const name = document.createElement("summary");
  fold.className = "fold";
  fold.open = [...new URLSearchParams(location.search).values()].some(Boolean);
  name.className = "btn";
  name.textContent = "Filtros";
  form.before(fold);
  fold.append(name, form);
}
phone.addEventListener("change", layTables);

const faults = document.getElementById("faults");
if (faults) faults.focus();

// A page that is left alone says so before the visit ends, and goes on when asked to.
const visit = document.body.dataset;
if (visit.stay) {
  const WARNED_SECONDS = 120;
  const KEPT = "vintem-visit-ends";
  let endsAt = 0;
  const last = (seconds) => {
    endsAt = Date.now() + seconds * 1000;
    try { localStorage.setItem(KEPT, endsAt); } catch { /* Other pages of this visit warn too early. */ }
  };
  last(Number(visit.signOutAfter));
  addEventListener("storage", (event) => {
    if (event.key === KEPT && event.newValue) endsAt = Number(event.newValue);
  });

  const notice = document.createElement("div");
  notice.className = "leaving note warn";
  notice.setAttribute("role", "alertdialog");
  notice.setAttribute("aria-labelledby", "leaving-why");
  notice.hidden = true;
  const why = document.createElement("p");
  why.id = "leaving-why";
  const button = document.createElement("button");
  button.type = "button";
  button.className = "btn primary";
  button.textContent = "Continuar conectado";
  notice.append(why, button);
  document.body.append(notice);
  let cameFrom = null;
  button.addEventListener("click", async () => {
    const answer = await fetch(visit.stay, { redirect: "manual" });
    if (!answer.ok) { location.href = visit.leave; return; }
    last(Number(await answer.text()));
    look();
    if (cameFrom) cameFrom.focus();
  });

  const look = () => {
    const seconds = (endsAt - Date.now()) / 1000;
    if (seconds <= 0) { location.href = visit.leave; return; }
    const isDue = seconds <= WARNED_SECONDS;
    if (isDue && notice.hidden) {
      const minutes = Math.ceil(seconds / 60);
      why.textContent = `Por segurança, sua sessão termina em ${minutes} ${minutes === 1 ? "minuto" : "minutos"}.`;
      cameFrom = document.activeElement;
      notice.hidden = false;
      button.focus();
    } else if (!isDue) {
      notice.hidden = true;
    }
  };
  setInterval(look, 1000);
}
