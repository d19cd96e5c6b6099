"use strict";

// Charts -----------------------------------------------------------------------------------------------------------

const views = new Map();

function rowsOf({ columns, rows }) {
  return rows.map((row) => Object.fromEntries(columns.map((name, i) => [name, row[i]])));
}

function embed(place, spec) {
  const options = { actions: false, renderer: "svg", ast: true, tooltip: { theme: "page", disableDefaultStyle: true } };
  return vegaEmbed(place, spec, options).then(({ view }) => {
    views.set(place.dataset.chart, view);
    place.querySelector("svg").setAttribute("aria-hidden", "true"); // the place itself says what it shows
  });
}

function signal(name, value) {
  for (const view of views.values()) {
    if (name in view.getState({ signals: (known) => known === name, data: () => false }).signals) {
      view.signal(name, value).runAsync();
    }
  }
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
  const theme = document.getElementById("theme");
  nameTheme(theme);
  theme.addEventListener("click", () => {
    document.documentElement.dataset.theme = isDark() ? "light" : "dark";
    nameTheme(theme);
  });
  const { charts, datasets } = JSON.parse(document.getElementById("charts").textContent);
  const shared = Object.fromEntries(Object.entries(datasets).map(([name, table]) => [name, rowsOf(table)]));
  const drawn = [...document.querySelectorAll("[data-chart]")].map((place) => {
    const spec = charts[place.dataset.chart];
    return embed(place, { ...spec, datasets: { ...spec.datasets, ...shared } });
  });
  Promise.all(drawn).then(() => {
    document.documentElement.setAttribute("data-ready", "");
    document.dispatchEvent(new Event("ready"));
  });
});
