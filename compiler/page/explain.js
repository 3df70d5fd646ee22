// ---- The page of `ucpc explain --html`, behind list.js, map.js and explain_map.js ----
// The data is what compiler/explain/explain_page.cpp writes: texts and selections are stored once and named by number.

const SVG = "http://www.w3.org/2000/svg";
const WIDE = 300, MOST_BOXES = 4000, MOST_HOLDERS = 256;

function draw(name, attributes, ...children) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes || {})) element.setAttribute(key, value);
  element.append(...children);
  return element;
}
const hueOf = (index) => (index * 137.508 + 210) % 360;
function paint(element, index) {
  element.classList.add("hue");
  element.style.setProperty("--hue", hueOf(index).toFixed(1));
  return element;
}

// ---- What the numbers stand for ----

const tensors = data.tensors.map(([name, pattern, why, declared, place, line, shape, states, kind, cutting, target,
                                   stages, targetStages, aliases, held]) => ({
  name, pattern: data.patterns[pattern], why: data.texts[why], declared: data.texts[declared],
  place: data.texts[place], line, shape, states: data.texts[states], kind, cutting, target, stages, targetStages, aliases, held,
  elements: shape.reduce((product, length) => product * length, 1),
}));
const COLUMNS = [
  {key: "name", heading: "Tensor"},
  {key: "pattern", heading: "Pattern", text: (tensor) => tensor.pattern, value: (tensor) => tensor.pattern},
  {key: "shape", heading: "Shape", text: (tensor) => shapeText(tensor.shape), value: (tensor) => tensor.shape.length},
  {key: "elements", heading: "Elements", text: (tensor) => roughly(tensor.elements), value: (tensor) => tensor.elements},
  {key: "line", heading: "Line", text: (tensor) => tensor.line ?? "", value: (tensor) => tensor.line || 0},
];
const kindOf = (tensor) => tensor.pattern;

// A cutting is [axes, [[coordinate…, selection…], …], how many more]. A selection is [local length, runs, how many more],
// its runs [logical begin, length] in local order.
function holdersOf(cutting) {
  const [axes, rows, more] = data.cuttings[cutting];
  const holders = rows.map((row, index) => ({
    index,
    who: axes.map((axis, i) => axis + "=" + row[i]).join(" ") || "every rank",
    dims: row.slice(axes.length).map((selection) => data.selections[selection]),
  }));
  return {holders, more};
}
const real = (selection) => selection[1].reduce((sum, run) => sum + run[1], 0);
const padding = (selection) => (selection[2] ? 0 : selection[0] - real(selection));
function selectionText(selection) {
  const runs = selection[1].slice(0, 12).map(([begin, length]) => begin + ".." + (begin + length));
  const hidden = selection[1].length - runs.length + selection[2];
  if (hidden) runs.push("and " + thousands(hidden) + " more");
  if (padding(selection)) runs.push("pad " + padding(selection));
  return runs.join(" ") || "nothing";
}

// ---- The picture: positions at which the holders change cut each drawn dimension into stretches ----

function stretchesOf(holders, dim, length) {
  const marks = new Set([0, length]);
  for (const {dims} of holders) {
    for (const [begin, count] of dims[dim][1]) marks.add(begin).add(begin + count);
  }
  const sortedMarks = [...marks].sort((a, b) => a - b);
  return sortedMarks.slice(0, -1).map((begin, i) => ({begin, end: sortedMarks[i + 1], holders: new Set()}));
}
function markHolders(stretches, holders, dim) {
  const at = new Map(stretches.map((stretch, i) => [stretch.begin, i]));
  for (const holder of holders) {
    for (const [begin, count] of holder.dims[dim][1]) {
      for (let i = at.get(begin); i < stretches.length && stretches[i].begin < begin + count; ++i) {
        stretches[i].holders.add(holder.index);
      }
    }
  }
  return stretches;
}
// Where each stretch lies in `extent` pixels: to scale, but none so thin that it cannot be seen.
function place(stretches, extent) {
  const total = stretches.reduce((sum, {begin, end}) => sum + end - begin, 0) || 1;
  const weights = stretches.map(({begin, end}) => Math.max((end - begin) / total, Math.min(0.03, 0.6 / stretches.length)));
  const sum = weights.reduce((a, b) => a + b, 0);
  let at = 0;
  stretches.forEach((stretch, i) => {
    stretch.from = at;
    stretch.size = weights[i] / sum * extent;
    at += stretch.size;
  });
  return stretches;
}
// The dimensions that are drawn: down the first that is cut, across another.
function drawnDims(shape, holders) {
  const cut = shape.map((length, d) => d).filter((d) => holders.some(({dims}) => real(dims[d]) < shape[d]));
  if (shape.length < 2) return [null, 0];
  let [first, second] = cut.length ? cut : [0];
  if (second === undefined) second = first === shape.length - 1 ? first - 1 : shape.length - 1;
  return [Math.min(first, second), Math.max(first, second)];
}
function picture(tensor, holders) {
  if (!tensor.elements) return make("p", {class: "note"}, "It has no elements.");
  const [down, across] = tensor.shape.length ? drawnDims(tensor.shape, holders) : [null, null];
  const whole = [{begin: 0, end: 1, holders: new Set(holders.map(({index}) => index))}];
  const stretch = (dim) => dim === null ? whole.map((one) => ({...one})) :
                           markHolders(stretchesOf(holders, dim, tensor.shape[dim]), holders, dim);
  const aspect = down === null ? 0 : tensor.shape[down] / tensor.shape[across];
  const high = Math.round(Math.min(WIDE, Math.max(down === null ? 56 : 110, WIDE * aspect)));
  const rows = place(stretch(down), high), columns = place(stretch(across), WIDE);
  const boxes = draw("g");
  let count = 0;
  for (const row of rows) {
    for (const column of columns) {
      if (count >= MOST_BOXES) break;
      const held = [...row.holders].filter((index) => column.holders.has(index));
      if (held.length) count += 1;
      if (held.length) boxes.append(box(row, column, held, holders, down, across));
    }
  }
  const pads = padBoxes(holders, down, across, high);
  const left = down === null ? 8 : 52, low = 22, more = pads.extent;
  const wide = left + WIDE + (pads.across ? more : 0) + 64, tall = low + high + (pads.across ? 0 : more) + 10;
  const svg = draw("svg", {viewBox: `0 0 ${wide} ${tall}`, width: wide, height: tall, role: "img",
                           "aria-label": "who holds which part"}, hatch(), draw("g", {transform: `translate(${left} ${low})`},
                           boxes, pads.group, ...ticks(rows, columns, down, across)));
  return count < MOST_BOXES ? svg : make("div", {}, svg, make("p", {class: "note"}, `The first ${MOST_BOXES} pieces are drawn.`));
}
function hatch() {
  const line = draw("path", {d: "M0 6 L6 0", stroke: "var(--hatch)", "stroke-width": 1});
  return draw("defs", {}, draw("pattern", {id: "hatch", width: 6, height: 6, patternUnits: "userSpaceOnUse"}, line));
}
// Several ranks hold it: each gets a band of its own colour.
function box(row, column, held, holders, down, across) {
  const group = draw("g", {class: "held", "data-holders": held.join(" ")});
  const bands = held.slice(0, 16);
  bands.forEach((index, i) => {
    const size = column.size / bands.length;
    group.append(paint(draw("rect", {x: column.from + i * size, y: row.from, width: size, height: row.size}), index));
  });
  group.append(draw("rect", {class: "box", fill: "none", x: column.from, y: row.from, width: column.size, height: row.size}));
  const names = held.map((index) => holders[index].who);
  const range = (dim, {begin, end}) => dim === null ? "" : ` dimension ${dim}: ${begin}..${end}`;
  const title = names.slice(0, 20).join(", ") + (names.length > 20 ? ", …" : "") + range(down, row) + range(across, column);
  group.append(draw("title", {}, title));
  const label = names.length === 1 ? names[0] : names.length <= 3 ? names.join(", ") : names.length + " ranks";
  if (row.size >= 14 && column.size >= label.length * 6.7 + 4) {
    group.append(draw("text", {x: column.from + column.size / 2, y: row.from + row.size / 2 + 4, "text-anchor": "middle"}, label));
  }
  return group;
}
// Padding has no place in the tensor: it is drawn behind its end, for each rank that carries some.
function padBoxes(holders, down, across, high) {
  const group = draw("g");
  const padded = (dim) => dim === null ? [] : holders.filter(({dims}) => padding(dims[dim]) > 0);
  const isAcross = !padded(down).length;
  const list = padded(isAcross ? across : down).slice(0, 8);
  list.forEach((holder, i) => {
    const label = `${holder.who}: pad ${padding(holder.dims[isAcross ? across : down])}`;
    const rectangle = isAcross ? {x: WIDE + 6 + i * 22, y: 0, width: 18, height: high} :
                                 {x: 0, y: high + 6 + i * 22, width: WIDE, height: 18};
    group.append(draw("g", {class: "held", "data-holders": holder.index}, draw("rect", {class: "pad", ...rectangle}),
                      draw("title", {}, label), isAcross ? "" :
                      draw("text", {x: WIDE / 2, y: high + 19 + i * 22, "text-anchor": "middle"}, label)));
  });
  return {group, across: isAcross, extent: list.length ? 6 + list.length * 22 : 0};
}
// Where stretches begin and end, as far as there is room for the numbers.
function ticks(rows, columns, down, across) {
  const texts = [];
  const write = (stretches, room, put) => {
    let free = -Infinity;
    const last = stretches[stretches.length - 1], end = last.from + last.size;
    for (const {from, begin} of [...stretches, {from: end, begin: last.end}]) {
      const ends = from === end;
      if (from < free || (!ends && end - from < room(last.end))) continue;
      texts.push(put(from, begin));
      free = from + room(begin);
    }
  };
  if (across !== null) {
    write(columns, (number) => String(number).length * 7 + 8, (x, number) =>
      draw("text", {class: "tick", x, y: -6, "text-anchor": "middle"}, String(number)));
  }
  if (down !== null) {
    write(rows, () => 13, (y, number) =>
      draw("text", {class: "tick", x: -6, y: y + 4, "text-anchor": "end"}, String(number)));
  }
  return texts;
}

// ---- One tensor ----

function holderTable(holders, more, svg) {
  const body = make("tbody");
  for (const holder of holders.slice(0, MOST_HOLDERS)) {
    const swatch = make("i");
    swatch.style.setProperty("--hue", hueOf(holder.index).toFixed(1));
    const row = make("tr", {}, make("td", {class: "swatch"}, swatch), make("td", {}, holder.who),
                     make("td", {}, shapeText(holder.dims.map((selection) => selection[0]))),
                     make("td", {}, "[" + holder.dims.map(selectionText).join(", ") + "]"));
    row.addEventListener("mouseenter", () => highlight(svg, holder.index));
    row.addEventListener("mouseleave", () => highlight(svg, null));
    body.append(row);
  }
  const hidden = Math.max(0, holders.length - MOST_HOLDERS) + more;
  const head = make("tr", {}, make("th"), make("th", {}, "Ranks"), make("th", {}, "Local"), make("th", {}, "Elements"));
  return make("div", {class: "holders"}, make("table", {}, make("thead", {}, head), body),
              hidden ? make("p", {class: "note"}, thousands(hidden) + " more") : "");
}
function highlight(svg, index) {
  for (const group of svg.querySelectorAll(".held")) {
    const here = index === null || group.dataset.holders.split(" ").includes(String(index));
    group.classList.toggle("faint", !here);
  }
}
function side(tensor, name, cutting, stages, mesh) {
  const {holders, more} = holdersOf(cutting);
  const figure = make("figure", {class: name}, make("figcaption", {}, name + (mesh ? ": " + mesh : "")));
  const drawn = picture(tensor, holders);
  if (stages && stages.length) figure.append(make("div", {class: "note"}, "on stage " + stages.join(", ")));
  figure.append(drawn, holderTable(holders, more, drawn));
  return figure;
}
function show(tensor) {
  const list = termList([
    ["pattern", tensor.pattern + ": " + tensor.why],
    ["declared", tensor.declared, true],
    ["by", tensor.place + (tensor.line === null ? "" : ":" + tensor.line)],
    ["whole", shapeText(tensor.shape) + ", " + thousands(tensor.elements) + " elements" +
              (tensor.kind ? ", a buffer" : "")],
    ["also", tensor.aliases.join(", "), true],
    ["states", tensor.states],
  ]);
  const sides = make("div", {class: "sides"}, side(tensor, "source", tensor.cutting, tensor.stages, data.source));
  if (tensor.target !== null) sides.append(side(tensor, "target", tensor.target, tensor.targetStages, data.target));
  byId("tensor").replaceChildren(make("h2", {}, tensor.name), list, sides);
  if (tensor.shape.length > 2) {
    const [down, across] = drawnDims(tensor.shape, holdersOf(tensor.cutting).holders);
    sides.before(make("p", {class: "note"}, `Drawn: dimension ${down} downwards and ${across} across, of ${tensor.shape.length}.`));
  }
}

byId("meshes").textContent = ["source " + data.source, data.target && "target " + data.target].filter(Boolean).join(" · ");
const values = byId("values");
values.hidden = !data.values.length;
values.firstChild.textContent = `${data.values.length} dims, facts and choices`;
values.lastChild.append(...data.values.map((text) => make("li", {}, text)));
begin(data.patterns, "The whole model");
