// What every page does: theme, ages, keys, dialogs, files that are dropped, logs that grow. No build step, no library but htmx.
"use strict";
(() => {
  const root = document.documentElement;
  const stored = () => { try { return localStorage.getItem("theme"); } catch { return null; } };
  const isDark = () => (root.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  if (stored()) root.dataset.theme = stored();

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
  const words = (seconds) => {
    seconds = Math.max(0, Math.floor(seconds));
    const parts = [["d", 86400], ["h", 3600], ["m", 60], ["s", 1]];
    const told = [];
    for (const [letter, size] of parts) {
      const count = Math.floor(seconds / size);
      seconds -= count * size;
      if (count) told.push(count + letter);
    }
    return told.slice(0, 2).join("") || "0s";
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
      fetch("/columns", { method: "HEAD", headers: { "X-CSRF-Token": word() } }).then((answer) => {
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
      const answer = await fetch(`/files?name=${encodeURIComponent(file.name)}`, {
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

  // -- keys -----------------------------------------------------------------------------------------
  const PAGES = { b: "/", a: "/agents", p: "/plots" };
  const onKey = (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
    const typing = event.target.matches?.("input, textarea, select");
    if (event.key === "Escape" && !$("dialog[open]")) {
      if (typing) {
        if (event.target.id === "filter" && event.target.value) { event.target.value = ""; event.target.dispatchEvent(new Event("input", { bubbles: true })); }
        event.target.blur();
      } else if (location.pathname !== "/") location.assign("/");
      return;
    }
    if (typing || $("dialog[open]")) return;
    const target = $(`[data-key="${CSS.escape(event.key)}"]`);
    if (target) {
      event.preventDefault();
      if (target.matches("input")) { target.focus(); target.select(); } else target.click();
    } else if (PAGES[event.key]) location.assign(PAGES[event.key]);
  };

  document.addEventListener("DOMContentLoaded", () => {
    behind = Number(document.body.dataset.now) - Date.now() / 1000;
    setInterval(tick, 1000);
    takeFiles();
    const log = $("#log");
    if (log) followLog(log);
    document.addEventListener("keydown", onKey);
    document.addEventListener("click", (event) => {
      const opener = event.target.closest("[data-open]");
      if (opener) $(`#${opener.dataset.open}`)?.showModal();
      if (event.target.closest("[data-close]")) event.target.closest("dialog").close();
      if (event.target.matches("dialog")) event.target.close();
      const line = event.target.closest(".diff button");
      if (line) remark(line);
    });
    $("#theme").addEventListener("click", () => {
      root.dataset.theme = isDark() ? "light" : "dark";
      try { localStorage.setItem("theme", root.dataset.theme); } catch { /* then it lasts as long as the page */ }
    });
    document.body.addEventListener("htmx:afterRequest", (event) => {
      const form = event.target;
      if (!(event.detail.xhr?.status < 400)) return; // htmx calls whatever is swapped a success: a refusal would clear the form
      if (form.matches?.("[data-closes]")) { form.closest("dialog").close(); form.reset(); }
      if (form.matches?.("[data-clears]")) form.reset();
      if (form.matches?.("[data-reloads]")) location.reload();
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
  window.taskpit = { $, say, listen, state };
})();
