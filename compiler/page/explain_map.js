// ---- The map of `ucpc explain --html`: elements of each layer on each rank, and beside it who feeds whom ----

const MOST_MEETINGS = 4e6;

// The ranks of a side that can differ in what they hold: a product over the stages and the axes that cut a tensor.
function ranksOf(mesh, cuttings) {
  const cutting = new Set(["pp", ...cuttings.flatMap((number) => data.cuttings[number][0])]);
  let ranks = [{}];
  for (const [axis, size] of mesh.filter(([name, length]) => length > 1 && cutting.has(name))) {
    ranks = ranks.flatMap((rank) => Array.from({length: Math.min(size, 2 * MOST_COLUMNS)}, (_, i) => ({...rank, [axis]: i})));
    if (ranks.length > 2 * MOST_COLUMNS) ranks.length = 2 * MOST_COLUMNS;
  }
  const count = mesh.filter(([name]) => cutting.has(name)).reduce((product, [, length]) => product * length, 1);
  return {all: ranks.slice(0, MOST_COLUMNS), hidden: Math.max(0, count - MOST_COLUMNS)};
}
const rankText = (rank) => Object.entries(rank).map(([axis, index]) => axis + "=" + index).join(" ") || "every rank";

// For each rank, the holder whose part it has, or null.
function holdersAt(ranks, cutting, stages) {
  const [axes, rows] = data.cuttings[cutting];
  const at = new Map(rows.map((row, index) => [row.slice(0, axes.length).join(), index]));
  return ranks.map((rank) => {
    if (stages.length && rank.pp !== undefined && !stages.includes(rank.pp)) return null;
    const index = at.get(axes.map((axis) => rank[axis] ?? 0).join());
    return index === undefined ? null : rows[index].slice(axes.length);
  });
}
// Of a selection with more runs than the page has, its length with padding.
const lengthOf = (selection) => selection[2] ? selection[0] : real(selection);
const elementsOf = (dims) => dims.reduce((product, dim) => product * lengthOf(data.selections[dim]), 1);

// ---- Who feeds whom: elements that each rank of the target finds on each of the source's ----

function sharedBy(a, b) {
  const one = [...a[1]].sort((x, y) => x[0] - y[0]), other = [...b[1]].sort((x, y) => x[0] - y[0]);
  let shared = 0;
  for (let i = 0, j = 0; i < one.length && j < other.length;) {
    const end = Math.min(one[i][0] + one[i][1], other[j][0] + other[j][1]);
    shared += Math.max(0, end - Math.max(one[i][0], other[j][0]));
    if (one[i][0] + one[i][1] === end) ++i; else ++j;
  }
  return shared;
}
// Of the ranks that hold the same, the first.
const firsts = (held) => {
  const seen = new Set();
  return held.map((dims) => dims && !seen.has(dims.join()) && seen.add(dims.join()) ? dims : null);
};
function feeds(source, target) {
  const alike = new Map();
  for (const tensor of tensors) {
    const key = [tensor.cutting, tensor.target, tensor.stages, tensor.targetStages].join("|");
    if (alike.has(key)) alike.get(key).count += 1; else alike.set(key, {tensor, count: 1});
  }
  const sums = target.all.map(() => source.all.map(() => 0));
  const met = new Map();
  const meet = (a, b) => {
    const key = a + "," + b;
    if (!met.has(key)) met.set(key, sharedBy(data.selections[a], data.selections[b]));
    return met.get(key);
  };
  const isCut = (number) => data.cuttings[number][2] > 0 || data.cuttings[number][1].some((row) =>
    row.slice(data.cuttings[number][0].length).some((dim) => data.selections[dim][2] > 0));
  const isTooLong = [...alike.values()].some(({tensor}) => isCut(tensor.cutting) || isCut(tensor.target));
  if (isTooLong || alike.size * source.all.length * target.all.length > MOST_MEETINGS) return null;
  for (const {tensor, count} of alike.values()) {
    const from = firsts(holdersAt(source.all, tensor.cutting, tensor.stages));
    holdersAt(target.all, tensor.target, tensor.targetStages).forEach((wanted, t) => from.forEach((given, s) => {
      if (wanted && given) sums[t][s] += count * wanted.reduce((product, dim, d) => product * meet(dim, given[d]), 1);
    }));
  }
  return sums;
}
function feedTable(source, target) {
  const sums = feeds(source, target);
  if (!sums || source.hidden || target.hidden) return make("p", {class: "note"}, "There are too many ranks or pieces to draw which feeds which.");
  const most = Math.max(1, ...sums.flat());
  const body = make("tbody", {}, ...sums.map((row, t) => make("tr", {}, make("th", {scope: "row"}, rankText(target.all[t])),
    ...row.map((elements, s) => {
      const said = `${rankText(target.all[t])} of the target takes ${thousands(elements)} elements from ${rankText(source.all[s])}`;
      const cell = make("td", {class: elements ? "held" : "none", title: said}, elements ? roughly(elements) : "");
      if (elements) cell.style.setProperty("--share", (0.15 + 0.85 * elements / most).toFixed(2));
      return cell;
    }))));
  const head = make("tr", {}, make("th", {}, "target"), ...source.all.map((rank) => make("th", {scope: "col"}, rankText(rank))));
  return make("figure", {class: "map feeds"}, make("figcaption", {}, "Which ranks of the source feed which of the target"),
              make("div", {class: "scroll"}, make("table", {}, make("thead", {}, head), body)),
              make("p", {class: "note"}, "Elements. A copy that several ranks hold counts at the first of them."));
}

// Elements of a side's layers on each of its ranks.
function elementsMap(name, mesh, ranks, cuttingOf, stagesOf) {
  const cache = new Map();
  const heldBy = (tensor) => {
    const key = cuttingOf(tensor) + "|" + stagesOf(tensor);
    if (!cache.has(key)) {
      cache.set(key, holdersAt(ranks.all, cuttingOf(tensor), stagesOf(tensor)).map((dims) => dims ? elementsOf(dims) : 0));
    }
    return cache.get(key);
  };
  const lines = linesOf((tensor) => [tensor.cutting, tensor.target, tensor.stages, tensor.targetStages].join("|"));
  return mapTable({name, caption: name + (mesh ? ": " + mesh : ""), ranks: ranks.all.map(rankText), moreRanks: ranks.hidden,
                   lines, heldBy, write: roughly, total: "elements of a rank"});
}
function showMap() {
  const source = ranksOf(data.sourceMesh, tensors.map((tensor) => tensor.cutting));
  const parts = [elementsMap("source", data.source, source, (tensor) => tensor.cutting, (tensor) => tensor.stages)];
  if (data.target && tensors.every((tensor) => tensor.target !== null)) {
    const target = ranksOf(data.targetMesh, tensors.map((tensor) => tensor.target));
    parts.push(elementsMap("target", data.target, target, (tensor) => tensor.target, (tensor) => tensor.targetStages),
               feedTable(source, target));
  }
  if (data.ranks.length) {
    parts.push(bytesMap("partitions", "The parts of the source that ZeRO partitions: which rank saved how many bytes of each layer"),
               make("p", {class: "note"}, "A part is the share of one data-parallel rank, of states in all."));
  }
  showAll("The whole model", make("p", {class: "note"}, "How many elements of each layer a rank holds. Ranks that differ " +
    "in data parallelism alone hold the same, and are one column."), ...parts);
}
