// The door of every page. A session has two halves: a cookie, which a browser sends to every port of this machine, and
// a word, which it keeps for this origin alone. A page is handed out only for both; the cookie by itself opens nothing.
"use strict";
(async () => {
  const KEY = "taskpit-word";
  const given = new URLSearchParams(location.hash.slice(1)).get("word");
  let word = given;
  try {
    if (given) localStorage.setItem(KEY, given);
    else word = localStorage.getItem(KEY);
  } catch { /* then it lasts as long as this page */ }
  if (given) history.replaceState(null, "", location.pathname + location.search);
  const answer = word && await fetch(location.href, { headers: { Accept: "text/html", "X-CSRF-Token": word } });
  if (!answer || answer.status === 401) { document.getElementById("told").hidden = false; return; }
  if (answer.redirected) history.replaceState(null, "", answer.url);
  const text = await answer.text();
  if ((answer.headers.get("Content-Type") || "").startsWith("text/html")) {
    document.open();
    document.write(text);
    document.close();
  } else {
    document.body.replaceChildren(Object.assign(document.createElement("pre"), { textContent: text }));
  }
})();
