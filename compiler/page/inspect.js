// ---- The page of `ucprun inspect --html`, behind list.js and map.js ----
// The data is what runtime/driver/inspect_page.cpp writes: texts and rows of bytes are stored once and named by number.

const tensors = data.tensors.map(([name, kind, shape, states, bytes, held]) => ({
  name, kind: data.texts[kind], shape: data.texts[shape], states: data.texts[states], bytes, held,
}));
const COLUMNS = [
  {key: "name", heading: "Tensor"},
  {key: "kind", heading: "Kind", text: (tensor) => tensor.kind, value: (tensor) => tensor.kind},
  {key: "shape", heading: "Shape", text: (tensor) => tensor.shape, value: (tensor) => tensor.shape},
  {key: "bytes", heading: "Bytes", text: (tensor) => bytesText(tensor.bytes), value: (tensor) => tensor.bytes},
];
const kindOf = (tensor) => tensor.kind;

function show(tensor) {
  const body = make("tbody", {}, ...data.ranks.flatMap((rank, i) => bytesOn(tensor)[i] ?
    [make("tr", {}, make("td", {}, rank), make("td", {}, thousands(bytesOn(tensor)[i])))] : []));
  const head = make("tr", {}, make("th", {}, "Ranks"), make("th", {}, "Bytes"));
  byId("tensor").replaceChildren(make("h2", {}, tensor.name), termList([
    ["kind", tensor.kind], ["shape", tensor.shape], ["states", tensor.states],
    ["bytes", thousands(tensor.bytes)],
  ]), make("div", {class: "holders"}, make("table", {}, make("thead", {}, head), body)));
}
function showMap() {
  showAll("The whole checkpoint", termList(data.lines), bytesMap("bytes", "Bytes of each layer on each rank"),
    make("p", {class: "note"}, data.note));
}
byId("meshes").textContent = data.identity;
begin([...new Set(tensors.map(kindOf))].sort(), "The whole checkpoint");
