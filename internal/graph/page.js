"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const at = (id) => document.getElementById(id);
  const stage = at("stage"), scene = at("scene"), search = at("search"), count = at("count"), details = at("details");
  const nodes = new Map(data.nodes.map((n) => [n.id, n]));
  for (const n of data.nodes) {
    n.element = at(n.id);
    n.box = n.element.getBBox();
    n.edges = [];
    n.copies = [];
    n.text = [n.name, n.kind, n.vhost, ...n.settings.map((s) => s.name + " " + s.value), ...n.findings.map((f) => f.code)].join("\n").toLowerCase();
  }
  for (const copy of document.querySelectorAll("#scene [data-node]")) nodes.get(copy.dataset.node).copies.push(copy);
  const edges = new Map(data.edges.map((e) => [e.id, e]));
  for (const e of data.edges) {
    e.element = at(e.id);
    nodes.get(e.from).edges.push(e);
    if (e.to !== e.from) nodes.get(e.to).edges.push(e);
  }

  // The view: scene coordinates times scale plus shift are pixels.
  let scale = 1, shiftX = 0, shiftY = 0;
  const least = 0.02, most = 6;
  function draw() {
    scene.setAttribute("transform", `translate(${shiftX} ${shiftY}) scale(${scale})`);
  }
  function zoom(factor, x = stage.clientWidth / 2, y = stage.clientHeight / 2) {
    const next = Math.min(most, Math.max(least, scale * factor));
    shiftX = x - (x - shiftX) * next / scale;
    shiftY = y - (y - shiftY) * next / scale;
    scale = next;
    draw();
  }
  function pan(x, y) {
    shiftX += x;
    shiftY += y;
    draw();
  }
  // fit shows everything; with legible it does not shrink below what can be read,
  // and shows the beginning of what does not fit.
  function fit(legible) {
    const w = stage.clientWidth - 32, h = stage.clientHeight - 32;
    let s = Math.min(w / data.width, h / data.height, 1.25);
    if (legible) s = Math.max(s, Math.min(0.8, Math.max(0.68, w / data.width)));
    scale = Math.max(least, s);
    const spareX = w - data.width * scale, spareY = h - data.height * scale;
    shiftX = 16 + Math.max(0, spareX / 2);
    shiftY = 16 + Math.max(0, spareY / 2);
    draw();
  }
  function centre(node) {
    if (scale < 0.8) scale = 1;
    shiftX = stage.clientWidth / 2 - (node.box.x + node.box.width / 2) * scale;
    shiftY = stage.clientHeight / 2 - (node.box.y + node.box.height / 2) * scale;
    draw();
  }
  // reveal moves the view only when a node is not in it.
  function reveal(node) {
    const x = node.box.x * scale + shiftX, y = node.box.y * scale + shiftY;
    const r = x + node.box.width * scale, b = y + node.box.height * scale;
    if (x < 0 || y < 0 || r > stage.clientWidth || b > stage.clientHeight) centre(node);
  }

  // Details of a node or edge. Text is only ever set as text.
  function make(name, text, className) {
    const e = document.createElement(name);
    if (text !== undefined) e.textContent = text;
    if (className) e.className = className;
    return e;
  }
  function addFindings(list) {
    if (!list.length) return;
    details.append(make("h2", "Findings"));
    for (const f of list) details.append(make("p", f.text, f.severity === "info" ? "" : "bad"));
  }
  function addRoutes(title, list, other) {
    if (!list.length) return;
    details.append(make("h2", title));
    const ul = make("ul");
    for (const e of list.slice(0, 200)) {
      const n = nodes.get(other(e)), li = make("li");
      const label = e.labels.length ? ` [${e.labels.join(", ")}]` : "";
      const b = make("button", `${e.title}: ${n.name}${label}`);
      b.addEventListener("click", () => go(n));
      li.append(b);
      ul.append(li);
    }
    details.append(ul);
    if (list.length > 200) details.append(make("p", `and ${list.length - 200} more`, "faint"));
  }
  let pinned = null, near = [];
  function show(thing) {
    details.replaceChildren();
    for (const e of near) e.element.classList.remove("near");
    near = [];
    if (!thing) {
      details.append(make("p", "Point at a node or line, or reach it with Tab: its settings, routes and findings stand here. Click or Enter keeps them.", "faint"));
      return;
    }
    if (thing.settings === undefined) {
      details.append(make("h2", thing.title));
      details.append(make("p", `${nodes.get(thing.from).name} → ${nodes.get(thing.to).name}`));
      for (const l of thing.labels) details.append(make("p", l));
      near = [thing];
      addFindings(thing.findings);
    } else {
      details.append(make("h2", thing.name));
      details.append(make("p", thing.kind + (thing.vhost === "" ? "" : ` in virtual host ${JSON.stringify(thing.vhost)}`), "faint"));
      addFindings(thing.findings);
      const table = make("table");
      for (const s of thing.settings) {
        const row = make("tr");
        row.append(make("th", s.name));
        const cell = make("td", s.value);
        if (s.origin) cell.append(make("br"), make("span", s.origin, "faint"));
        row.append(cell);
        table.append(row);
      }
      details.append(table);
      addRoutes("From here", thing.edges.filter((e) => e.from === thing.id), (e) => e.to);
      addRoutes("To here", thing.edges.filter((e) => e.to === thing.id), (e) => e.from);
      near = thing.edges;
    }
    for (const e of near) e.element.classList.add("near");
  }
  function pin(thing) {
    if (pinned) pinned.element.classList.remove("chosen");
    pinned = thing;
    if (pinned) pinned.element.classList.add("chosen");
    show(pinned);
  }
  function go(node) {
    pin(node);
    centre(node);
    node.element.focus({ preventScroll: true });
  }

  function thingOf(target) {
    const g = target.closest ? target.closest(".node, .edge, .ref") : null;
    if (!g || !scene.contains(g)) return null;
    return nodes.get(g.dataset.node || g.id) || edges.get(g.id);
  }
  scene.addEventListener("pointerover", (ev) => {
    const thing = thingOf(ev.target);
    if (thing && !dragged) show(thing);
  });
  scene.addEventListener("pointerout", (ev) => {
    if (!ev.relatedTarget || !thingOf(ev.relatedTarget)) show(pinned);
  });
  stage.addEventListener("focusin", (ev) => {
    const thing = thingOf(ev.target);
    if (!thing) return;
    reveal(thing);
    show(thing);
  });

  // Search: what matches stands out, the rest steps back.
  let hits = [], current = -1;
  function find() {
    const words = search.value.trim().toLowerCase();
    hits = [];
    current = -1;
    for (const n of data.nodes) {
      const hit = words !== "" && n.text.includes(words);
      n.hit = hit;
      if (hit) hits.push(n);
      for (const e of [n.element, ...n.copies]) {
        e.classList.toggle("hit", hit);
        e.classList.toggle("dim", words !== "" && !hit);
      }
    }
    for (const e of data.edges) {
      e.element.classList.toggle("dim", words !== "" && !nodes.get(e.from).hit && !nodes.get(e.to).hit);
    }
    count.textContent = words === "" ? "" : `${hits.length} of ${data.nodes.length}`;
    // A name comes before a setting that mentions it.
    hits.sort((a, b) => b.name.toLowerCase().includes(words) - a.name.toLowerCase().includes(words));
    if (hits.length) step(1, false);
  }
  function step(by, focus) {
    if (!hits.length) return;
    current = (current + by + hits.length) % hits.length;
    count.textContent = `${current + 1} of ${hits.length}`;
    pin(hits[current]);
    centre(hits[current]);
    if (focus) hits[current].element.focus({ preventScroll: true });
  }
  search.addEventListener("input", find);
  search.addEventListener("keydown", (ev) => {
    if (ev.key === "Enter") {
      step(ev.shiftKey ? -1 : 1, false);
      ev.preventDefault();
    } else if (ev.key === "Escape") {
      search.value = "";
      find();
      pin(null);
      ev.preventDefault();
    }
  });

  // The pointer: drag moves, the wheel zooms (with Shift it moves), two fingers do
  // both.
  const pointers = new Map();
  let dragged = false;
  stage.addEventListener("pointerdown", (ev) => {
    if (ev.button !== 0) return;
    pointers.set(ev.pointerId, { x: ev.clientX, y: ev.clientY });
    dragged = false;
  });
  stage.addEventListener("pointermove", (ev) => {
    const p = pointers.get(ev.pointerId);
    if (!p) return;
    const dx = ev.clientX - p.x, dy = ev.clientY - p.y;
    if (!dragged && Math.hypot(dx, dy) < 4) return;
    if (!dragged) {
      dragged = true;
      stage.classList.add("dragging");
      stage.setPointerCapture(ev.pointerId);
    }
    if (pointers.size === 2) {
      const [other] = [...pointers.entries()].filter(([id]) => id !== ev.pointerId).map(([, q]) => q);
      const before = Math.hypot(p.x - other.x, p.y - other.y), after = Math.hypot(ev.clientX - other.x, ev.clientY - other.y);
      const r = stage.getBoundingClientRect();
      if (before > 0) zoom(after / before, (ev.clientX + other.x) / 2 - r.left, (ev.clientY + other.y) / 2 - r.top);
      pan(dx / 2, dy / 2);
    } else {
      pan(dx, dy);
    }
    p.x = ev.clientX;
    p.y = ev.clientY;
  });
  for (const type of ["pointerup", "pointercancel"]) {
    stage.addEventListener(type, (ev) => {
      pointers.delete(ev.pointerId);
      stage.classList.remove("dragging");
    });
  }
  stage.addEventListener("click", (ev) => {
    if (dragged) {
      dragged = false;
      return;
    }
    const thing = thingOf(ev.target);
    if (thing && ev.target.closest(".ref")) go(thing);
    else pin(thing);
  });
  stage.addEventListener("wheel", (ev) => {
    ev.preventDefault();
    const unit = ev.deltaMode === 1 ? 16 : ev.deltaMode === 2 ? stage.clientHeight : 1;
    if (ev.shiftKey) {
      pan(-(ev.deltaX || ev.deltaY) * unit, ev.deltaX ? -ev.deltaY * unit : 0);
      return;
    }
    const r = stage.getBoundingClientRect();
    zoom(Math.exp(-ev.deltaY * unit / 500), ev.clientX - r.left, ev.clientY - r.top);
  }, { passive: false });

  // The keyboard: arrows go to the next node when one has the focus, else they
  // move the view.
  function neighbour(from, key) {
    const horizontal = key === "ArrowLeft" || key === "ArrowRight";
    const sign = key === "ArrowRight" || key === "ArrowDown" ? 1 : -1;
    const middle = (n) => [n.box.x + n.box.width / 2, n.box.y + n.box.height / 2];
    const [fx, fy] = middle(from);
    let best = null, least = Infinity;
    for (const n of data.nodes) {
      const [x, y] = middle(n);
      const along = (horizontal ? x - fx : y - fy) * sign, aside = Math.abs(horizontal ? y - fy : x - fx);
      if (n === from || along <= 1) continue;
      const distance = along + 3 * aside;
      if (distance < least) {
        least = distance;
        best = n;
      }
    }
    return best;
  }
  document.addEventListener("keydown", (ev) => {
    if (ev.ctrlKey || ev.metaKey || ev.altKey) return;
    if (ev.target === search) return;
    const node = thingOf(ev.target);
    const page = stage.clientHeight * 0.8;
    const moves = { ArrowLeft: [80, 0], ArrowRight: [-80, 0], ArrowUp: [0, 80], ArrowDown: [0, -80], PageUp: [0, page], PageDown: [0, -page] };
    if (ev.key === "/") search.focus();
    else if (ev.key === "+" || ev.key === "=") zoom(1.25);
    else if (ev.key === "-") zoom(0.8);
    else if (ev.key === "0") fit(false);
    else if (ev.key === "Escape") pin(null);
    else if (node && (ev.key === "Enter" || ev.key === " ")) pin(node);
    else if (node && ev.key.startsWith("Arrow")) {
      const next = neighbour(node, ev.key);
      if (next) next.element.focus({ preventScroll: true });
    } else if (moves[ev.key] && (ev.target === document.body || stage.contains(ev.target))) pan(...moves[ev.key]);
    else return;
    ev.preventDefault();
  });

  at("closer").addEventListener("click", () => zoom(1.25));
  at("farther").addEventListener("click", () => zoom(0.8));
  at("all").addEventListener("click", () => fit(false));
  for (const b of document.querySelectorAll("button[data-id]")) {
    const thing = nodes.get(b.dataset.id) || edges.get(b.dataset.id);
    b.addEventListener("click", () => {
      if (thing.settings === undefined) {
        pin(thing);
        centre(nodes.get(thing.from));
      } else go(thing);
    });
  }
  show(null);
  fit(true);
  document.documentElement.dataset.ready = "true";
})();
