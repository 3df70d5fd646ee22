"use strict";
// ---- What all pages share: a list of tensors that can be filtered and sorted, and beside it one of them, or a map ----
// A page's own script stands behind it in one script, and gives `tensors`, COLUMNS, kindOf(), show() and showMap().
// All data reaches the page as text or as a number, never as markup.

const data = JSON.parse(document.getElementById("data").textContent);
const ROW = 28;
const byId = (id) => document.getElementById(id);

function make(name, attributes, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) element.setAttribute(key, value);
  element.append(...children);
  return element;
}
const thousands = (number) => String(number).replace(/\B(?=(\d{3})+$)/g, ",");
function roughly(number) {
  if (number < 10000) return String(number);
  const [unit, letter] = [[1e12, "T"], [1e9, "B"], [1e6, "M"], [1e3, "k"]].find(([size]) => number >= size);
  return (number / unit).toPrecision(3) + letter;
}
const shapeText = (shape) => "[" + shape.join(", ") + "]";
const order = new Intl.Collator("en", {numeric: true});  // Layer 10 comes behind layer 9.

// ---- The list: only the rows that are seen exist ----

let shown = [], chosen = null, sorted = {key: "name", down: false};
const kindsOn = new Set();

// Where `part`, in which "?" is any letter, begins in `text` from `from` on; -1: nowhere.
function placeOf(part, text, from) {
  for (let at = from; at + part.length <= text.length; ++at) {
    let i = 0;
    while (i < part.length && (part[i] === "?" || part[i] === text[at + i])) ++i;
    if (i === part.length) return at;
  }
  return -1;
}
// Without a regular expression, which names and patterns can be made for that take it years.
function matcher(text) {
  const words = text.trim().toLowerCase();
  if (!/[*?]/.test(words)) return (name) => name.toLowerCase().includes(words);
  const [first, ...others] = words.split("*"), last = others.pop();
  return (name) => {
    const low = name.toLowerCase();
    if (placeOf(first, low.slice(0, first.length), 0) !== 0) return false;
    if (last === undefined) return low.length === first.length;
    let from = first.length;
    for (const part of others) {
      const at = placeOf(part, low, from);
      if (at < 0) return false;
      from = at + part.length;
    }
    const tail = low.length - last.length;
    return tail >= from && placeOf(last, low, tail) === tail;
  };
}
function refresh() {
  const fits = matcher(byId("filter").value);
  shown = tensors.filter((tensor) => fits(tensor.name) && (!kindsOn.size || kindsOn.has(kindOf(tensor))));
  const {key, down} = sorted;
  const value = COLUMNS.find((column) => column.key === key).value;
  if (value) shown.sort((a, b) => value(a) < value(b) ? -1 : value(a) > value(b) ? 1 : 0);
  if (down) shown.reverse();
  byId("count").textContent = thousands(shown.length) + " of " + thousands(tensors.length) + " tensors";
  byId("list").scrollTop = 0;
  drawRows();
}
// A long name loses its middle: what tells it from its neighbours is at its ends.
function nameCell(name) {
  const tail = name.length > 28 ? name.slice(-22) : "";
  return make("span", {class: "name"}, make("span", {}, name.slice(0, name.length - tail.length)), make("span", {}, tail));
}
function drawRows() {
  const list = byId("list"), rows = byId("rows");
  const first = Math.max(0, Math.floor(list.scrollTop / ROW) - 5);
  const last = Math.min(shown.length, first + Math.ceil(list.clientHeight / ROW) + 10);
  rows.style.height = shown.length * ROW + "px";
  rows.replaceChildren(...shown.slice(first, last).map((tensor, i) => {
    const row = make("div", {class: "row", role: "option", tabindex: "0", title: tensor.name,
                             "aria-selected": String(tensor === chosen)});
    row.style.cssText = "position:absolute;left:0;right:0;top:" + (first + i) * ROW + "px";
    row.append(nameCell(tensor.name), ...COLUMNS.slice(1).map(({text}) => make("span", {}, String(text(tensor)))));
    row.addEventListener("click", () => choose(tensor));
    row.addEventListener("keydown", (event) => onKey(event, first + i));
    return row;
  }));
}
function onKey(event, place) {
  const next = {ArrowDown: place + 1, ArrowUp: place - 1, Enter: place}[event.key];
  if (next === undefined || !shown[next]) return;
  event.preventDefault();
  const list = byId("list");
  if (next * ROW < list.scrollTop) list.scrollTop = next * ROW;
  if ((next + 1) * ROW > list.scrollTop + list.clientHeight) list.scrollTop = (next + 1) * ROW - list.clientHeight;
  choose(shown[next]);
  const row = [...byId("rows").children].find((child) => child.getAttribute("aria-selected") === "true");
  if (row) row.focus();
}

// ---- One tensor, or the map ----

// [term, text, whether it is code]; a term without a text is left out.
function termList(terms) {
  const list = make("dl");
  for (const [term, text, code] of terms) {
    if (text) list.append(make("dt", {}, term), make("dd", code ? {class: "code"} : {}, text));
  }
  return list;
}
function choose(tensor) {
  chosen = tensor;
  document.body.classList.remove("mapped");
  show(tensor);
  drawRows();
  history.replaceState(null, "", "#" + encodeURIComponent(tensor.name));
}
function showAll(title, ...parts) {
  chosen = null;
  byId("tensor").replaceChildren(make("h2", {}, title), ...parts);
  document.body.classList.add("mapped");
  drawRows();
  history.replaceState(null, "", location.pathname);
}

// ---- The page ----

// `kinds` are what the buttons choose from, `whole` is what the map shows.
function begin(kinds, whole) {
  tensors.sort((a, b) => order.compare(a.name, b.name));
  document.title = data.title + " - " + document.title;
  byId("title").textContent = data.title;
  byId("totals").textContent = data.totals;
  byId("whole").textContent = whole;
  for (const kind of kinds) {
    const count = tensors.filter((tensor) => kindOf(tensor) === kind).length;
    const button = make("button", {type: "button", "aria-pressed": "false"}, `${kind} ${thousands(count)}`);
    button.addEventListener("click", () => {
      if (!kindsOn.delete(kind)) kindsOn.add(kind);
      button.setAttribute("aria-pressed", String(kindsOn.has(kind)));
      refresh();
    });
    byId("kinds").append(button, " ");
  }
  for (const {key, heading} of COLUMNS) {
    const button = make("button", {type: "button", title: "Sort by this"}, heading);
    button.addEventListener("click", () => {
      sorted = {key, down: sorted.key === key && !sorted.down};
      refresh();
    });
    byId("head").append(button);
  }
  byId("filter").addEventListener("input", refresh);
  byId("list").addEventListener("scroll", drawRows);
  const fit = () => {
    document.documentElement.style.setProperty("--top", document.querySelector("header").offsetHeight + "px");
    drawRows();
  };
  window.addEventListener("resize", fit);
  byId("values").addEventListener("toggle", fit);
  refresh();
  fit();
  let asked = "";
  try {
    asked = decodeURIComponent(location.hash.slice(1));
  } catch { /* Not a link of this page's. */ }
  byId("whole").addEventListener("click", showMap);
  const first = tensors.find((tensor) => tensor.name === asked);
  if (first) choose(first); else showMap();
}
