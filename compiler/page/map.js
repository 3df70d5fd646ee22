// ---- A map of all tensors: rows are layers, columns are ranks ----

const MOST_COLUMNS = 32, MOST_LINES = 80;

// Layers that are alike, one behind the other, are one row; so is each tensor without a layer. `likeness` of a tensor
// says what has to be the same.
function linesOf(likeness) {
  const layers = new Map();
  for (const tensor of tensors) {
    const found = /^(\D*)(\d+)([^]*)$/.exec(tensor.name);
    const key = found ? found[1] + found[2] : tensor.name;
    if (!layers.has(key)) layers.set(key, {name: key, stem: found ? found[1] : null, number: found && found[2], tensors: [], likes: []});
    const layer = layers.get(key);
    layer.tensors.push(tensor);
    layer.likes.push([found && found[3], likeness(tensor)].join("|"));
  }
  const lines = [];
  for (const layer of layers.values()) {
    const last = lines[lines.length - 1], like = layer.likes.join("\n");
    if (last && layer.stem !== null && last.stem === layer.stem && last.like === like) {
      last.tensors.push(...layer.tensors);
      last.layers += 1;
      last.until = layer.number;
    } else {
      lines.push({...layer, like, layers: 1, until: null});
    }
  }
  return lines;
}
function lineText(line) {
  if (line.until !== null) return line.name + " to " + line.until;
  return line.tensors.length === 1 ? line.tensors[0].name : line.name;
}
function filterOf(line) {
  if (line.until !== null) return line.stem;
  if (line.tensors.length === 1) return line.tensors[0].name;
  return line.tensors.every((tensor) => tensor.name.startsWith(line.name + ".")) ? line.name + "." : line.name;
}
// A long name loses its middle here, as in the list.
const cutMiddle = (text) => text.length > 40 ? text.slice(0, 16) + "…" + text.slice(-22) : text;

// `heldBy` gives what each of `ranks` holds of a tensor, and `write` writes such a number.
function mapTable({name, caption, ranks, moreRanks, lines, heldBy, write, total}) {
  const sums = lines.map((line) => {
    const sum = ranks.map(() => 0);
    for (const tensor of line.tensors) heldBy(tensor).forEach((held, i) => { sum[i] += held; });
    return sum;
  });
  const most = sums.reduce((all, sum) => sum.reduce((a, b) => Math.max(a, b), all), 1);
  const cells = (sum, shade) => sum.map((held) => {
    const cell = make("td", {class: held ? "held" : "none"}, held ? write(held) : "");
    if (shade && held) cell.style.setProperty("--share", (0.15 + 0.85 * held / most).toFixed(2));
    return cell;
  });
  const body = make("tbody");
  lines.slice(0, MOST_LINES).forEach((line, i) => {
    const button = make("button", {type: "button", title: "List these tensors: " + lineText(line)}, cutMiddle(lineText(line)));
    button.addEventListener("click", () => {
      byId("filter").value = filterOf(line);
      refresh();
    });
    body.append(make("tr", {}, make("th", {scope: "row"}, button), ...cells(sums[i], true)));
  });
  const totals = ranks.map((_, i) => sums.reduce((all, sum) => all + sum[i], 0));
  const foot = make("tr", {class: "total"}, make("th", {scope: "row"}, total), ...cells(totals, false));
  const head = make("tr", {}, make("th"), ...ranks.map((rank) => make("th", {scope: "col"}, rank)));
  const hidden = [];
  if (moreRanks) hidden.push(thousands(moreRanks) + " more ranks");
  if (lines.length > MOST_LINES) hidden.push(thousands(lines.length - MOST_LINES) + " more rows");
  return make("figure", {class: "map " + name}, make("figcaption", {}, caption),
              make("div", {class: "scroll"}, make("table", {}, make("thead", {}, head), body, make("tfoot", {}, foot))),
              hidden.length ? make("p", {class: "note"}, "and " + hidden.join(", ")) : "");
}

// What each rank of the checkpoint holds of a tensor, in bytes.
const NOTHING_HELD = data.ranks.map(() => 0);
const bytesOn = (tensor) => tensor.held === null ? NOTHING_HELD : data.held[tensor.held];
// Which ranks hold something of it.
const ranksWith = (tensor) => bytesOn(tensor).map((bytes) => bytes ? 1 : 0).join("");
function bytesText(bytes) {
  if (bytes < 1000) return bytes + " B";
  const [unit, name] = [[1e12, "TB"], [1e9, "GB"], [1e6, "MB"], [1e3, "KB"]].find(([size]) => bytes >= size);
  return (bytes / unit).toPrecision(3) + " " + name;
}
function bytesMap(name, caption) {
  return mapTable({name, caption, ranks: data.ranks, moreRanks: data.moreRanks, lines: linesOf(ranksWith), heldBy: bytesOn,
                   write: bytesText, total: "bytes of a rank"});
}
