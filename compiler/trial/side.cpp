// The holders come from the oracle's lists and not from Select(): for each tensor, every coordinate of the axes that
// cut models, and of those data-like axes that cut this tensor. Tensors of one coordinate share a buffer.
#include "compiler/trial/side.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "compiler/support/check.h"
#include "compiler/trial/positions.h"

namespace ucp {
namespace {

using oracle::kNothing;
using oracle::List;

constexpr std::int64_t kDrift = std::int64_t{1} << 49;
constexpr int kOffsetBit = 50;  // The offset stands in this bit and those above it.
constexpr int kIndexBits = 32;

struct LocalTensor {
  std::string name;
  bool buffer = false;
  std::vector<std::int64_t> shape;
  List elements;
};

bool Contains(const auto& list, const auto& item) { return std::find(list.begin(), list.end(), item) != list.end(); }

// The ranks that have a shard of their own, at the axes that tell them apart.
Mesh ShardMesh(const TensorLayout& tensor, const Mesh& mesh) {
  std::vector<std::string> cutting;
  for (const ShapeExpr& dim : tensor.dims) {
    for (const std::string& axis : CuttingAxes(dim)) cutting.push_back(axis);
  }
  Mesh shards;
  for (const Axis& axis : mesh.axes) {
    bool own = tensor.axes.empty() || Contains(tensor.axes, axis.name);
    bool cuts_models = Contains(std::vector<std::string>{"pp", "tp", "ep", "etp"}, axis.name);
    if (own && (cuts_models || Contains(cutting, axis.name))) shards.axes.push_back(axis);
  }
  return shards;
}

bool IsThere(const TensorLayout& tensor, const Coordinate& coordinate) {
  std::int64_t stage = coordinate.At("pp");
  if (tensor.stages && !Contains(*tensor.stages, stage) && !Contains(tensor.unused_stages, stage)) return false;
  for (const auto& [axis, places] : tensor.only_at) {
    if (!Contains(places, coordinate.At(axis))) return false;
  }
  return true;
}

class Builder {
 public:
  Builder(const Layout& layout, const SideStyle& style) : style_(style) {
    side.layout = layout;
    side.files.format = "trial";
    side.files.mesh = layout.mesh;
  }

  void Run() {
    std::map<std::pair<Coordinate, bool>, std::vector<LocalTensor>> held;
    for (std::size_t t = 0; t < side.layout.tensors.size(); ++t) {
      const TensorLayout& tensor = side.layout.tensors[t];
      std::set<List> distinct;
      for (const Coordinate& coordinate : oracle::AllCoordinates(ShardMesh(tensor, side.layout.mesh))) {
        if (!IsThere(tensor, coordinate)) continue;
        std::vector<LocalTensor>& here = held[{coordinate, tensor.buffer}];
        here.push_back(Local(t, coordinate));
        distinct.insert(here.back().elements);
        if (!style_.as_found) continue;
        LocalTensor copy = here.back();
        for (const std::string& alias : tensor.aliases) {
          copy.name = alias;
          here.push_back(copy);
        }
      }
      if (side.partly_copied.empty() && Overlap(distinct)) side.partly_copied = tensor.name;
    }
    for (const auto& [key, tensors] : held) Place(key.first, key.second, tensors);
  }

  Side side;

 private:
  static bool Overlap(const std::set<List>& lists) {
    std::set<std::int64_t> elements;
    for (const List& list : lists) {
      for (std::int64_t element : list) {
        if (element != kNothing && !elements.insert(element).second) return true;
      }
    }
    return false;
  }

  LocalTensor Local(std::size_t t, const Coordinate& coordinate) const {
    const TensorLayout& tensor = side.layout.tensors[t];
    LocalTensor local{tensor.name, tensor.buffer, {}, {}};
    for (const ShapeExpr& dim : tensor.dims) {
      std::optional<List> positions = oracle::Positions(dim, side.layout.mesh, coordinate);
      UCP_CHECK(positions.has_value(), "a verified layout cuts `{}` where it does not fit", ToString(dim));
      local.shape.push_back(std::ssize(*positions));
    }
    bool drifted = style_.as_found && Contains(tensor.unused_stages, coordinate.At("pp"));
    for (std::int64_t index : oracle::HeldIndices(tensor.dims, side.layout.mesh, coordinate)) {
      local.elements.push_back(index < 0 ? kNothing : ElementOf(t, index) + (drifted ? kDrift : 0));
    }
    return local;
  }

  // Fills one part of the buffer after the other, and says where each tensor begins.
  void Place(const Coordinate& coordinate, bool buffer, const std::vector<LocalTensor>& tensors) {
    std::vector<List> parts(static_cast<std::size_t>(style_.parts));
    std::vector<std::vector<bool>> free(parts.size());
    std::vector<Shard> shards;
    List flat;
    std::int64_t filled = 0;
    for (const LocalTensor& tensor : tensors) {
      Shard shard;
      shard.tensor = tensor.name;
      shard.kind = buffer ? TensorKind::kBuffer : TensorKind::kParameter;
      shard.coordinate = coordinate;
      shard.shape = tensor.shape;
      if (style_.storing == Storing::kFlat) {
        shard.base = std::ssize(flat);
        flat.insert(flat.end(), tensor.elements.begin(), tensor.elements.end());
      } else {
        shard.spread = Spread::kEachTensor;
        shard.base = filled;
        filled += Deal(tensor.elements, parts, free);
      }
      shards.push_back(std::move(shard));
    }
    if (style_.storing == Storing::kFlat) Deal(flat, parts, free);
    AddBuffer(ToString(coordinate), buffer, parts, free, std::move(shards));
  }

  // Cuts a list into equally long parts, the last ones filled up, and puts each behind what its part has.
  static std::int64_t Deal(const List& list, std::vector<List>& parts, std::vector<std::vector<bool>>& free) {
    std::size_t each = (list.size() + parts.size() - 1) / parts.size();
    for (std::size_t p = 0; p < parts.size(); ++p) {
      for (std::size_t i = p * each; i < (p + 1) * each; ++i) {
        parts[p].push_back(i < list.size() ? list[i] : kNothing);
        free[p].push_back(i >= list.size());
      }
    }
    return static_cast<std::int64_t>(each);
  }

  void AddBuffer(const std::string& stem, bool is_buffer, std::vector<List>& parts,
                 std::vector<std::vector<bool>>& free, std::vector<Shard> shards) {
    Storage& storage = side.files.storage;
    if (parts[0].empty()) {  // A buffer has at least one place.
      for (std::size_t p = 0; p < parts.size(); ++p) {
        parts[p].push_back(kNothing);
        free[p].push_back(true);
      }
    }
    Buffer buffer{DType::kFloat32, std::ssize(parts[0]), {}};
    for (std::size_t p = 0; p < parts.size(); ++p) {
      std::string path = fmt::format("{}{} part {}", stem.empty() ? "all" : stem, is_buffer ? " buffers" : "", p);
      buffer.parts.push_back({AddRecord(path, parts[p], free[p]), 0, std::ssize(parts[p])});
    }
    BufferSetId states = storage.Add(BufferSet{{is_buffer ? kWeightState : kMasterState, storage.Add(buffer)}});
    for (Shard& shard : shards) {
      shard.states = states;
      storage.shards.push_back(std::move(shard));
    }
  }

  // Places behind the end of what was dealt are nobody's: a target writes zeros there.
  RecordId AddRecord(const std::string& path, const List& places, const std::vector<bool>& free) {
    auto item = static_cast<std::uint64_t>(ItemBytes(DType::kFloat32));
    FileId file = side.files.storage.Add(StoredFile{path, places.size() * item, ""});
    for (std::size_t i = 0; i < places.size(); ++i) {
      if (free[i]) side.files.placements.push_back({file, i * item, side.files.AddBlob(std::string(item, '\0'))});
    }
    side.memory.push_back(places);
    return side.files.storage.Add(Record{file, 0, places.size() * item, std::nullopt});
  }

  const SideStyle style_;
};

}  // namespace

std::int64_t ElementOf(std::size_t tensor, std::int64_t index) {
  UCP_CHECK(index < (std::int64_t{1} << kIndexBits), "element {} of a small tensor", index);
  return (static_cast<std::int64_t>(tensor) << kIndexBits) + index;
}

std::int64_t WithOffset(std::int64_t element, std::int64_t offset) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(element) +
                                   (static_cast<std::uint64_t>(offset) << kOffsetBit));
}

ElementName NameOf(std::int64_t element) {
  std::int64_t plain = element & (kDrift - 1);
  return {static_cast<std::size_t>(plain >> kIndexBits), plain & ((std::int64_t{1} << kIndexBits) - 1),
          element >> kOffsetBit};
}

Side BuildSide(const Layout& layout, const SideStyle& style) {
  Builder builder(layout, style);
  builder.Run();
  return std::move(builder.side);
}

Inventory AsInventory(const Side& side) {
  Inventory inventory;
  inventory.format = "trial";
  inventory.mesh = side.layout.mesh;
  inventory.storage = side.files.storage;
  return inventory;
}

}  // namespace ucp
