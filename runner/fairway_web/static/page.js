// Keeps a page in step with what it shows. Without it every page works, and stands still.
"use strict";

const live = document.querySelector("[data-fragment]");
const log = document.querySelector("#log[data-from]");
const away = document.querySelector("#away");
const form = document.querySelector("form[data-check]");
const PAUSE = 3000; // milliseconds between two looks
const pause = Number(live?.dataset.pause ?? PAUSE);
const LINES = 500; // milliseconds between two looks at a log
const AWAY = "The server does not answer. Once it runs again, open the address that it printed, or sign in again: this page continues then.";
const TYPED = 400; // milliseconds after the last key
const KEPT = 1 << 20; // characters of a log that stay on the page: with all of them it would stall

// What somebody has ticked stays ticked when the list is drawn again.
function redraw(element, html) {
  const ticked = new Set([...element.querySelectorAll("input:checked")].map((each) => each.value));
  const focused = element.contains(document.activeElement) ? document.activeElement : null;
  const again = focused && (focused.value || focused.getAttribute("href"));
  element.replaceChildren(...new DOMParser().parseFromString(html, "text/html").body.childNodes);
  for (const each of element.querySelectorAll("input, a")) {
    if (each.type === "checkbox" && ticked.has(each.value)) each.checked = true;
    if (again && (each.type === "checkbox" ? each.value : each.getAttribute("href")) === again) each.focus();
  }
}

// A reader hears a text each time that it is set.
function say(text) {
  if (away.textContent !== text) away.textContent = text;
}

// A proxy redirects to its sign-in, whose page is no answer.
function ask(address, settings) {
  return fetch(address, { ...settings, redirect: "error" });
}

async function look() {
  if (document.visibilityState === "visible") {
    try {
      const answer = await ask(live.dataset.fragment, { headers: { Accept: "text/html" } });
      // A run may have been removed. A new server has another token; a proxy answers for one that is away.
      say(answer.ok || answer.status === 404 ? "" : AWAY);
      if (answer.ok) {
        const html = await answer.text();
        if (html !== look.last) redraw(live, html);
        look.last = html;
        if (answer.headers.get("Fairway-Final") === "yes") {
          location.reload(); // its outputs, the rest of its log, and what can be done with it now
          return;
        }
      }
    } catch {
      say(AWAY); // what was last known stays, and it is asked again
    }
  }
  setTimeout(look, pause);
}

// Goes on behind what was read last, also where the server was ended and started again. Requests
// are short: a browser has six connections to a server, for all of its pages.
async function follow() {
  let next = PAUSE;
  if (document.visibilityState === "visible") {
    try {
      const answer = await ask(log.dataset.from);
      const offset = answer.headers.get("Next-Offset");
      if (answer.ok && offset !== null) {
        append(await answer.text());
        const address = new URL(log.dataset.from, location);
        address.searchParams.set("from", offset);
        log.dataset.from = address;
        next = LINES;
      }
    } catch {
      // The server is away, as the other look says.
    }
  }
  setTimeout(follow, next);
}

function append(text) {
  if (!text) return;
  const isAtEnd = log.scrollTop + log.clientHeight >= log.scrollHeight - 40;
  log.append(text); // a text node: nothing in it is markup
  while (log.childNodes.length > 1 && log.textContent.length > KEPT) {
    log.firstChild.remove();
    document.querySelector("#cut").hidden = false;
  }
  if (isAtEnd) log.scrollTop = log.scrollHeight;
}

// What is wrong with a job is said while somebody types it.
let asked, typed;
async function check() {
  asked?.abort();
  asked = new AbortController();
  try {
    const body = new URLSearchParams(new FormData(form));
    const answer = await ask(form.dataset.check, { method: "POST", body, signal: asked.signal });
    if (answer.ok) redraw(document.querySelector("#found"), await answer.text());
  } catch {
    // Another check has begun, or the server is away: the button asks again.
  }
}

if (form) {
  form.addEventListener("input", () => {
    clearTimeout(typed);
    typed = setTimeout(check, TYPED);
  });
  // Typed before this script was there, or kept by the browser on the way back.
  const texts = [...form.querySelectorAll("textarea")];
  if (texts.some((text) => text.value !== text.defaultValue)) check();
}
if (live) setTimeout(look, pause);
if (log) {
  log.scrollTop = log.scrollHeight;
  follow();
}
