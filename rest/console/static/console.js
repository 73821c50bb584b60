// Brings the parts of a page up to date that carry data-live, from the same page as the worker makes it anew.
"use strict";

function take(text) {
  const fresh = new DOMParser().parseFromString(text, "text/html");
  for (const after of fresh.querySelectorAll("[data-live][id]")) {
    const before = document.getElementById(after.id);
    if (!before || before.isEqualNode(after) || before.contains(document.activeElement)) continue;
    for (const details of before.querySelectorAll("details[id]")) {
      const same = after.querySelector("#" + CSS.escape(details.id));
      if (same) same.open = details.open;
    }
    const at = before.scrollTop;
    before.replaceWith(document.adoptNode(after));
    after.scrollTop = at;
  }
  return fresh;
}

// Fields that a check has found, such as those of a transform that was just named.
function addFields(fresh) {
  const others = document.getElementById("others");
  for (const field of fresh.querySelectorAll("details.group .field[id]")) {
    if (document.getElementById(field.id)) continue;
    const group = field.closest("details.group");
    const here = document.getElementById(group.id);
    if (here) here.append(document.adoptNode(field));
    else others.closest(".field").before(document.adoptNode(group));
  }
  const left = fresh.getElementById("others");
  if (left && !left.value.includes("[hidden]")) others.value = left.value;
}

async function refresh(page) {
  if (document.hidden) return;
  try {
    const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
    if (answer.ok) take(await answer.text());
    page.classList.toggle("stale", !answer.ok);
  } catch {
    page.classList.add("stale");
  }
}

function submitLive(event) {
  const button = event.submitter;
  if (!button) return;
  event.preventDefault();
  const form = event.target;
  const body = new URLSearchParams(new FormData(form, button));
  form.setAttribute("aria-busy", "true");
  fetch(form.action, { method: "POST", body, headers: { Accept: "text/html" } })
    .then(async (answer) => {
      if (answer.redirected) {
        location.assign(answer.url);
        return;
      }
      const fresh = take(await answer.text());
      if (fresh.getElementById("others")) addFields(fresh);
      const refused = fresh.querySelector("main > .note.bad");
      const result = document.getElementById("result");
      if (refused && result) result.replaceChildren(document.adoptNode(refused));
      const wrong = document.querySelector(".errors:not(:empty)");
      for (let one = wrong; one; one = one.parentElement) if (one.tagName === "DETAILS") one.open = true;
      (wrong || result).scrollIntoView({ block: "nearest" });
      if (result) result.focus({ preventScroll: true });
    })
    .catch(() => HTMLFormElement.prototype.submit.call(form))
    .finally(() => form.removeAttribute("aria-busy"));
}

addEventListener("DOMContentLoaded", () => {
  const page = document.querySelector("main[data-refresh]");
  if (page) setInterval(refresh, 1000 * Number(page.dataset.refresh), page);
  for (const form of document.querySelectorAll("form.config")) form.addEventListener("submit", submitLive);
});
