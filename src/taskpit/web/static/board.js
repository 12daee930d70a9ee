// The board: columns that follow what the server tells. The server sorts by a place; so do we.
"use strict";
(() => {
  const { $, listen, state, home } = window.taskpit;
  const KEPT = 250, LEFT = 120; // a column longer than this is cut; what is cut comes back when one scrolls there
  const calm = matchMedia("(prefers-reduced-motion: reduce)");
  const board = () => $("#board");
  const filter = $("#filter");
  let place = board().dataset.place;

  const compare = (one, other) => {
    for (let at = 0; at < Math.min(one.length, other.length); at += 1) {
      if (one[at] !== other[at]) return one[at] < other[at] ? -1 : 1;
    }
    return one.length - other.length;
  };
  const placeOf = (card) => (card.place ??= JSON.parse(card.dataset.place));
  const list = (column) => $(`ol[data-column="${column}"]`);
  const find = (id) => { // what was read before and arrived after it moved may lie here a second time
    const [first, ...others] = document.querySelectorAll(`#${CSS.escape(`t-${id}`)}`);
    others.forEach((one) => one.remove());
    return first;
  };
  const wanted = (text) => filter.value.toLowerCase().split(/\s+/).every((word) => text.includes(word));

  const put = (card, column) => {
    const into = list(column), more = $(".more", into), at = placeOf(card);
    if (more && compare(at, JSON.parse(more.dataset.after)) > 0) { card.remove(); return false; }
    let low = 0, high = into.children.length - (more ? 1 : 0);
    while (low < high) {
      const middle = (low + high) >> 1;
      const other = into.children[middle];
      if (other !== card && compare(placeOf(other), at) < 0) low = middle + 1; else high = middle;
    }
    into.insertBefore(card, into.children[low] || null);
    return true;
  };

  const writing = (card) => card.contains(document.activeElement) && document.activeElement.value;

  const lay = (told) => {
    const old = find(told.id);
    const from = old?.parentElement?.dataset.column;
    if (!wanted(told.text)) { old?.remove(); return null; }
    if (old && from === told.column && writing(old)) return null; // nobody's words are lost under their hands
    const box = old?.getBoundingClientRect();
    const focused = old?.contains(document.activeElement);
    const holder = document.createElement("template");
    holder.innerHTML = told.html;
    const card = holder.content.firstElementChild;
    old?.remove();
    if (!put(card, told.column)) return null;
    htmx.process(card);
    if (focused) $("a.title", card).focus({ preventScroll: true });
    return { card, box, moved: from !== told.column, fresh: !old };
  };

  const move = ({ card, box, moved, fresh }) => {
    if (!moved) return;
    const now = card.getBoundingClientRect();
    const seen = (one) => one && one.bottom > 0 && one.top < innerHeight && one.right > 0 && one.left < innerWidth;
    if (!seen(now)) return;
    const frames = seen(box)
      ? [{ transform: `translate(${box.left - now.left}px, ${box.top - now.top}px)`, zIndex: 5 }, { transform: "none", zIndex: 5 }]
      : [{ opacity: 0, transform: "translateY(-6px)" }, { opacity: 1, transform: "none" }];
    if (seen(box)) card.closest(".column").classList.add("lands");
    card.animate(frames, { duration: fresh ? 220 : 360, easing: "cubic-bezier(.2,.7,.2,1)" }).finished
      .catch(() => {}).finally(() => card.closest(".column")?.classList.remove("lands"));
  };

  const trim = (into) => {
    if (into.children.length <= KEPT || into.scrollTop > 600) return;
    const more = $(".more", into) || Object.assign(document.createElement("li"), { className: "more" });
    while (into.children.length > LEFT) into.lastElementChild.remove();
    more.dataset.after = into.lastElementChild.dataset.place;
    const query = new URLSearchParams({ after: more.dataset.after, q: filter.value });
    more.setAttribute("hx-get", `${home()}column/${into.dataset.column}?${query}`);
    more.setAttribute("hx-trigger", "intersect");
    more.setAttribute("hx-swap", "outerHTML");
    if (!more.firstChild) more.textContent = "…";
    into.append(more);
    htmx.process(more);
  };

  const count = (counts) => {
    for (const [column, number] of Object.entries(counts)) {
      for (const one of document.querySelectorAll(`[data-count="${column}"]`)) {
        if (one.textContent !== String(number)) one.textContent = number;
        one.dataset.n = number;
      }
    }
  };

  // -- what the tab says, and what the address says: a filter survives Back, and can be sent to somebody ----
  const name = document.title.replace(/^\(\d+\) /, "");
  const entitle = (needs) => { document.title = Number(needs) ? `(${needs}) ${name}` : name; };
  const address = () => {
    const words = filter.value.trim();
    history.replaceState(null, "", words ? `${home()}?${new URLSearchParams({ q: words })}` : home());
  };
  filter.addEventListener("input", address);
  document.addEventListener("click", (event) => { // a tag filters the board
    const tag = event.target.closest("#board a.tag");
    if (!tag || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    filter.value = tag.dataset.tag;
    address();
    refresh();
  });

  const notice = (text) => {
    $("#notice").textContent = text;
    $("#notice").hidden = !text;
  };

  let recent = []; // what was told lately, for columns that were read before and arrive after it
  const number = (at) => Number(at.split("-").pop());
  const hear = (event) => {
    place = event.lastEventId || place;
    const told = JSON.parse(event.data);
    recent = [...recent.slice(-99), { at: number(place), told }];
    show(told);
  };
  const anew = (event) => {
    place = event.lastEventId || place;
    recent = [];
    refresh();
  };
  const refresh = () => filter.dispatchEvent(new CustomEvent("refresh"));

  const show = (told) => {
    count(told.counts);
    entitle(told.counts.needs_you);
    notice(told.trouble || told.paused);
    if (told.anew) { refresh(); return; }
    for (const id of told.gone || []) find(id)?.remove();
    const laid = (told.set || []).map(lay).filter(Boolean);
    if (laid.length && laid.length <= 24 && !calm.matches) laid.forEach(move);
    document.querySelectorAll("#board ol").forEach(trim);
    announce(laid);
  };

  let unsaid = [], timer = 0;
  const announce = (laid) => { // what moves is said, but not a hundred times a second
    unsaid.push(...laid.filter((one) => one.moved).map(({ card }) => `${card.dataset.id} ${$("h2", card.closest(".column")).firstChild.nextSibling.data.trim()}`));
    if (timer || !unsaid.length) return;
    timer = setTimeout(() => {
      $("#said").textContent = unsaid.length > 5 ? `${unsaid.length} tasks moved` : unsaid.join(", ");
      unsaid = [];
      timer = 0;
    }, 1500);
  };

  // -- from card to card ----------------------------------------------------------------------------
  const WAYS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1], h: [-1, 0], l: [1, 0], k: [0, -1], j: [0, 1] };
  const walk = (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !WAYS[event.key]) return;
    if (event.target.matches("input, textarea, select") || $("dialog[open]")) return;
    const [aside, down] = WAYS[event.key];
    const columns = [...document.querySelectorAll("#board ol")];
    const card = document.activeElement.closest?.(".card");
    event.preventDefault();
    if (!card) { $("#board .card a.title")?.focus(); return; }
    const cards = (into) => [...into.querySelectorAll(".card")];
    const row = cards(card.parentElement).indexOf(card);
    let at = columns.indexOf(card.parentElement);
    if (down) { cards(columns[at])[row + down]?.querySelector("a.title").focus(); return; }
    do { at += aside; } while (columns[at] && !cards(columns[at]).length);
    const there = columns[at] && cards(columns[at]);
    there?.[Math.min(row, there.length - 1)].querySelector("a.title").focus();
  };
  document.addEventListener("keydown", walk);

  // -- a card that is dragged to a column: the server has said where each may go, and what that does -----
  let dragged = null; // its id, and what each column does to it
  const ways = (card) => Object.fromEntries(card.dataset.moves.split(" ").filter(Boolean).map((one) => one.split(":")));
  const takes = (event) => dragged && event.target.closest?.(".column.takes");
  const act = (id, verb, text = "") => htmx.ajax("POST", `${home()}task/${encodeURIComponent(id)}/${verb}`, { source: "#board", target: "#toasts", swap: "beforeend", values: { text } });
  const laidDown = () => {
    dragged = null;
    document.querySelectorAll(".column.takes").forEach((one) => one.classList.remove("takes", "over"));
  };
  document.addEventListener("dragstart", (event) => {
    const card = event.target.closest?.(".card[data-moves]");
    if (!card) return;
    dragged = { id: card.dataset.id, ways: ways(card) };
    event.dataTransfer.effectAllowed = "move";
    event.dataTransfer.setData("text/plain", dragged.id);
    setTimeout(() => { // what moves under the hand at once ends the drag
      for (const [to, verb] of Object.entries(dragged?.ways || {})) {
        $(`#c-${to}`).classList.add("takes");
        $(`#h-${to}`).dataset.does = `drop to ${verb}`;
      }
    });
  });
  document.addEventListener("dragover", (event) => {
    const column = takes(event);
    document.querySelectorAll(".column.over").forEach((one) => one.classList.toggle("over", one === column));
    if (!column) return;
    column.classList.add("over");
    event.preventDefault();
  });
  document.addEventListener("drop", (event) => {
    const column = takes(event);
    if (!column) return;
    event.preventDefault();
    const { id, ways: { [column.id.slice(2)]: verb } } = dragged;
    laidDown();
    if (verb !== "block") { act(id, verb); return; }
    const dialog = $("#why"), form = $("form", dialog);
    form.reset();
    form.onsubmit = () => { act(id, verb, form.text.value); };
    dialog.showModal();
  });
  document.addEventListener("dragend", laidDown);

  document.body.addEventListener("htmx:afterOnLoad", (event) => {
    const read = event.detail.xhr.getResponseHeader("X-Place");
    if (event.detail.target?.id === "board") {
      notice(board().dataset.notice);
      count(Object.fromEntries([...board().querySelectorAll("[data-count]")].map((one) => [one.dataset.count, one.textContent])));
    }
    if (read) recent.filter((one) => one.at > number(read) && !one.told.anew).forEach((one) => show(one.told));
  });
  listen(() => `${home()}events?after=${encodeURIComponent(place)}`, { board: hear, anew }, state);
})();
