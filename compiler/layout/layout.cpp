#include "compiler/layout/layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string_view>
#include <unordered_map>

#include "compiler/layout/expert_cut.h"
#include "compiler/support/check.h"
#include "compiler/support/error.h"
#include "compiler/support/user_option.h"

namespace ucp {

const TensorLayout* Layout::Find(const std::string& name) const {
  auto found = std::lower_bound(tensors.begin(), tensors.end(), name,
                                [](const TensorLayout& tensor, const std::string& key) { return tensor.name < key; });
  if (found != tensors.end() && found->name == name) return &*found;
  for (const TensorLayout& tensor : tensors) {
    if (std::find(tensor.aliases.begin(), tensor.aliases.end(), name) != tensor.aliases.end()) return &tensor;
  }
  return nullptr;
}

llvm::Expected<std::vector<std::int64_t>> LogicalShape(const TensorLayout& tensor) {
  std::vector<std::int64_t> shape;
  for (const ShapeExpr& dim : tensor.dims) {
    UCP_ASSIGN_OR_RETURN(std::int64_t length, LogicalLength(dim));
    shape.push_back(length);
  }
  return shape;
}

namespace {

bool Contains(const auto& list, const auto& item) { return std::find(list.begin(), list.end(), item) != list.end(); }

bool NameIsAt(const TensorLayout& tensor, const Coordinate& coordinate) {
  return std::all_of(tensor.only_at.begin(), tensor.only_at.end(),
                     [&](const auto& entry) { return Contains(entry.second, coordinate.At(entry.first)); });
}

}  // namespace

bool IsHeldAt(const TensorLayout& tensor, const Coordinate& coordinate) {
  std::int64_t stage = coordinate.At("pp");
  bool on_stage = !tensor.stages || Contains(*tensor.stages, stage) || Contains(tensor.unused_stages, stage);
  return on_stage && NameIsAt(tensor, coordinate);
}

llvm::Expected<ProductSet> HeldAt(const TensorLayout& tensor, const Mesh& mesh, const Coordinate& coordinate) {
  if (!tensor.boxes.empty()) {
    const auto place = static_cast<std::size_t>(coordinate.At(kBoxAxis));
    UCP_CHECK(place < tensor.boxes.size(), "tensor `{}` has {} boxes, and not {}", tensor.name, tensor.boxes.size(),
              place);
    return tensor.boxes[place];
  }
  ProductSet set;
  std::size_t pieces = 1;
  for (const ShapeExpr& dim : tensor.dims) {
    auto selection = Select(dim, mesh, coordinate);
    if (!selection) return AddContext(selection.takeError(), fmt::format("tensor `{}`", tensor.name));
    if (!selection->IsIncreasing()) pieces *= IncreasingPieces(*selection).size();
    if (pieces > kMaxIncreasingPieces) {
      return Fail(ErrorCode::kUnsupported,
                  "tensor `{}`: the positions that the rank at {} holds are listed in an order that falls into {} "
                  "increasing pieces, and at most {} are supported",
                  tensor.name, ToString(coordinate), pieces, kMaxIncreasingPieces);
    }
    set.dims.push_back(std::move(*selection));
  }
  return set;
}

namespace {

// Every coordinate of those axes of `mesh` that are in `axes`, first axis slowest.
std::vector<Coordinate> CoordinatesOfAxes(const std::vector<std::string>& axes, const Mesh& mesh) {
  std::vector<Coordinate> all = {{}};
  for (const std::string& axis : axes) {
    std::vector<Coordinate> longer;
    for (const Coordinate& coordinate : all) {
      for (std::int64_t i = 0; i < mesh.Size(axis); ++i) {
        longer.push_back(coordinate);
        longer.back().at[axis] = i;
      }
    }
    all = std::move(longer);
  }
  return all;
}

}  // namespace

std::vector<Coordinate> CoordinatesOf(const TensorLayout& tensor, const Mesh& mesh) {
  std::vector<std::string> cutting;
  for (const ShapeExpr& dim : tensor.dims) {
    for (const std::string& axis : CuttingAxes(dim)) cutting.push_back(axis);
  }
  for (const auto& [axis, places] : tensor.only_at) cutting.push_back(axis);
  if (!tensor.boxes.empty()) cutting.emplace_back(kBoxAxis);
  std::vector<std::string> axes = tensor.axes;
  if (axes.empty()) {
    for (const Axis& axis : mesh.axes) axes.push_back(axis.name);
  }
  std::erase_if(axes, [&](const std::string& axis) { return !Contains(cutting, axis); });
  std::vector<Coordinate> all = CoordinatesOfAxes(axes, mesh);
  std::erase_if(all, [&](const Coordinate& coordinate) {
    const bool has_box = tensor.boxes.empty() || coordinate.At(kBoxAxis) < std::ssize(tensor.boxes);
    return !has_box || !NameIsAt(tensor, coordinate);
  });
  return all;
}

namespace {

std::string ShapeText(const std::vector<std::int64_t>& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

}  // namespace

ShapeExpr CutByExperts(const ExpertPlaces& places) {
  std::set<std::int64_t> experts;
  for (const std::vector<std::int64_t>& own : places) experts.insert(own.begin(), own.end());
  const auto count = std::ssize(experts);
  if (places.size() == 1 && std::is_sorted(places[0].begin(), places[0].end())) return ShapeExpr::Length(count);
  ShapeExpr cut = ShapeExpr::Cut(ShapeExpr::Length(count), {"ep"});
  std::int64_t next = 0;
  for (const std::vector<std::int64_t>& own : places) {
    for (std::int64_t expert : own) {
      if (expert != next++ || own.size() != places[0].size()) cut.rule = CutRule::kList;
    }
    if (own.size() != places[0].size()) cut.rule = CutRule::kList;
  }
  if (cut.rule == CutRule::kList) cut.lists = places;
  return cut;
}

namespace {

// Every tensor of a checkpoint whose shards are boxes.
Layout WholeLayoutOfBoxes(const Inventory& inventory) {
  Layout layout;
  layout.mesh = inventory.mesh;
  for (const auto& [name, boxes] : *inventory.boxes()) {
    TensorLayout& tensor = layout.tensors.emplace_back();
    tensor.name = name;
    for (std::int64_t length : boxes.shape) tensor.dims.push_back(ShapeExpr::Length(length));
    tensor.declared_at = "the checkpoint's own metadata";
  }
  return layout;
}

}  // namespace

llvm::Expected<Layout> WholeLayout(const Inventory& inventory) {
  if (inventory.boxes() != nullptr) return WholeLayoutOfBoxes(inventory);
  std::unordered_map<std::string_view, const Shard*> first;
  first.reserve(inventory.storage.shards.size());
  for (const Shard& shard : inventory.storage.shards) {
    auto [entry, added] = first.emplace(shard.tensor, &shard);
    if (added || entry->second->shape == shard.shape) continue;
    if (inventory.expert_places.contains(shard.tensor)) continue;  // Ranks may have several numbers of experts.
    return Fail(ErrorCode::kBadData,
                "tensor `{}` has shape {} at {} and {} at {}; write a spec that says how it is cut, "
                "and name it with {}",
                shard.tensor, ShapeText(entry->second->shape), ToString(entry->second->coordinate),
                ShapeText(shard.shape), ToString(shard.coordinate), OptionName(UserOption::kSpec));
  }
  std::vector<const Shard*> sorted;
  for (const auto& [name, shard] : first) {
    if (!inventory.aliases.contains(shard->tensor)) sorted.push_back(shard);
  }
  std::ranges::sort(sorted, {}, &Shard::tensor);
  Layout layout;
  layout.mesh = inventory.mesh;
  layout.tensors.reserve(sorted.size());
  for (const Shard* shard : sorted) {
    TensorLayout& tensor = layout.tensors.emplace_back();
    tensor.name = shard->tensor;
    tensor.dims.reserve(shard->shape.size());
    for (std::int64_t length : shard->shape) tensor.dims.push_back(ShapeExpr::Length(length));
    if (auto places = inventory.expert_places.find(tensor.name); places != inventory.expert_places.end()) {
      tensor.dims.front() = CutByExperts(places->second);
    }
    tensor.declared_at = "the checkpoint's own header";
    for (const auto& [alias, canonical] : inventory.aliases) {
      if (canonical == tensor.name) tensor.aliases.push_back(alias);
    }
  }
  return layout;
}

llvm::Expected<Layout> AtomicLayout(const Layout& layout) {
  Layout atomic;
  atomic.tensors.reserve(layout.tensors.size());
  for (const TensorLayout& tensor : layout.tensors) {
    UCP_ASSIGN_OR_RETURN(const std::vector<std::int64_t> shape, LogicalShape(tensor));
    TensorLayout& whole = atomic.tensors.emplace_back();
    whole.name = tensor.name;
    whole.dims.reserve(shape.size());
    for (std::int64_t length : shape) whole.dims.push_back(ShapeExpr::Length(length));
    whole.optional = tensor.optional;
    whole.buffer = tensor.buffer;
    whole.aliases = tensor.aliases;
    whole.declared_at = tensor.declared_at;
  }
  return atomic;
}

std::string ToString(const TensorLayout& tensor) {
  std::string dims;
  for (const ShapeExpr& dim : tensor.dims) dims += fmt::format("{}{}", dims.empty() ? "" : ", ", ToString(dim));
  std::string text = fmt::format("{} [{}]", tensor.name, dims);
  if (!tensor.boxes.empty()) text += fmt::format(" in {} boxes", tensor.boxes.size());
  if (!tensor.axes.empty()) text += fmt::format(" of {}", fmt::join(tensor.axes, ", "));
  if (tensor.stages) text += fmt::format(" at pp={}", fmt::join(*tensor.stages, ","));
  if (!tensor.unused_stages.empty()) text += fmt::format(" unused pp={}", fmt::join(tensor.unused_stages, ","));
  for (const auto& [axis, places] : tensor.only_at) text += fmt::format(" at {}={}", axis, fmt::join(places, ","));
  if (tensor.mean_axes.size() == 1) text += fmt::format(" mean@{}", tensor.mean_axes[0]);
  if (tensor.mean_axes.size() > 1) text += fmt::format(" mean@({})", fmt::join(tensor.mean_axes, ", "));
  if (tensor.scale != Scale{}) text += fmt::format(" scale({} / {})", tensor.scale.numerator, tensor.scale.denominator);
  if (tensor.optional) text += " optional";
  if (tensor.buffer) text += " buffer";
  for (const std::string& alias : tensor.aliases) text += fmt::format(" tie {}", alias);
  return text;
}

}  // namespace ucp
