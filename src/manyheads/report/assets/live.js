"use strict";

// A page that asks its server for the rounds that are new, as long as there may be some.

const EVERY = 1000; // milliseconds

async function poll(known) {
  const state = document.getElementById("state");
  let news;
  try {
    news = await (await fetch(`history?from=${known}`)).json();
  } catch {
    state.textContent = "The run's server has ended; this page keeps what it has.";
    return;
  }
  if (news.charts.some((name) => !(name in charts))) return location.reload(); // there is more to draw than before
  if (news.rows.length) {
    datasets.rows = news.from < known ? news.rows : [...datasets.rows, ...news.rows];
    datasets.sites = news.sites;
    for (const view of views.values()) {
      const there = Object.keys(view.getState({ signals: () => false, data: () => true }).data);
      for (const name of ["rows", "sites"]) if (there.includes(name)) view.data(name, datasets[name]);
      await view.runAsync();
    }
  }
  document.querySelector("#words p").textContent = news.words;
  if (news.finished) state.textContent = "The run has ended.";
  else if (news.next) state.textContent = "The run goes on; new rounds appear by themselves.";
  if (!news.finished) setTimeout(() => poll(news.next), EVERY);
}

document.addEventListener("ready", () => poll(Number(document.getElementById("state").dataset.known)));
