"use strict";

// Charts -----------------------------------------------------------------------------------------------------------

const { charts, compact } = JSON.parse(document.getElementById("charts").textContent);
const datasets = Object.fromEntries(Object.entries(compact).map(([name, table]) => [name, rowsOf(table)]));
const views = new Map();
const signals = new Map(); // what was chosen, also for charts that are drawn later

function rowsOf({ columns, rows }) {
  return rows.map((row) => Object.fromEntries(columns.map((name, i) => [name, row[i]])));
}

function embed(place) {
  const spec = charts[place.dataset.chart];
  const options = { actions: false, renderer: "svg", ast: true, tooltip: { theme: "page", disableDefaultStyle: true } };
  return vegaEmbed(place, { ...spec, datasets: { ...spec.datasets, ...datasets } }, options).then(({ view }) => {
    views.set(place.dataset.chart, view);
    for (const [name, value] of signals) tell(view, name, value);
    place.querySelector("svg").setAttribute("aria-hidden", "true"); // the place itself says what it shows
  });
}

function draw(within) {
  const places = [...within.querySelectorAll("[data-chart]:empty")].filter((p) => !p.closest("details:not([open])"));
  return Promise.all(places.map(embed));
}

function tell(view, name, value) {
  if (name in view.getState({ signals: (known) => known === name, data: () => false }).signals) {
    view.signal(name, value).runAsync();
  }
}

function signal(name, value) {
  signals.set(name, value);
  for (const view of views.values()) tell(view, name, value);
}

// Controls ---------------------------------------------------------------------------------------------------------

function chooseMethod(name) {
  for (const select of document.querySelectorAll("select.method")) select.value = name;
  const words = document.getElementById("verdicts");
  if (words) words.textContent = JSON.parse(words.dataset.words)[name];
  signal("method", name);
}

function toggle(button) {
  button.setAttribute("aria-pressed", button.getAttribute("aria-pressed") !== "true");
  const shown = [...document.querySelectorAll(".legend button[aria-pressed=true]")].map((b) => b.dataset.method);
  signal("shown", shown);
}

function sortBy(header) {
  const table = header.closest("table");
  const column = [...header.parentNode.children].indexOf(header);
  const ascending = header.getAttribute("aria-sort") !== "ascending";
  for (const other of header.parentNode.children) other.removeAttribute("aria-sort");
  header.setAttribute("aria-sort", ascending ? "ascending" : "descending");
  const key = (row) => row.children[column].dataset.key;
  const compare = (a, b) => {
    if (key(a) === undefined || key(b) === undefined) return (key(a) === undefined) - (key(b) === undefined);
    const difference = isNaN(key(a)) ? key(a).localeCompare(key(b), undefined, { numeric: true }) : key(a) - key(b);
    return ascending ? difference : -difference;
  };
  table.tBodies[0].append(...[...table.tBodies[0].rows].sort(compare));
}

async function copy(button) {
  const said = button.nextElementSibling;
  try {
    await navigator.clipboard.writeText(button.dataset.copy);
    said.textContent = "Copied: paste it into a spreadsheet.";
  } catch {
    said.textContent = "This browser does not let the page copy: select the table instead.";
  }
}

function hintAtWidth(table) {
  const scroll = table.querySelector(".scroll");
  table.classList.toggle("wide", scroll.scrollWidth > scroll.clientWidth + 1);
}

function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

function nameTheme(button) {
  button.textContent = isDark() ? "Light page" : "Dark page";
}

document.addEventListener("DOMContentLoaded", () => {
  for (const select of document.querySelectorAll("select.method")) {
    select.addEventListener("change", () => chooseMethod(select.value));
  }
  for (const button of document.querySelectorAll(".legend button")) button.addEventListener("click", () => toggle(button));
  for (const header of document.querySelectorAll("th:has(> button)")) {
    header.firstElementChild.addEventListener("click", () => sortBy(header));
  }
  for (const button of document.querySelectorAll("[data-copy]")) button.addEventListener("click", () => copy(button));
  const watcher = new ResizeObserver((entries) => entries.forEach((entry) => hintAtWidth(entry.target)));
  for (const table of document.querySelectorAll(".table")) watcher.observe(table);
  const theme = document.getElementById("theme");
  nameTheme(theme);
  theme.addEventListener("click", () => {
    document.documentElement.dataset.theme = isDark() ? "light" : "dark";
    nameTheme(theme);
  });
  for (const part of document.querySelectorAll("details:has([data-chart])")) {
    part.addEventListener("toggle", () => draw(part));
  }
  draw(document).then(() => {
    document.documentElement.setAttribute("data-ready", "");
    document.dispatchEvent(new Event("ready"));
  });
});
