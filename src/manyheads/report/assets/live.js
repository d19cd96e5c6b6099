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
  if (news.rows.length && !views.size) return location.reload(); // the first evaluation says what there is to draw
  for (const view of views.values()) {
    const there = Object.keys(view.getState({ signals: () => false, data: () => true }).data);
    for (const name of ["rows", "sites"]) {
      if (!there.includes(name) || !news[name].length) continue;
      if (name === "sites" || news.from < known) view.data(name, news[name]);
      else view.insert(name, news[name]);
      await view.runAsync();
    }
  }
  document.querySelector("#words p").textContent = news.words;
  if (news.finished) state.textContent = "The run has ended.";
  else if (views.size) state.textContent = "The run goes on; new rounds appear by themselves.";
  if (!news.finished) setTimeout(() => poll(news.next), EVERY);
}

document.addEventListener("ready", () => poll(Number(document.getElementById("state").dataset.known)));
