#include "tests/unit/compiler/planner/oracle.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "compiler/plan/steps.h"
#include "tests/unit/compiler/planner/fuse.h"

namespace ucp::oracle {

Element Identity(std::int64_t state, std::int64_t tensor, std::int64_t index) {
  return (state << 56) + (tensor << 40) + index;
}

Element AsTerm(Element element, std::int64_t term) { return element < 0 ? element : element + (term << 48); }

std::string Spell(Element element) {
  if (element < 0) return "nothing";
  return fmt::format("element {} of tensor {}, state {}", element & ((std::int64_t{1} << 40) - 1),
                     (element >> 40) & 0xff, element >> 56) +
         fmt::format(", term {}", (element >> 48) & 0xff);
}

namespace {

struct State {
  std::int64_t number;
  const char* name;
  DType dtype;
};
constexpr State kTrained[] = {{0, "exp_avg", DType::kBFloat16}, {1, "fp32", DType::kFloat32}};
constexpr State kWeight[] = {{2, "weight", DType::kBFloat16}};

// Where the elements of one shard stand in the parts, as Shard says it, and the parts themselves.
struct Placed {
  std::vector<List> parts;
  std::vector<Shard> shards;
  std::int64_t part_elements = 0;
};

Shard ShardOf(const LocalTensor& tensor, const Coordinate& coordinate, Spread spread, std::size_t base) {
  Shard shard;
  shard.tensor = tensor.name;
  shard.coordinate = coordinate;
  shard.shape = tensor.shape;
  shard.spread = spread;
  shard.base = static_cast<std::int64_t>(base);
  shard.pieces = tensor.pieces;
  return shard;
}

Placed PlaceFlat(const std::vector<LocalTensor>& tensors, const Coordinate& coordinate, const Strategy& strategy) {
  Placed placed;
  List flat;
  for (const LocalTensor& tensor : tensors) {
    flat.insert(flat.end(), static_cast<std::size_t>(strategy.gap), kNothing);
    placed.shards.push_back(ShardOf(tensor, coordinate, Spread::kAcrossBuffer, flat.size()));
    flat.insert(flat.end(), tensor.elements.begin(), tensor.elements.end());
  }
  std::size_t real = flat.size();
  auto ranks = static_cast<std::size_t>(strategy.ranks);
  while (flat.size() % ranks != 0 || flat.empty()) flat.push_back(kNothing);
  std::size_t width = flat.size() / ranks;
  placed.part_elements = static_cast<std::int64_t>(width);
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    placed.parts.emplace_back();
    for (std::size_t i = rank * width; i < (rank + 1) * width; ++i) {
      if (i < real || !strategy.stripped) placed.parts.back().push_back(flat[i]);
    }
  }
  return placed;
}

Placed PlaceEachTensor(const std::vector<LocalTensor>& tensors, const Coordinate& coordinate,
                       const Strategy& strategy) {
  Placed placed;
  auto ranks = static_cast<std::size_t>(strategy.ranks);
  placed.parts.resize(ranks);
  for (const LocalTensor& tensor : tensors) {
    for (List& part : placed.parts) part.insert(part.end(), static_cast<std::size_t>(strategy.gap), kNothing);
    placed.shards.push_back(ShardOf(tensor, coordinate, Spread::kEachTensor, placed.parts[0].size()));
    std::size_t i = 0;
    std::size_t each = (tensor.elements.size() + ranks - 1) / ranks;
    for (List& part : placed.parts) {
      for (std::size_t n = 0; n < each; ++n, ++i) {
        part.push_back(i < tensor.elements.size() ? tensor.elements[i] : kNothing);
      }
    }
  }
  placed.part_elements = static_cast<std::int64_t>(placed.parts[0].size());
  return placed;
}

Placed PlaceSingle(const LocalTensor& tensor, const Coordinate& coordinate, const Strategy& strategy) {
  Placed placed;
  List part(static_cast<std::size_t>(strategy.gap), kNothing);
  Shard shard = ShardOf(tensor, coordinate, Spread::kAcrossBuffer, part.size());
  if (strategy.style == Style::kTransposed) {
    std::int64_t stride = 2;
    for (std::int64_t length : tensor.shape) {
      shard.strides.push_back(stride);
      stride *= length;
    }
    part.resize(part.size() + 2 * tensor.elements.size(), kNothing);
    for (std::size_t i = 0; i < tensor.elements.size(); ++i) {
      auto rest = static_cast<std::int64_t>(i);
      std::int64_t place = shard.base;
      for (std::size_t d = tensor.shape.size(); d-- > 0;) {
        place += rest % tensor.shape[d] * shard.strides[d];
        rest /= tensor.shape[d];
      }
      part[static_cast<std::size_t>(place)] = tensor.elements[i];
    }
  } else {
    part.insert(part.end(), tensor.elements.begin(), tensor.elements.end());
  }
  placed.part_elements = static_cast<std::int64_t>(part.size());
  placed.parts.push_back(part);
  placed.shards.push_back(shard);
  return placed;
}

// Puts what was placed into files, one for each part and state, with a header and free places as blobs.
class Builder {
 public:
  explicit Builder(const Strategy& strategy) : strategy_(strategy) {}

  void Add(const Placed& placed, const std::string& stem, std::span<const State> states) {
    Storage& storage = side.files.storage;
    BufferSet set;
    for (const State& state : states) {
      Buffer buffer{state.dtype, placed.part_elements, {}};
      for (std::size_t p = 0; p < placed.parts.size(); ++p) {
        buffer.parts.push_back(AddPart(placed.parts[p], fmt::format("{}_rank{}_{}.bin", stem, p, state.name), state));
      }
      set.push_back({state.name, storage.Add(buffer)});
    }
    BufferSetId id = storage.Add(set);
    for (Shard shard : placed.shards) {
      shard.states = id;
      storage.shards.push_back(shard);
    }
  }

  Side side;

 private:
  static constexpr std::uint64_t kHeaderBytes = 16;

  BufferPart AddPart(const List& elements, const std::string& path, const State& state) {
    Storage& storage = side.files.storage;
    std::vector<Element> places(static_cast<std::size_t>(strategy_.lead), kNothing);
    for (std::int64_t element : elements) {
      places.push_back(element < 0 ? kNothing : element + Identity(state.number, 0, 0));
    }
    auto bytes = places.size() * static_cast<std::uint64_t>(ItemBytes(state.dtype));
    FileId file = storage.Add(StoredFile{"data/" + path, kHeaderBytes + bytes, ""});
    RecordId record = storage.Add(Record{file, kHeaderBytes, bytes, std::nullopt});
    side.memory.push_back(places);
    side.files.placements.push_back({file, 0, side.files.AddBlob(std::string(kHeaderBytes, 'h'))});
    side.files.crc_fields.push_back({file, 4, record});
    return {record, strategy_.lead, static_cast<std::int64_t>(elements.size())};
  }

  const Strategy& strategy_;
};

// The places of the records that belong to no shard, padding included or not, become blobs of zeros.
void AddBlobsForFreePlaces(Side& side) {
  const Storage& storage = side.files.storage;
  std::vector<std::vector<bool>> taken;
  for (const auto& places : side.memory) taken.emplace_back(places.size(), false);
  for (const Shard& shard : storage.shards) {
    std::int64_t elements = 1;
    for (std::int64_t length : shard.shape) elements *= length;
    for (const StateBuffer& entry : storage.buffer_set(shard.states)) {
      const Buffer& buffer = storage.buffer(entry.buffer);
      auto ranks = static_cast<std::int64_t>(buffer.parts.size());
      std::int64_t each = (elements + ranks - 1) / ranks;
      for (std::int64_t i = 0; i < elements; ++i) {
        std::int64_t part = shard.spread == Spread::kEachTensor ? i / each : (shard.base + i) / buffer.part_elements;
        std::int64_t place =
            shard.spread == Spread::kEachTensor ? shard.base + i % each : (shard.base + i) % buffer.part_elements;
        const BufferPart& held = buffer.parts[static_cast<std::size_t>(part)];
        if (place < held.elements)
          taken[held.record.index()][static_cast<std::size_t>(held.first_element + place)] = true;
      }
    }
  }
  for (std::size_t r = 0; r < taken.size(); ++r) {
    const Record& record = storage.records[r];
    std::uint64_t item = taken[r].empty() ? 0 : record.bytes / taken[r].size();
    for (std::size_t i = 0; i < taken[r].size();) {
      std::size_t end = i;
      while (end < taken[r].size() && !taken[r][end]) ++end;
      if (end > i) {
        side.files.placements.push_back(
            {record.file, record.begin + i * item, side.files.AddBlob(std::string((end - i) * item, '\0'))});
      }
      i = end + 1;
    }
  }
}

Placed Place(const std::vector<LocalTensor>& tensors, const Coordinate& coordinate, const Strategy& strategy) {
  return strategy.style == Style::kFlat ? PlaceFlat(tensors, coordinate, strategy)
                                        : PlaceEachTensor(tensors, coordinate, strategy);
}

std::string Stem(const Coordinate& coordinate) {
  std::string stem = "at";
  for (const auto& [axis, index] : coordinate.at) stem += fmt::format("_{}{}", axis, index);
  return stem;
}

bool IsOneOf(std::int64_t place, const std::vector<std::int64_t>& places) {
  return std::find(places.begin(), places.end(), place) != places.end();
}

bool IsAt(const TensorCut& tensor, const Coordinate& coordinate) {
  bool is_at = !tensor.stages || IsOneOf(coordinate.At("pp"), *tensor.stages);
  for (const auto& [axis, places] : tensor.only_at) is_at = is_at && IsOneOf(coordinate.At(axis), places);
  return is_at;
}

std::size_t NumberOf(const std::string& name) { return static_cast<std::size_t>(std::stoll(name.substr(1))); }

// As a list of single positions.
ProductSet SetOf(const std::vector<TensorCut>& tensors, const std::string& name, const Mesh& mesh,
                 const Coordinate& coordinate) {
  ProductSet set;
  for (const ShapeExpr& dim : tensors[NumberOf(name)].dims) {
    Selection& selection = set.dims.emplace_back();
    const List positions = *Positions(dim, mesh, coordinate);
    for (std::int64_t position : positions) {
      if (position < 0) {
        selection.AppendPadding(1);
      } else {
        selection.Append(position, 1);
      }
    }
  }
  return set;
}

}  // namespace

Side Build(const std::vector<TensorCut>& tensors, const Strategy& strategy) {
  Builder builder(strategy);
  Side& side = builder.side;
  side.files.format = "oracle";
  side.files.mesh = side.layout.mesh = strategy.mesh;
  side.files.directories = {"data"};
  side.files.weights_only = strategy.rounded.has_value() && !strategy.trained;
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    TensorLayout layout;
    layout.name = fmt::format("t{}", t);
    layout.dims = tensors[t].dims;
    layout.stages = tensors[t].stages;
    layout.only_at = tensors[t].only_at;
    layout.mean_axes = tensors[t].mean_axes;
    layout.declared_at = fmt::format("oracle.ucp:{}", t + 1);
    side.layout.tensors.push_back(layout);
  }
  std::mt19937_64 fuse(strategy.fuse);
  std::span<const State> trained = kTrained;
  if (!strategy.moments) trained = trained.subspan(1);
  for (const Coordinate& coordinate : AllCoordinates(strategy.mesh)) {
    std::vector<LocalTensor> held;
    for (std::size_t t = 0; t < tensors.size(); ++t) {
      if (!IsAt(tensors[t], coordinate)) continue;
      LocalTensor local{fmt::format("t{}", t), {}, HeldIndices(tensors[t].dims, strategy.mesh, coordinate), {}};
      for (const ShapeExpr& dim : tensors[t].dims) {
        local.shape.push_back(static_cast<std::int64_t>(Positions(dim, strategy.mesh, coordinate)->size()));
      }
      std::int64_t term = tensors[t].terms - 1;
      for (const Axis& axis : strategy.mesh.axes) {
        const std::vector<std::string>& averaged = tensors[t].mean_axes;
        bool is_averaged = std::find(averaged.begin(), averaged.end(), axis.name) != averaged.end();
        if (is_averaged) term = term * axis.size + coordinate.At(axis.name);
      }
      for (std::int64_t& index : local.elements) {
        if (index >= 0) index = AsTerm(Identity(0, static_cast<std::int64_t>(t), index), term);
      }
      held.push_back(local);
    }
    if (strategy.fuse != 0) {
      held = FuseSome(
          std::move(held), fuse,
          [&](const std::string& name) { return SetOf(tensors, name, strategy.mesh, coordinate); },
          [&](const std::string& name) { return tensors[NumberOf(name)].terms; });
    }
    std::string stem = Stem(coordinate);
    bool together = strategy.style == Style::kFlat || strategy.style == Style::kEachTensor;
    const bool is_apart = strategy.apart && trained.size() > 1;
    const std::span<const State> beside = is_apart ? trained.subspan(1) : trained;
    if (together && strategy.trained) builder.Add(Place(held, coordinate, strategy), stem, beside);
    for (const LocalTensor& tensor : held) {
      Placed alone = PlaceSingle(tensor, coordinate, strategy);
      if (!together && strategy.trained) builder.Add(alone, stem + "_" + tensor.name, beside);
      if (is_apart && strategy.trained) builder.Add(alone, stem + "_" + tensor.name, trained.first(1));
      if (strategy.weights) builder.Add(alone, stem + "_" + tensor.name, kWeight);
      if (strategy.rounded) builder.Add(alone, stem + "_" + tensor.name, {{{1, "weight", *strategy.rounded}}});
    }
  }
  AddBlobsForFreePlaces(side);
  return std::move(side);
}

Inventory AsInventory(const Side& side) {
  Inventory inventory;
  inventory.format = "oracle";
  inventory.mesh = side.layout.mesh;
  inventory.storage = side.files.storage;
  return inventory;
}

}  // namespace ucp::oracle
