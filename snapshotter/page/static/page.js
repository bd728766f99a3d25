/* The page: what the engine says about once a second, drawn; and what a person decides, sent as a signal.

   One way to draw: `draw(view)`, whatever the view comes from: the engine now, or a recording at some moment. All that
   comes from data is put in as text, never as HTML. Elements of lists are kept from one view to the next, so that the
   keyboard's focus stays where it is. */

"use strict";

(() => {
  // Words

  const numbers = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
  const count = (n) => (n === null || n === undefined ? "–" : numbers.format(n));
  const clock = (at) => new Date(at).toLocaleTimeString("en-GB");
  const day = (at) => new Date(at).toLocaleDateString("en-GB", { day: "numeric", month: "short" });
  const moment = (at, now) => (day(at) === day(now) ? clock(at) : `${day(at)}, ${clock(at)}`);

  function rate(n) {
    return n === null || n === undefined ? "–" : n > 0 && n < 10 ? n.toFixed(1) : count(n);
  }

  function lasting(seconds) {
    if (seconds === null || seconds === undefined) return "–";
    if (seconds < 10) return `${Number.isInteger(seconds) ? seconds : seconds.toFixed(1)} s`;
    if (seconds < 60) return `${Math.round(seconds)} s`;
    const s = Math.round(seconds);
    if (s < 3600) return `${Math.floor(s / 60)} min ${String(s % 60).padStart(2, "0")} s`;
    if (s < 86400) return `${Math.floor(s / 3600)} h ${String(Math.floor((s % 3600) / 60)).padStart(2, "0")} min`;
    return `${(s / 86400).toFixed(1)} days`;
  }

  function size(bytes) {
    for (const unit of ["B", "kB", "MB", "GB"]) {
      if (bytes < 1000) return `${bytes.toFixed(unit === "B" ? 0 : 1)} ${unit}`;
      bytes /= 1000;
    }
    return `${bytes.toFixed(1)} TB`;
  }

  // Elements

  const $ = (id) => document.getElementById(id);

  function put(element, text) {
    const said = text ?? "";
    if (element.textContent !== said) element.textContent = said;
    return element;
  }

  function tone(element, name) {
    if (element.dataset.tone !== name) element.dataset.tone = name;
    return element;
  }

  function make(tag, className, ...inner) {
    const element = document.createElement(tag);
    if (className) element.className = className;
    element.append(...inner);
    return element;
  }

  /* The children of `list` become those of `items`, in their order: made once for each key, and then updated. */
  function keyed(list, items, key, create, update) {
    const there = new Map([...list.children].map((child) => [child.dataset.key, child]));
    const seen = new Map();
    let place = list.firstElementChild;
    for (const item of items) {
      const said = String(key(item));
      const times = seen.get(said) ?? 0;
      seen.set(said, times + 1);
      // One key may come twice: a refused signal may have the id of a request.
      const name = times ? `${said}\n${times}` : said;
      let child = there.get(name);
      there.delete(name);
      if (!child) {
        child = create(item);
        child.dataset.key = name;
      }
      update(child, item);
      if (child === place) place = place.nextElementSibling;
      else list.insertBefore(child, place);
    }
    for (const gone of there.values()) gone.remove();
  }

  /* Labelled figures, those without a value left out. */
  function stats(list, pairs) {
    const shown = pairs.filter(([, value]) => value !== null && value !== undefined);
    const create = () => make("div", "", make("dt"), make("dd"));
    keyed(list, shown, ([name]) => name, create, (div, [name, value]) => {
      put(div.firstChild, name);
      put(div.lastChild, value);
    });
  }

  const TONES = {
    running: "busy", queued: "quiet", paused: "warn", suspended: "bad", completed: "good", stopped: "quiet", failed: "bad",
    rejected: "bad", streaming: "good", starting: "busy", stopping: "quiet",
  };

  // What is drawn

  let view = null; // the newest one that was drawn

  function draw(next) {
    view = next;
    const model = view.model;
    if (!model) return;
    drawHead(model);
    drawTiles(model);
    drawStrip(view);
    drawWindows(view);
    drawCollections(model);
    drawRequests(model);
    drawNotes(model);
  }

  function drawHead(model) {
    const engine = model.engine;
    put($("name"), engine.name);
    document.title = `${engine.name} · snapshotter`;
    tone(put($("state"), engine.word), engine.tone);
    tone($("verdict"), engine.tone);
    put($("headline"), engine.headline);
    put($("next"), engine.next).hidden = !engine.next;
    $("do-snapshot").hidden = !model.can.includes("execute-snapshot");
    $("do-restart").hidden = !model.can.includes("restart");
    const paused = model.stream.paused;
    $("do-stream").hidden = !model.can.includes(paused ? "resume-stream" : "pause-stream");
    put($("do-stream"), paused ? "Resume stream" : "Pause stream");
    drawFresh();
  }

  function drawFresh() {
    if (!view || !view.model) return;
    if (replay) put($("fresh"), `replay · ${moment(view.at, Date.now())}`);
    else put($("fresh"), `updated ${lasting(Math.max(0, Math.round((view.at - view.model.engine.updated_at) / 1000)))} ago`);
  }

  function drawTiles(model) {
    const { stream, reading, runway } = model;
    put($("lag"), lasting(stream.lag_seconds));
    put($("lag-more"), stream.position_at ? `all landed up to ${clock(stream.position_at)}` : "no batch yet");
    put($("changes"), rate(stream.events_per_second));
    put($("changes-more"), `${count(stream.events_total)} since the start`);
    put($("rows"), reading.collections ? count(reading.rows_per_second) : "–");
    const left = reading.eta_seconds === null ? "" : `, ${lasting(reading.eta_seconds)} left`;
    const reads = `${reading.collections} collection${reading.collections === 1 ? "" : "s"}${left}`;
    put($("rows-more"), reading.collections ? reads : "nothing is read");
    const hours = runway ? runway.hours : null;
    put($("runway"), runway && runway.lost ? "lost" : hours === null ? "–" : lasting(3600 * hours));
    $("runway").className = runway && runway.lost ? "bad" : hours !== null && hours < 24 ? "warn" : "";
    const until = runway && runway.until ? `held until ${moment(runway.until, view.at).slice(0, -3)}` : "";
    put($("runway-more"), until || (runway && runway.lost ? "the oplog no longer holds the position" : "not known yet"));
  }

  function drawCollections(model) {
    $("collections-none").hidden = model.collections.length > 0;
    const create = () => {
      const state = make("span", "pill");
      const bar = make("progress");
      bar.max = 1;
      return make("li", "", make("div", "line", make("span", "title"), state, make("span", "dim")),
        make("div", "progress", bar, make("span", "share")), make("dl", "stats"));
    };
    keyed($("collections"), model.collections, (c) => c.name, create, (item, c) => {
      const [line, progress, figures] = item.children;
      put(line.children[0], c.name);
      tone(put(line.children[1], c.state), TONES[c.state] ?? "quiet");
      const under = c.state !== "streaming";
      put(line.children[2], under && c.request ? `by ${c.request}` : "");
      progress.hidden = !under || c.share === null;
      progress.firstChild.value = c.share ?? 0;
      progress.firstChild.setAttribute("aria-label", `How much of ${c.name} has been read`);
      put(progress.lastChild, c.share === null ? "" : `${Math.floor(100 * c.share)} %`);
      const running = c.state === "running";
      stats(figures, !c.request ? [] : [
        [under ? "Read" : "Last read", c.total && under ? `${count(c.read)} of ${count(Math.max(c.total, c.read))}` : count(c.read)],
        ["Rows/s", running ? count(c.rows_per_second) : null],
        ["Left", running ? lasting(c.eta_seconds) : null],
        ["Windows", count(c.windows)],
        ["Superseded", count(c.superseded)],
      ]);
    });
    more($("collections"), model.collections_more, "more collections");
  }

  function drawRequests(model) {
    $("requests-none").hidden = model.requests.length > 0;
    keyed($("requests"), model.requests, (r) => r.id, createRequest, updateRequest);
    more($("requests"), model.requests_more, "older snapshots");
  }

  const DECISIONS = { "pause-snapshot": "Pause", "resume-snapshot": "Resume", "stop-snapshot": "Stop" };

  function createRequest() {
    const line = make("div", "line", make("span", "title id"), make("span", "pill"), make("span", "dim"), make("div", "acts"));
    const fold = make("details", "fold", make("summary", ""), make("div"));
    put(fold.firstChild, "Report");
    return make("li", "", line, make("p", "error"), make("p", "step"), fold);
  }

  function updateRequest(item, r) {
    const [line, error, step, fold] = item.children;
    const [name, state, about, acts] = line.children;
    put(name, r.id);
    const rejected = r.state === "rejected";
    tone(put(state, r.state), TONES[r.state] ?? "quiet");
    const words = [rejected ? "" : r.type, r.priority ? `priority ${r.priority}` : ""];
    if (r.accepted_at) words.push(`asked ${moment(r.accepted_at, view.at)}`);
    if (r.took_seconds !== null) words.push(`took ${lasting(r.took_seconds)}`);
    put(about, words.filter(Boolean).join(" · "));
    const create = () => make("button", "plain small");
    keyed(acts, r.can, (kind) => kind, create, (button, kind) => {
      button.type = "button";
      put(button, DECISIONS[kind]);
      button.setAttribute("aria-label", `${DECISIONS[kind]} ${r.id}`);
      button.onclick = () => decide(kind, r.id);
    });
    put(error, r.error).hidden = !r.error;
    put(step, r.next).hidden = !r.next;
    fold.hidden = !r.collections.length && !r.unknown.length;
    report(fold.lastChild, r);
  }

  function report(box, r) {
    const parts = r.collections.map((c) => ({ key: c.name, title: `${c.name}: ${c.state}`, pairs: [
      ["Read", count(c.read)], ["Landed", count(c.landed)], ["Superseded", count(c.superseded)], ["Inserted", count(c.inserted)],
      ["Changed", count(c.changed)], ["Unchanged", count(c.unchanged)], ["Deleted", count(c.deleted)], ["Windows", count(c.windows)],
    ] }));
    if (r.collections_more) parts.push({ key: "/more", title: `and ${r.collections_more} more`, pairs: [] });
    if (r.unknown.length) parts.push({ key: "/unknown", title: `left out, no captured collection: ${r.unknown.join(", ")}`, pairs: [] });
    const create = () => make("div", "report", make("p"), make("dl", "stats"));
    keyed(box, parts, (part) => part.key, create, (div, part) => {
      put(div.firstChild, part.title);
      stats(div.lastChild, part.pairs);
    });
  }

  function drawNotes(model) {
    const engine = model.engine;
    const notes = model.notes.filter((note) => note.text !== engine.headline);
    const last = model.last_error;
    if (model.error) notes.unshift(ofError(model.error, "bad", "Error"));
    if (last) notes.push(ofError(last, "quiet", "Last error"));
    $("notes-card").hidden = notes.length === 0;
    const create = () => make("li", "note", make("p", "text"), make("p", "step"));
    keyed($("notes"), notes, (note) => note.text, create, (item, note) => {
      tone(item, note.tone);
      put(item.firstChild, note.text);
      put(item.lastChild, note.next).hidden = !note.next;
    });
  }

  function ofError(error, how, name) {
    const kind = error.class ? ` (${error.class}: ${error.condition})` : "";
    return { tone: how, text: `${name} at ${moment(error.at, view.at)}${kind}: ${error.message}`, next: error.next };
  }

  function more(list, left, what) {
    if (left) keyedTail(list, `and ${count(left)} ${what}`);
  }

  function keyedTail(list, text) {
    const item = make("li", "dim");
    item.dataset.key = "/more";
    list.append(put(item, text));
  }

  // The strip of windows

  const SVG = "http://www.w3.org/2000/svg";
  const TOP = 6, LANE = 17, BAR = 13, CURVE = 42, FOOT = 16;
  const lanes = new Map(); // of a window, so that it stays where it is
  let used = 3; // as many as there have been at once, so that what is below stays where it is

  function shape(tag, className, attributes, text) {
    const element = document.createElementNS(SVG, tag);
    element.setAttribute("class", className);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    if (text !== undefined) element.textContent = text;
    return element;
  }

  function drawStrip({ at, windows, samples }) {
    const svg = $("strip"), width = Math.round(svg.getBoundingClientRect().width) || 600;
    const span = width < 560 ? 60_000 : 120_000, from = at - span;
    const x = (t) => Math.min(width, Math.max(0, ((t - from) / span) * width));
    const shown = windows.filter((w) => (w.landed ?? at) >= from);
    const most = width < 560 ? 6 : 8;
    const laid = layOut(shown, at, most);
    used = Math.min(most, laid.reduce((deepest, [, lane]) => Math.max(deepest, lane + 1), used));
    const deep = TOP + used * LANE + 4, height = deep + 2 * (CURVE + 16) + FOOT;
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    svg.style.height = `${height}px`;
    const parts = [];
    for (let back = 0; back <= span; back += span / 4) {
      const line = Math.min(width - 0.5, Math.max(0.5, x(at - back)));
      parts.push(shape("line", "grid", { x1: line, x2: line, y1: 0, y2: height - FOOT }));
      const anchor = back === 0 ? "end" : back === span ? "start" : "middle";
      const text = back === 0 ? clock(at) : `−${back / 1000} s`;
      parts.push(shape("text", "", { x: line, y: height - 3, "text-anchor": anchor }, text));
    }
    for (const [w, lane] of laid) parts.push(bar(w, TOP + lane * LANE, x, at));
    parts.push(...curves(samples, { deep, width, x, from, at }));
    svg.replaceChildren(...parts);
    const flying = shown.filter((w) => w.landed === null).length;
    const superseded = shown.reduce((sum, w) => sum + (w.superseded ?? 0), 0);
    const landed = shown.length - flying;
    const said = `${flying} in flight, ${landed} landed in ${span / 1000} s, ${count(superseded)} READs superseded`;
    put($("windows-said"), shown.length ? said : `none in the last ${span / 1000} s`);
    svg.setAttribute("aria-label", `Windows of the last ${span / 1000} seconds: ${said}`);
  }

  function layOut(windows, at, most) {
    const ends = new Array(most).fill(-Infinity), laid = [];
    const known = new Set(windows.map((w) => w.id));
    for (const id of lanes.keys()) if (!known.has(id)) lanes.delete(id);
    const order = [...windows].sort((a, b) => a.low - b.low);
    for (const w of order) {
      const kept = lanes.get(w.id);
      const free = ends.findIndex((end) => end <= w.low);
      const lane = kept !== undefined && ends[kept] <= w.low ? kept : free;
      if (lane < 0) continue; // more at once than there is room for
      lanes.set(w.id, lane);
      ends[lane] = w.landed ?? at;
      laid.push([w, lane]);
    }
    return laid;
  }

  function bar(w, y, x, at) {
    const low = x(w.low), read = x(w.read ?? at), end = x(w.landed ?? at);
    const group = shape("g", "window", { "data-id": w.id });
    const wide = (a, b) => Math.max(1.5, b - a);
    group.append(shape("title", "", {}, told(w, at)));
    if (w.read !== null) group.append(shape("rect", "waiting", { x: read, y, width: wide(read, end), height: BAR, rx: 2 }));
    group.append(shape("rect", "reading", { x: low, y, width: wide(low, read), height: BAR, rx: 2 }));
    if (w.landed !== null) group.append(shape("rect", "landed", { x: end - 1.5, y: y - 1, width: 3, height: BAR + 2, rx: 1 }));
    const where = read - low > 30 ? [low, ""] : end - read > 30 ? [read, " over"] : null;
    if (where) group.append(shape("text", `number${where[1]}`, { x: where[0] + 5, y: y + BAR - 3 }, String(w.number)));
    if (w.superseded) group.append(shape("circle", "superseded", { cx: end - 8, cy: y + BAR / 2, r: 3.5 }));
    return group;
  }

  function told(w, at) {
    const name = `window ${w.number} of ${w.collection}`;
    if (w.landed === null) return `${name}: ${stateOf(w)}, open for ${lasting((at - w.low) / 1000)}`;
    const gone = w.deleted ? `, ${count(w.deleted)} rows missing at source` : "";
    return `${name}: ${count(w.rows)} rows landed, ${count(w.superseded)} READs superseded${gone}, open for ${lasting((w.landed - w.low) / 1000)}`;
  }

  const stateOf = (w) => (w.landed !== null ? "landed" : w.high !== null ? "closing" : w.read !== null ? "read" : "open");

  function curves(samples, { deep, width, x, from, at }) {
    const shown = samples.filter((s) => s[0] >= from - 2000 && s[0] <= at);
    const last = shown.at(-1), parts = [];
    const curve = (top, name, shownAs, value, most, draw) => {
      const base = top + 14 + CURVE;
      parts.push(shape("line", "grid", { x1: 0, x2: width, y1: base + 0.5, y2: base + 0.5 }));
      draw((v) => base - (most ? Math.max(0, v / most) * (CURVE - 4) : 0), base);
      parts.push(shape("text", "name", { x: 2, y: top + 11 }, `${name} ${shownAs(value)}`));
      parts.push(shape("text", "", { x: width - 2, y: top + 11, "text-anchor": "end" }, most ? `at most ${shownAs(most)}` : ""));
    };
    const rates = Math.max(0, ...shown.map((s) => s[2]));
    curve(deep + 2, "changes/s", rate, last?.[2], rates, (y, base) => {
      for (const [i, [t, , v]] of shown.entries()) {
        const until = i + 1 < shown.length ? shown[i + 1][0] : at;
        const a = x(t), b = x(Math.min(until, t + 3000));
        parts.push(shape("rect", "changes", { x: a, y: y(v), width: Math.max(0.5, b - a - 0.5), height: base - y(v) }));
      }
    });
    const lags = shown.filter((s) => s[1] !== null);
    const late = Math.max(0, ...lags.map((s) => s[1]));
    curve(deep + 2 + CURVE + 16, "lag", lasting, last?.[1], Math.max(late, 1), (y) => {
      const points = lags.map((s) => `${x(s[0]).toFixed(1)},${y(s[1]).toFixed(1)}`).join(" ");
      parts.push(shape("polyline", "lag", { points }));
    });
    return parts;
  }

  function drawWindows({ at, windows }) {
    if (!$("windows").closest("details").open) return;
    const newest = [...windows].sort((a, b) => (b.landed ?? Infinity) - (a.landed ?? Infinity) || b.low - a.low).slice(0, 20);
    const create = () => make("tr", "", ...["", "", "", "n", "n", "n"].map((name) => make("td", name)));
    keyed($("windows"), newest, (w) => w.id, create, (row, w) => {
      const cells = [w.number, w.collection, stateOf(w), count(w.rows), count(w.superseded), lasting(((w.landed ?? at) - w.low) / 1000)];
      cells.forEach((text, i) => put(row.children[i], String(text)));
    });
  }

  // A recording, replayed at its own pace

  let replay = null; // {recording, at, speed, playing, last}

  function begin(recording) {
    const problem = unfit(recording);
    if (problem) return say(problem, "bad");
    const frames = recording.frames;
    replay = { recording, at: frames[0].at, speed: Number($("speed").value), playing: true, last: performance.now() };
    lanes.clear();
    document.body.dataset.mode = "replay";
    $("player").hidden = false;
    $("lost").hidden = true;
    document.body.classList.remove("is-lost");
    requestAnimationFrame(step);
    drawReplay();
    return undefined;
  }

  function unfit(recording) {
    const whole = recording && recording.format === 1 && Array.isArray(recording.frames) && Array.isArray(recording.windows);
    if (!whole) return "This is no recording of an engine's page";
    return recording.frames.length ? null : "Nothing has been recorded yet: try again in a few seconds";
  }

  function end() {
    replay = null;
    lanes.clear();
    document.body.dataset.mode = "live";
    $("player").hidden = true;
    if (latest) draw(latest);
  }

  const finish = ({ frames, windows }) => Math.max(frames.at(-1).at, ...windows.map((w) => w.landed)) + 500;

  function viewAt({ frames, windows }, at) {
    let low = 0, high = frames.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (frames[middle].at <= at) low = middle;
      else high = middle - 1;
    }
    const past = (t) => (t !== null && t <= at ? t : null);
    const open = windows.filter((w) => w.low <= at && w.landed > at - 130_000).map((w) => {
      const landed = past(w.landed);
      const rest = landed === null ? { rows: undefined, superseded: undefined, deleted: undefined } : {};
      return { ...w, read: past(w.read), high: past(w.high), landed, ...rest };
    });
    const samples = [];
    for (let i = low; i >= 0 && frames[i].at > at - 130_000; i -= 1) {
      const { lag_seconds: lag, events_per_second: events } = frames[i].model.stream;
      samples.unshift([frames[i].at, lag, events]);
    }
    return { at: Math.round(at), model: frames[low].model, windows: open, samples };
  }

  function drawReplay() {
    const { recording, at } = replay, first = recording.frames[0].at, last = finish(recording);
    draw(viewAt(recording, at));
    const done = (at - first) / Math.max(1, last - first);
    if (document.activeElement !== $("seek") || replay.playing) $("seek").value = String(Math.round(1000 * done));
    const said = `${lasting((at - first) / 1000)} of ${lasting((last - first) / 1000)}`;
    put($("moment"), said);
    $("seek").setAttribute("aria-valuetext", said);
    put($("play"), replay.playing ? "Pause" : at >= last ? "Play again" : "Play");
  }

  function step(now) {
    if (!replay) return;
    const passed = now - replay.last;
    if (passed >= 80) {
      replay.last = now;
      if (replay.playing) {
        const last = finish(replay.recording);
        replay.at = Math.min(last, replay.at + passed * replay.speed);
        if (replay.at >= last) replay.playing = false;
        drawReplay();
      }
    }
    requestAnimationFrame(step);
  }

  function play() {
    const last = finish(replay.recording);
    if (!replay.playing && replay.at >= last) {
      replay.at = replay.recording.frames[0].at;
      lanes.clear();
    }
    replay.playing = !replay.playing;
    drawReplay();
  }

  function seek() {
    const first = replay.recording.frames[0].at;
    replay.at = first + (Number($("seek").value) / 1000) * (finish(replay.recording) - first);
    lanes.clear();
    drawReplay();
  }

  // The engine

  const KEPT = "snapshotter-token";
  let latest = null;
  let token = null;

  function recall() {
    const given = new URLSearchParams(location.hash.slice(1)).get("token");
    if (given) {
      history.replaceState(null, "", location.pathname + location.search); // so that nobody reads or copies it there
      sessionStorage.setItem(KEPT, given);
    }
    token = sessionStorage.getItem(KEPT);
  }

  const authorized = () => (token ? { Authorization: `Bearer ${token}` } : {});
  const pause = (ms) => new Promise((done) => setTimeout(done, ms));

  class Locked extends Error {}

  async function ask(path, options = {}) {
    for (let wrong = ""; ;) {
      const headers = { ...authorized(), ...options.headers };
      const answer = await fetch(path, { ...options, headers, cache: "no-store" });
      if (answer.status !== 401) return answer;
      if (token) wrong = "This is not the engine's token.";
      if (!(await unlock(wrong))) throw new Locked("Without the engine's token nothing was sent");
    }
  }

  async function follow() {
    for (let wait = 1000; ;) {
      try {
        const answer = await ask("api/events");
        if (!answer.ok) throw new Error((await answer.json()).error);
        const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
        for (let text = ""; ;) {
          const { done, value } = await reader.read();
          if (done) break;
          text += value;
          const events = text.split("\n\n");
          text = events.pop();
          wait = 1000;
          for (const event of events) if (event.startsWith("data: ")) receive(JSON.parse(event.slice(6)));
        }
        lose("");
      } catch (error) {
        if (error instanceof Locked) return lose("This page asks for the engine's token to look, too. Load it again to give it.");
        lose(error instanceof TypeError ? "" : error.message);
      }
      await pause(wait);
      wait = Math.min(10_000, 2 * wait);
    }
  }

  function receive(found) {
    latest = found;
    if (replay) return;
    $("lost").hidden = true;
    document.body.classList.remove("is-lost");
    draw(found);
  }

  function lose(why) {
    if (replay) return;
    const since = latest ? ` since ${clock(latest.at)}; below is what it said last` : "";
    put($("lost"), why || `The engine does not answer${since}. Trying again.`).hidden = false;
    document.body.classList.add("is-lost");
    put($("fresh"), latest ? `last heard of ${clock(latest.at)}` : "not connected");
  }

  // Decisions

  let hiding;

  function say(text, how = "good") {
    tone(put($("toast"), text), how);
    clearTimeout(hiding);
    hiding = setTimeout(() => put($("toast"), ""), how === "bad" ? 12_000 : 6_000);
  }

  function confirmed(title, text, yes) {
    const dialog = $("confirm");
    put($("confirm-title"), title);
    put($("confirm-text"), text);
    put($("confirm-yes"), yes);
    dialog.returnValue = "no";
    dialog.showModal();
    return new Promise((done) => dialog.addEventListener("close", () => done(dialog.returnValue === "yes"), { once: true }));
  }

  let asking = null;

  function unlock(wrong) {
    asking ??= new Promise((done) => {
      const dialog = $("unlock");
      put($("unlock-wrong"), wrong).hidden = !wrong;
      $("token").value = "";
      dialog.returnValue = "";
      dialog.showModal();
      dialog.addEventListener("close", () => {
        asking = null;
        done(dialog.returnValue === "yes");
      }, { once: true });
    });
    return asking;
  }

  async function send(type, data, id) {
    const signal = id ? { type, data, id } : { type, data };
    const answer = await ask("api/signals", {
      method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(signal),
    });
    const said = await answer.json();
    if (!answer.ok) throw new Error(answer.status === 400 ? said.error : `${said.error}; next: ${said.next}`);
    return said.id;
  }

  async function sending(type, data, id) {
    try {
      await send(type, data, id);
      say(`${type} was sent; the engine takes it within a second or two`);
      return true;
    } catch (error) {
      say(error instanceof TypeError ? "The engine does not answer: nothing was sent" : error.message, "bad");
      return false;
    }
  }

  const ASKED = {
    "stop-snapshot": (id) => [`Stop ${id}?`, "What has landed stays. It cannot be resumed; it can be asked for again.", "Stop it"],
    "pause-stream": () => ["Pause the stream?", "Nothing lands until it is resumed, also after a restart. Signals are still taken. The oplog has to reach back to the position.", "Pause it"],
    restart: () => ["Restart the engine?", "It ends the run under way and begins another one, in the same process. Windows in flight land first.", "Restart it"],
  };

  async function decide(kind, request) {
    const question = ASKED[kind];
    if (question && !(await confirmed(...question(request)))) return;
    await sending(kind, request ? { requests: [request] } : {});
  }

  // A new snapshot, with a dry run first

  let tried = 0; // so that the answer to an earlier form is no answer to this one

  function chosen() {
    const names = [...$("known").querySelectorAll("input:checked")].map((box) => box.value);
    const pattern = $("pattern").value.trim();
    return pattern ? [...names, pattern] : names;
  }

  function wanted() {
    const names = chosen();
    if (!names.length) throw new Error("Choose a collection, or write a name.");
    const data = { "data-collections": names, type: $("blocking").checked ? "blocking" : "incremental" };
    const filter = $("filter").value.trim();
    if (filter) data["additional-conditions"] = names.map((name) => ({ "data-collection": name, filter }));
    const keys = $("keys").value.split("\n").map((key) => key.trim()).filter(Boolean);
    if (keys.length) data.keys = keys.map(parsedId);
    if ($("reconcile").checked) data.reconcile = true;
    if ($("all").checked) data.write = "all";
    return data;
  }

  function parsedId(text) {
    let id;
    try {
      id = JSON.parse(text);
    } catch {
      throw new Error(`${text} is no id in JSON: write 17, "A-4" in double quotes, or {"$oid": "…"}.`);
    }
    // A browser would send another number than the one that was written.
    const long = text.replace(/"(?:[^"\\]|\\.)*"/g, "").match(/(?<![\d.])\d{16,}/);
    if (long) throw new Error(`Write ${long[0]} as {"$numberLong": "${long[0]}"}.`);
    return id;
  }

  function openSnapshot() {
    const names = [...new Set(view.model.collections.map((c) => c.name))].sort();
    const create = (name) => {
      const box = make("input");
      box.type = "checkbox";
      box.value = name;
      return make("label", "", box, make("span"));
    };
    keyed($("known"), names, (name) => name, create, (label, name) => put(label.lastChild, name));
    forget();
    $("snapshot").showModal();
  }

  function forget() {
    tried += 1;
    $("estimate").replaceChildren();
    $("start").disabled = true;
    $("dry").disabled = false;
  }

  async function dryRun(event) {
    event.preventDefault();
    forget();
    const mine = tried;
    const box = $("estimate");
    put(box, "Asking the engine what would be read …");
    $("dry").disabled = true;
    try {
      const id = await send("execute-snapshot", { ...wanted(), "dry-run": true });
      const answer = await answerTo(id, () => tried === mine);
      if (tried !== mine) return;
      if (answer.error) throw new Error(answer.error);
      estimate(box, answer);
      $("start").disabled = false;
      box.scrollIntoView({ block: "nearest" });
    } catch (error) {
      if (tried === mine) box.replaceChildren(put(make("p", "error"), error instanceof TypeError ? "The engine does not answer." : error.message));
    } finally {
      if (tried === mine) $("dry").disabled = false;
    }
  }

  async function answerTo(id, still) {
    while (still()) {
      const answer = await ask(`api/answers/${encodeURIComponent(id)}`);
      const said = await answer.json();
      if (answer.status !== 202) return said;
      await pause(400);
    }
    return {};
  }

  function estimate(box, answer) {
    const amounts = (part) => [
      part.documents === null ? "documents not known" : `${count(part.documents)} documents`,
      part.bytes === null ? "" : `about ${size(part.bytes)}`,
      part.seconds === null ? "" : `about ${lasting(part.seconds)}`,
    ].filter(Boolean).join(", ");
    const lines = answer.collections.flatMap((part) => [
      put(make("p"), `${part.name}: ${amounts(part)}`), ...part.notes.map((note) => put(make("p", "dim"), note)),
    ]);
    if (answer.collections.length > 1) lines.push(put(make("p"), `all: ${amounts(answer)}`));
    const speed = answer.rows_per_second;
    const measured = speed === null ? "How long is not known: no speed has been measured yet." : `At ${count(speed)} documents a second, as measured last.`;
    lines.push(put(make("p", "dim"), `${measured} Nothing was read.`));
    box.replaceChildren(...lines);
  }

  async function start() {
    $("start").disabled = true;
    if (await sending("execute-snapshot", wanted(), $("id").value.trim())) $("snapshot").close();
    else $("start").disabled = false;
  }

  // Recordings as files

  async function recorded() {
    const answer = await ask("api/recording");
    if (!answer.ok) throw new Error((await answer.json()).error);
    return answer.json();
  }

  async function save() {
    const text = JSON.stringify(await recorded());
    const link = make("a");
    link.href = URL.createObjectURL(new Blob([text], { type: "application/json" }));
    link.download = `${view ? view.model.engine.name : "engine"}-${new Date().toISOString().slice(0, 16).replace(/[T:]/g, "-")}.json`;
    link.click();
    URL.revokeObjectURL(link.href);
  }

  async function openFile(event) {
    const [file] = event.target.files;
    event.target.value = "";
    if (!file) return;
    try {
      begin(JSON.parse(await file.text()));
    } catch {
      say("This file is no recording of an engine's page", "bad");
    }
  }

  const saying = (action) => (...given) => Promise.resolve(action(...given)).catch((error) => say(error.message, "bad"));

  // Everything put together

  function listen() {
    $("do-snapshot").onclick = openSnapshot;
    $("do-restart").onclick = () => decide("restart");
    $("do-stream").onclick = () => decide(view.model.stream.paused ? "resume-stream" : "pause-stream");
    $("do-replay").onclick = saying(async () => begin(await recorded()));
    $("do-save").onclick = saying(save);
    $("do-live").onclick = end;
    $("play").onclick = play;
    $("seek").oninput = seek;
    $("speed").onchange = () => { if (replay) replay.speed = Number($("speed").value); };
    $("open").onchange = openFile;
    $("snapshot-form").onsubmit = dryRun;
    $("snapshot-form").oninput = forget;
    $("start").onclick = start;
    $("windows").closest("details").ontoggle = () => { if (view) drawWindows(view); };
    $("unlock-form").onsubmit = (event) => {
      event.preventDefault();
      token = $("token").value.trim();
      sessionStorage.setItem(KEPT, token);
      $("unlock").close("yes");
    };
    for (const button of document.querySelectorAll("[data-close]")) button.onclick = () => button.closest("dialog").close("");
    new ResizeObserver(() => { if (view && view.model) drawStrip(view); }).observe($("strip").parentElement);
  }

  listen();
  const embedded = $("recording");
  if (embedded) {
    document.body.dataset.alone = "";
    begin(JSON.parse(embedded.textContent));
  } else {
    recall();
    follow();
  }
})();
