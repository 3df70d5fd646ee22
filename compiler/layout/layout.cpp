#include "compiler/layout/layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "compiler/support/error.h"

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

llvm::Expected<ProductSet> HeldAt(const TensorLayout& tensor, const Mesh& mesh, const Coordinate& coordinate) {
  ProductSet set;
  for (const ShapeExpr& dim : tensor.dims) {
    auto selection = Select(dim, mesh, coordinate);
    if (!selection) return AddContext(selection.takeError(), fmt::format("tensor `{}`", tensor.name));
    set.dims.push_back(std::move(*selection));
  }
  return set;
}

std::vector<Coordinate> CoordinatesOf(const TensorLayout& tensor, const Mesh& mesh) {
  std::vector<std::string> axes;
  for (const ShapeExpr& dim : tensor.dims) {
    for (const std::string& axis : CuttingAxes(dim)) {
      if (std::find(axes.begin(), axes.end(), axis) == axes.end()) axes.push_back(axis);
    }
  }
  std::vector<Coordinate> all = {{}};
  for (const Axis& axis : mesh.axes) {
    if (std::find(axes.begin(), axes.end(), axis.name) == axes.end()) continue;
    std::vector<Coordinate> longer;
    for (const Coordinate& coordinate : all) {
      for (std::int64_t i = 0; i < axis.size; ++i) {
        longer.push_back(coordinate);
        longer.back().at[axis.name] = i;
      }
    }
    all = std::move(longer);
  }
  return all;
}

namespace {

// Sweeps over all runs of one dimension: how often is each logical position held? The answer for positions [0, length).
bool HeldSomewhere(const std::vector<ProductSet>& sets, std::size_t dim, std::int64_t length, std::int64_t& missing) {
  std::vector<Run> runs;
  for (const ProductSet& set : sets) {
    runs.insert(runs.end(), set.dims[dim].runs().begin(), set.dims[dim].runs().end());
  }
  std::sort(runs.begin(), runs.end(), [](const Run& a, const Run& b) { return a.logical_begin < b.logical_begin; });
  std::int64_t covered = 0;
  for (const Run& run : runs) {
    if (run.logical_begin > covered) break;
    covered = std::max(covered, run.logical_begin + run.length);
  }
  missing = covered;
  return covered >= length;
}

llvm::Error VerifyTensor(const TensorLayout& tensor, const Mesh& mesh) {
  UCP_ASSIGN_OR_RETURN(std::vector<std::int64_t> shape, LogicalShape(tensor));
  std::vector<ProductSet> sets;
  for (const Coordinate& coordinate : CoordinatesOf(tensor, mesh)) {
    UCP_ASSIGN_OR_RETURN(ProductSet set, HeldAt(tensor, mesh, coordinate));
    for (const Selection& dim : set.dims) {
      if (!dim.IsIncreasing()) {
        return Fail(ErrorCode::kSpec, "tensor `{}`: the positions held at {} are not increasing", tensor.name,
                    ToString(coordinate));
      }
    }
    sets.push_back(std::move(set));
  }
  for (std::size_t d = 0; d < shape.size(); ++d) {
    std::int64_t missing = 0;
    if (!HeldSomewhere(sets, d, shape[d], missing)) {
      return Fail(ErrorCode::kSpec, "tensor `{}`: no rank holds position {} of the {} of dimension {}", tensor.name,
                  missing, shape[d], d);
    }
  }
  return llvm::Error::success();
}

}  // namespace

llvm::Error VerifyLayout(const Layout& layout) {
  for (const TensorLayout& tensor : layout.tensors) UCP_RETURN_IF_ERROR(VerifyTensor(tensor, layout.mesh));
  return llvm::Error::success();
}

namespace {

std::string ShapeText(const std::vector<std::int64_t>& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

}  // namespace

llvm::Expected<Layout> WholeLayout(const Inventory& inventory) {
  std::map<std::string, const Shard*> first;
  for (const Shard& shard : inventory.storage.shards) {
    auto [entry, added] = first.emplace(shard.tensor, &shard);
    if (added || entry->second->shape == shard.shape) continue;
    return Fail(ErrorCode::kBadData,
                "tensor `{}` has shape {} at {} and {} at {}; write a spec that says how it is cut, "
                "and name it with --spec",
                shard.tensor, ShapeText(entry->second->shape), ToString(entry->second->coordinate),
                ShapeText(shard.shape), ToString(shard.coordinate));
  }
  Layout layout;
  layout.mesh = inventory.mesh;
  for (const auto& [name, shard] : first) {
    if (inventory.aliases.contains(name)) continue;
    TensorLayout tensor;
    tensor.name = name;
    for (std::int64_t length : shard->shape) tensor.dims.push_back(ShapeExpr::Length(length));
    tensor.declared_at = "the checkpoint's own header";
    for (const auto& [alias, canonical] : inventory.aliases) {
      if (canonical == name) tensor.aliases.push_back(alias);
    }
    layout.tensors.push_back(std::move(tensor));
  }
  return layout;
}

llvm::Expected<Layout> AtomicLayout(const Layout& layout) {
  Layout atomic;
  for (const TensorLayout& tensor : layout.tensors) {
    UCP_ASSIGN_OR_RETURN(std::vector<std::int64_t> shape, LogicalShape(tensor));
    TensorLayout whole = tensor;
    whole.dims.clear();
    for (std::int64_t length : shape) whole.dims.push_back(ShapeExpr::Length(length));
    whole.stages.reset();
    whole.unused_stages.clear();
    atomic.tensors.push_back(std::move(whole));
  }
  return atomic;
}

std::string ToString(const TensorLayout& tensor) {
  std::string dims;
  for (const ShapeExpr& dim : tensor.dims) dims += fmt::format("{}{}", dims.empty() ? "" : ", ", ToString(dim));
  std::string text = fmt::format("{} [{}]", tensor.name, dims);
  if (tensor.stages) text += fmt::format(" at pp={}", fmt::join(*tensor.stages, ","));
  if (!tensor.unused_stages.empty()) text += fmt::format(" unused pp={}", fmt::join(tensor.unused_stages, ","));
  if (tensor.optional) text += " optional";
  if (tensor.buffer) text += " buffer";
  for (const std::string& alias : tensor.aliases) text += fmt::format(" tie {}", alias);
  return text;
}

}  // namespace ucp
