// The script of the pages: the other half of a form follows while it is filled in, the forecast and the answer
// appear in place, times are those of the reader.  Without it every button and link works all the same.
"use strict";

const halves = ["by-ticks", "by-formula"];
const pause = (seconds) => new Promise((ready) => setTimeout(ready, 1000 * seconds));
let newest = 0;

class Unreachable extends Error {}

// A page of the desk.  After a session has ended it is the page to sign in, which leads back to what was typed.
async function fetched(address, options = {}) {
  let answer;
  try {
    answer = await fetch(address, { credentials: "same-origin", ...options });
  } catch {
    throw new Unreachable();
  }
  if (answer.redirected && new URL(answer.url).pathname.endsWith("/sign-in")) {
    location.assign(answer.url);
    return new Promise(() => {});
  }
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  localTimes(page);
  return { page, answer };
}

// The page of a form as it is filled in; null where a newer one is on its way.
async function filledIn(query) {
  const mine = ++newest;
  const { page } = await fetched(`${document.getElementById("ask").getAttribute("action").split("#")[0]}?${query}`);
  return mine === newest ? page : null;
}

function put(page, id) {
  const fresh = page.getElementById(id);
  if (fresh) document.getElementById(id).replaceWith(document.adoptNode(fresh));
}

function say(words, id = "working") {
  const there = document.getElementById(id);
  if (there) there.textContent = words;
}

function localTimes(page) {
  for (const time of page.querySelectorAll("time")) {
    const moment = new Date(time.dateTime);
    if (isNaN(moment)) continue;
    time.textContent = moment.toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium" });
    time.title = `${time.dateTime.replace("T", " ").replace("Z", "")} UTC`;
  }
  const zone = page.getElementById("zone");
  if (zone) zone.textContent = `Times are in ${Intl.DateTimeFormat().resolvedOptions().timeZone}.`;
}

const NOT_REACHED = "The desk could not be reached. Nothing was asked, and nothing was spent. Check the network, then try again.";

// The form of a question

document.addEventListener("change", async (event) => {
  if (event.target.form?.id === "send" && event.target.name === "title") {
    const query = new URLSearchParams(location.search);
    query.set("title", event.target.value);
    history.replaceState(null, "", `?${query}`);  // so that it comes back after signing in
    return;
  }
  const half = halves.find((id) => event.target.closest(`#${id}`));
  if (!half && !event.target.closest("#budget")) return;
  try {
    const page = await filledIn(new URLSearchParams(new FormData(document.getElementById("ask"))));
    if (!page) return;
    if (!half) {
      put(page, "meaning");
      return;
    }
    put(page, "fault");
    put(page, halves.find((id) => id !== half));
    for (const name of ["ticks-were", "formula-was"]) {
      const fresh = page.getElementsByName(name)[0];
      if (fresh) document.getElementsByName(name)[0].value = fresh.value;
    }
    say("");
  } catch (fault) {
    if (!(fault instanceof Unreachable)) throw fault;
    say(NOT_REACHED);
  }
});

document.addEventListener("submit", async (event) => {
  if (event.target.id !== "ask") return;
  event.preventDefault();
  const query = new URLSearchParams(new FormData(event.target, event.submitter));
  try {
    if (event.submitter?.name === "preset") await choosePreset(query);
    else await showForecast(query);
  } catch (fault) {
    if (!(fault instanceof Unreachable)) throw fault;
    say(NOT_REACHED);
  }
});

async function choosePreset(query) {
  const page = await filledIn(query);
  if (!page) return;
  put(page, "budget");
  document.getElementById("field-epsilon").focus();
}

async function showForecast(query) {
  query.set("go", "forecast");
  query.set("script", "yes");
  say("Simulating on made-up records …");
  let page;
  for (;;) {
    page = await filledIn(query);
    const mine = newest;
    if (!page) return;
    if (!page.querySelector("[data-under-way]")) break;
    put(page, "forecast");
    await pause(1);
    if (mine !== newest) return;
  }
  for (const id of ["fault", ...halves, "budget", "forecast"]) put(page, id);
  say("");
  query.delete("script");
  history.replaceState(null, "", `?${query}`);
  const fault = document.querySelector("#fault [role=alert]");
  (fault || document.getElementById("forecast")).scrollIntoView({ block: "start" });
  document.getElementById("forecast").focus({ preventScroll: true });
}

// Asking: the form has a key of its own, so that what is sent twice is asked once

document.addEventListener("submit", async (event) => {
  const form = event.target;
  if (form.id !== "send") return;
  event.preventDefault();
  const button = event.submitter;
  if (button) button.disabled = true;
  say("Asking …");
  try {
    const body = new URLSearchParams(new FormData(form));
    const { page, answer } = await fetched(form.action, { method: "POST", body });
    if (answer.redirected) {
      location.assign(answer.url);
      return;
    }
    document.querySelector("main").replaceWith(document.adoptNode(page.querySelector("main")));
    document.querySelector("main [role=alert]")?.scrollIntoView({ block: "start" });
  } catch (fault) {
    if (!(fault instanceof Unreachable)) throw fault;
    say("The desk did not answer. Check the network, then press the button again: a question that is sent twice is asked, and paid, once.");
    if (button) button.disabled = false;
  }
});

// Waiting: the page looks again, and what has changed is read aloud

async function watch() {
  let left = Number(document.getElementById("outcome")?.dataset.wait);
  while (left) {
    say("This page looks again by itself.", "watching");
    for (const until = Date.now() + 1000 * left; Date.now() < until; await pause(0.25)) {
      countDown(until);
    }
    try {
      const { page } = await fetched(location.pathname);
      const fresh = page.getElementById("outcome");
      const there = document.getElementById("outcome");
      left = Number(fresh?.dataset.wait);
      if (!fresh) return;
      if (fresh.className === there.className) continue;
      document.title = page.title;
      there.className = fresh.className;
      there.replaceChildren(...[...fresh.childNodes].map((node) => document.adoptNode(node)));
      // All but the live region comes with the answer.
      const main = document.querySelector("main");
      const others = [...page.querySelector("main").children].map((node) => document.adoptNode(node));
      for (const node of [...main.children]) if (node !== there) node.remove();
      const place = others.indexOf(fresh);
      there.before(...others.slice(0, place));
      there.after(...others.slice(place + 1));
      prepare();
    } catch (fault) {
      if (!(fault instanceof Unreachable)) throw fault;
      say("The desk could not be reached. This page tries again.", "watching");
      left = 5;
    }
  }
}

function countDown(until) {
  const timer = document.querySelector("#outcome .countdown");
  if (!timer) return;
  const seconds = Math.max(0, Math.round((until - Date.now()) / 1000));
  const words = seconds >= 120 ? `in ${Math.round(seconds / 60)} min` : `in ${seconds} s`;
  if (timer.textContent !== words) timer.textContent = words;
}

// Copying

document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copies]");
  if (!button) return;
  const source = document.getElementById(button.dataset.copies);
  const done = await copied(source);
  button.firstChild.textContent = done ? "Copied" : "Selected";
});

async function copied(source) {
  try {
    await navigator.clipboard.writeText(source.textContent);
    return true;
  } catch {
    getSelection().selectAllChildren(source);
    return false;
  }
}

function prepare() {
  // a page without TLS may not write to the clipboard: then the text is selected
  for (const button of document.querySelectorAll("[data-copies]")) button.hidden = false;
}

localTimes(document);
prepare();
watch();
if (document.querySelector("#forecast [data-under-way]")) document.getElementById("ask").requestSubmit();
