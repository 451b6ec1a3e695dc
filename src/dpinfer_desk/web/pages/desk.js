// The one script of the page: the other half of the form follows while it is filled in, and the forecast
// appears in place.  Without it every button works all the same.
"use strict";

const halves = ["by-ticks", "by-formula"];
let newest = 0;

async function fetched(query) {
  const mine = ++newest;
  const answer = await fetch(`${location.pathname}?${query}`, { credentials: "same-origin" });
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  return mine === newest ? page : null;
}

function put(page, id) {
  const fresh = page.getElementById(id);
  if (fresh) document.getElementById(id).replaceWith(document.adoptNode(fresh));
}

document.addEventListener("change", async (event) => {
  const half = halves.find((id) => event.target.closest(`#${id}`));
  if (!half) return;
  const page = await fetched(new URLSearchParams(new FormData(document.getElementById("ask"))));
  if (!page) return;
  const other = halves.find((id) => id !== half);
  put(page, "fault");
  put(page, other);
  for (const name of ["ticks-were", "formula-was"]) {
    const fresh = page.getElementsByName(name)[0];
    if (fresh) document.getElementsByName(name)[0].value = fresh.value;
  }
});

document.addEventListener("submit", async (event) => {
  if (event.target.id !== "ask") return;
  event.preventDefault();
  const query = new URLSearchParams(new FormData(event.target, event.submitter));
  query.set("go", "forecast");
  const working = document.getElementById("working");
  working.textContent = "Simulating on made-up records …";
  try {
    let page;
    for (;;) {
      page = await fetched(query);
      const mine = newest;
      if (!page || !page.querySelector("meta[http-equiv=refresh]")) break;
      await new Promise((ready) => setTimeout(ready, 1000));  // the forecast is under way
      if (mine !== newest) return;
    }
    if (!page) return;
    for (const id of ["fault", ...halves, "forecast"]) put(page, id);
    history.replaceState(null, "", `?${query}`);
    const fault = document.querySelector("#fault [role=alert]");
    (fault || document.getElementById("forecast")).scrollIntoView({ block: "start" });
    document.getElementById("forecast").focus({ preventScroll: true });
  } finally {
    working.textContent = "";
  }
});
