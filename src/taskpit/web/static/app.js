// What every page does: theme, ages, keys, dialogs, files that are dropped, logs that grow. No build step, no library but htmx.
"use strict";
(() => {
  const root = document.documentElement;
  const stored = (key) => { try { return localStorage.getItem(key); } catch { return null; } };
  const store = (key, value) => { try { localStorage.setItem(key, value); } catch { /* then it lasts as long as the page */ } };
  const isDark = () => (root.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  if (stored("theme")) root.dataset.theme = stored("theme");

  const home = () => `${document.body.dataset.root}/`; // the address of this queue's board
  const $ = (selector, from = document) => from.querySelector(selector);
  const say = (text, good = true) => {
    const toast = document.createElement("p");
    toast.className = `toast ${good ? "good" : "bad"}`;
    toast.setAttribute("role", good ? "status" : "alert");
    toast.textContent = text;
    $("#toasts").append(toast);
  };

  // -- ages: every <time data-at> says how long ago that is, by the server's clock ------------------
  let behind = 0;
  const words = (seconds) => { // as `say_age` has it
    seconds = Math.max(0, seconds);
    for (const [letter, size, until] of [["s", 1, 60], ["m", 60, 6000], ["h", 3600, 172800], ["d", 86400, 8640000]])
      if (seconds < until) return Math.floor(seconds / size) + letter;
    return Math.min(Math.floor(seconds / 604800), 999) + "w";
  };
  const tick = () => {
    if (document.hidden) return;
    const now = Date.now() / 1000 + behind;
    for (const time of document.querySelectorAll("time[data-at]")) {
      const told = words(now - Number(time.dataset.at));
      if (time.firstChild?.data !== told) time.textContent = told;
    }
    seconds += 1;
    if (seconds % 3 === 0) document.body.dispatchEvent(new CustomEvent("tick"));
  };
  let seconds = 0;

  // -- streams: one for a page, closed while nobody sees it (a browser has few connections to give) --
  const word = () => document.body.dataset.csrf; // the half of the session that no other port is told
  const withWord = (address) => `${address}${address.includes("?") ? "&" : "?"}word=${encodeURIComponent(word())}`;
  const listen = (address, handlers, state = () => {}) => {
    let source = null, timer = 0;
    const open = () => {
      clearTimeout(timer);
      if (source || document.hidden) return;
      source = new EventSource(withWord(address())); // it can send no header
      source.onopen = () => state(true);
      source.onerror = () => {
        state(false);
        close();
        timer = setTimeout(open, 1000);
      };
      for (const [name, handle] of Object.entries(handlers)) source.addEventListener(name, handle);
    };
    const close = () => { source?.close(); source = null; };
    document.addEventListener("visibilitychange", () => { if (document.hidden) close(); else open(); });
    addEventListener("pagehide", close);
    addEventListener("pageshow", open);
    open();
  };
  let lost = 0;
  const state = (here) => {
    const live = $("#live");
    lost = here ? 0 : lost + 1;
    live.hidden = here;
    live.textContent = here ? "" : "not connected";
    if (lost === 2) {
      fetch(`${home()}columns`, { method: "HEAD", headers: { "X-CSRF-Token": word() } }).then((answer) => {
        if (answer.status === 401) live.textContent = "restarted: open the new link";
      }).catch(() => {});
    }
  };

  // -- a log that grows -----------------------------------------------------------------------------
  const LONGEST = 400000;
  const followLog = (log) => {
    const part = $("#part");
    listen(() => log.dataset.events, {
      log: (event) => {
        const { fresh, text } = JSON.parse(event.data);
        const atEnd = log.scrollHeight - log.scrollTop - log.clientHeight < 40;
        if (fresh) log.textContent = "";
        log.append(text);
        if (log.textContent.length > LONGEST) log.textContent = log.textContent.slice(-LONGEST / 2);
        $("#log-section").hidden = false;
        if (atEnd || fresh) log.scrollTop = log.scrollHeight;
      },
      changed: () => {
        const writing = part?.contains(document.activeElement) && document.activeElement.matches("input, textarea");
        if (!writing) part?.dispatchEvent(new CustomEvent("changed"));
        else document.activeElement.addEventListener("blur", () => part.dispatchEvent(new CustomEvent("changed")), { once: true });
      },
    }, state);
  };

  // -- files that are dropped -----------------------------------------------------------------------
  const bring = async (file) => {
    try {
      const answer = await fetch(`${home()}files?name=${encodeURIComponent(file.name)}`, {
        method: "POST",
        headers: { "X-CSRF-Token": word(), "HX-Request": "true", "Content-Type": "application/octet-stream" },
        body: file,
      });
      const told = new DOMParser().parseFromString(await answer.text(), "text/html").body.textContent.trim();
      say(told || `${file.name}: ${answer.status}`, answer.ok);
    } catch {
      say(`${file.name} could not be sent: the board is not there`, false);
    }
  };
  const takeFiles = () => {
    const drop = $("#drop");
    if (!drop) return;
    const carries = (event) => [...(event.dataTransfer?.types || [])].includes("Files");
    addEventListener("dragover", (event) => { if (carries(event)) { event.preventDefault(); drop.hidden = false; } });
    addEventListener("dragleave", (event) => { if (!event.relatedTarget) drop.hidden = true; });
    addEventListener("drop", async (event) => {
      if (!carries(event)) return;
      event.preventDefault();
      drop.hidden = true;
      for (const file of [...event.dataTransfer.files]) await bring(file);
    });
  };

  // -- a line of a diff: its place begins a line of the text that goes back ---------------------------
  const remark = (line) => {
    const text = $(".verdict textarea", line.closest(".review"));
    const place = `${line.closest(".file").dataset.path}:${line.textContent}: `;
    text.value += (text.value && !text.value.endsWith("\n") ? "\n" : "") + place;
    text.rows = Math.min(text.value.split("\n").length + 1, 8);
    line.closest("tr").classList.add("remarked");
    text.focus();
    text.setSelectionRange(text.value.length, text.value.length);
    text.scrollTop = text.scrollHeight;
  };

  // -- a diff side by side: what was taken out beside what came in; the rows as they were are kept for the way back
  const bySides = (table) => {
    const body = document.createElement("tbody");
    let gone = [], come = [];
    const half = (row, no, kind) => [row?.cells[no], row?.cells[2]].map((cell, at) => {
      const made = cell ? cell.cloneNode(true) : document.createElement("td");
      made.classList.add(["no", "code"][at], row ? (row.className && kind) || "same" : "gap");
      return made;
    });
    const add = (left, right) => body.insertRow().append(...half(left, 0, "del"), ...half(right, 1, "add"));
    const pair = () => {
      for (let at = 0; at < Math.max(gone.length, come.length); at++) add(gone[at], come[at]);
      gone = []; come = [];
    };
    for (const row of table.tBodies[0].rows) {
      const kind = row.classList;
      if (kind.contains("add")) come.push(row);
      else if (kind.contains("del")) { if (come.length) pair(); gone.push(row); }
      else {
        pair();
        if (!kind.contains("hunk")) { add(row, row); continue; }
        const head = body.insertRow();
        head.className = "hunk";
        const cell = head.insertCell();
        cell.colSpan = 4;
        cell.textContent = row.cells[2].textContent;
      }
    }
    pair();
    return body;
  };
  const unified = new WeakMap();
  let sides = stored("diff") === "sides";
  const arrange = () => {
    for (const button of document.querySelectorAll("[data-sides]")) { button.hidden = false; button.setAttribute("aria-pressed", sides); }
    for (const table of document.querySelectorAll("table.diff")) {
      if (table.classList.contains("sides") === sides) continue;
      const now = table.tBodies[0];
      if (sides) unified.set(table, now);
      now.replaceWith(sides ? bySides(table) : unified.get(table));
      $("colgroup", table)?.remove();
      if (sides) { // the first row is a hunk's head, which says nothing of widths
        const columns = document.createElement("colgroup");
        for (const name of ["no", "", "no", ""]) columns.appendChild(document.createElement("col")).className = name;
        table.prepend(columns);
      }
      table.classList.toggle("sides", sides);
    }
  };

  // -- keys -----------------------------------------------------------------------------------------
  const PAGES = { b: "", a: "agents", r: "report", p: "plots" };
  const onKey = (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
    const typing = event.target.matches?.("input, textarea, select");
    if (event.key === "Escape" && !$("dialog[open]")) {
      if (typing) {
        if (event.target.id === "filter" && event.target.value) { event.target.value = ""; event.target.dispatchEvent(new Event("input", { bubbles: true })); }
        event.target.blur();
      } else if (location.pathname !== home()) location.assign(home());
      else if (home() !== "/") location.assign("/"); // the page of all queues
      return;
    }
    if (typing || $("dialog[open]")) return;
    const target = $(`[data-key="${CSS.escape(event.key)}"]`);
    if (target) {
      event.preventDefault();
      if (target.matches("input")) { target.focus(); target.select(); } else target.click();
    } else if (event.key in PAGES && !document.body.matches(".queues")) location.assign(home() + PAGES[event.key]);
  };

  document.addEventListener("DOMContentLoaded", () => {
    behind = Number(document.body.dataset.now) - Date.now() / 1000;
    setInterval(tick, 1000);
    takeFiles();
    const log = $("#log");
    if (log) followLog(log);
    document.addEventListener("keydown", onKey);
    document.addEventListener("click", (event) => {
      const card = event.target.closest(".card"); // the whole card is its link
      if (card && !event.target.closest("a, button, input, form, .tag") && !String(getSelection())) $("a.title", card).click();
      const opener = event.target.closest("[data-open]");
      if (opener) $(`#${opener.dataset.open}`)?.showModal();
      if (event.target.closest("[data-close]")) event.target.closest("dialog").close();
      if (event.target.matches("dialog")) event.target.close();
      const line = event.target.closest(".diff button");
      if (line) remark(line);
      if (event.target.closest("[data-sides]")) { sides = !sides; store("diff", sides ? "sides" : ""); arrange(); }
    });
    $("#theme").addEventListener("click", () => {
      root.dataset.theme = isDark() ? "light" : "dark";
      store("theme", root.dataset.theme);
    });
    document.body.addEventListener("htmx:afterRequest", (event) => {
      const form = event.target;
      if (!(event.detail.xhr?.status < 400)) return; // htmx calls whatever is swapped a success: a refusal would clear the form
      if (form.matches?.("[data-closes]")) { form.closest("dialog").close(); form.reset(); }
      if (form.matches?.("[data-clears]")) form.reset();
      if (form.matches?.("[data-reloads]")) location.reload();
    });
    arrange();
    document.body.addEventListener("htmx:afterSettle", arrange);
    document.body.addEventListener("htmx:beforeSwap", (event) => { // nobody's words are lost under their hands
      const at = document.activeElement;
      if (event.detail.target.matches("[data-live]") && event.detail.target.contains(at) && at.value) event.detail.shouldSwap = false;
    });
    document.body.addEventListener("htmx:afterSwap", (event) => {
      const needs = $("[data-needs]", event.detail.target)?.dataset.needs;
      if (needs) document.title = document.title.replace(/^(\(\d+\) )?/, needs === "0" ? "" : `(${needs}) `);
    });
    document.body.addEventListener("htmx:sendError", () => say("The board is not there at the moment; nothing was changed.", false));
    new MutationObserver((changes) => {
      const toasts = $("#toasts");
      for (const change of changes) for (const toast of change.addedNodes) {
        if (toast.nodeType !== 1) continue;
        if (toasts.matches(":popover-open")) toasts.hidePopover();
        toasts.showPopover(); // above whatever is open by now, a dialog too
        setTimeout(() => toast.remove(), toast.classList.contains("bad") ? 12000 : 5000);
      }
      if (!toasts.childElementCount && toasts.matches(":popover-open")) toasts.hidePopover();
    }).observe($("#toasts"), { childList: true });
  });
  window.taskpit = { $, say, listen, state, home };
})();
