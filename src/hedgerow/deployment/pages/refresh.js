"use strict";
(() => {
  const body = document.body, link = document.getElementById("link"), shown = {};
  const say = (text) => { if (link.textContent !== text) link.textContent = text; };
  const put = (parts) => {
    for (const [id, html] of Object.entries(parts)) {
      const place = document.getElementById(id);
      if (place && shown[id] !== html) { place.innerHTML = html; shown[id] = html; }
    }
    say("This page is live.");
  };
  const lost = () => say("No connection. This page may be out of date. Trying again.");
  if (body.dataset.events) {
    const source = new EventSource(body.dataset.events);
    source.onmessage = (event) => put(JSON.parse(event.data));
    source.onerror = lost;
  } else if (body.dataset.poll) {
    const look = async () => {
      try {
        const reply = await fetch(body.dataset.poll, { cache: "no-store" });
        if (!reply.ok) { throw new Error(reply.status); }
        put(await reply.json());
      } catch { lost(); }
      setTimeout(look, 2000);
    };
    look();
  }
})();
