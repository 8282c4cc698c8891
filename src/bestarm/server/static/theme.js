// Light or dark: as the system says, or as was chosen here. Loaded first, so that nothing flashes.
"use strict";
(function () {
  const root = document.documentElement;
  root.dataset.scripted = ""; // what only scripts bring to life is shown
  const kept = () => { try { return localStorage.getItem("bestarm-theme"); } catch { return null; } };
  const known = kept();
  if (known === "light" || known === "dark") root.dataset.theme = known;
  document.addEventListener("DOMContentLoaded", () => {
    document.getElementById("theme").addEventListener("click", () => {
      const dark = matchMedia("(prefers-color-scheme: dark)").matches;
      const now = root.dataset.theme || (dark ? "dark" : "light");
      root.dataset.theme = now === "dark" ? "light" : "dark";
      try { localStorage.setItem("bestarm-theme", root.dataset.theme); } catch { /* not kept then */ }
      document.dispatchEvent(new Event("bestarm-theme"));
    });
    localTimes(document);
  });
  // Times are written in UTC by the server; here they are shown as this place has them.
  window.localTimes = function (where) {
    const shown = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });
    for (const each of where.querySelectorAll("time[datetime]:not([title])")) {
      const at = new Date(each.dateTime);
      if (Number.isNaN(at.getTime())) continue;
      each.title = each.textContent;
      each.textContent = shown.format(at);
    }
  };
  window.bestarmToken = {
    read: () => { try { return sessionStorage.getItem("bestarm-token") || ""; } catch { return ""; } },
    keep: (token) => { try { sessionStorage.setItem("bestarm-token", token); } catch { /* asked again then */ } },
    drop: () => { try { sessionStorage.removeItem("bestarm-token"); } catch { /* nothing was kept */ } },
  };
  // Sends JSON, or nothing, with an access token.
  window.bestarmPost = (path, token, body, signal, method = "POST") => fetch(path, {
    method,
    headers: { Authorization: `Bearer ${token}`, ...(body ? { "Content-Type": "application/json" } : {}) },
    body: body && JSON.stringify(body),
    signal,
  });
  // One sentence for people from whatever a server answered.
  window.bestarmWrong = async function (answer) {
    try {
      const { detail, remedy } = await answer.json();
      return [detail, remedy].filter(Boolean).join(" ");
    } catch {
      return `The server answered ${answer.status}.`;
    }
  };
})();
