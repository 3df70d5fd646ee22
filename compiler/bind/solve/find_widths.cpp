#include "compiler/bind/solve/find_widths.h"

#include <fmt/format.h>

#include "compiler/bind/solve/solve_shape.h"
#include "compiler/support/checked_math.h"

namespace ucp {
namespace {

class WidthFinder {
 public:
  WidthFinder(const Values& values, const InventoryIndex& found, DiagnosticSink& sink)
      : values_(values), found_(found), sink_(sink) {}

  void Find(const BoundTensor& tensor) {
    const TensorDeclaration& declaration = values_.spec.tensors[tensor.declaration];
    for (std::size_t i = 0; i < declaration.dims.size(); ++i) {
      for (const Formula* cut : CutsOf(declaration.dims[i])) {
        if (!TakesHeaderWidths(*cut)) continue;
        bool counts = HasCounter(declaration.dims[i]);
        HeaderCut key{cut->cut_range.begin, counts ? tensor.counters : std::vector<std::int64_t>{}};
        auto [entry, added] = widths_.try_emplace(std::move(key));
        if (added) entry->second = FindOne(tensor, i, *cut);
      }
    }
  }

  FoundWidths Finish() && { return std::move(widths_); }

 private:
  // One for each coordinate, or none.
  std::vector<std::int64_t> FindOne(const BoundTensor& tensor, std::size_t dim, const Formula& cut) {
    const Formula& formula = values_.spec.tensors[tensor.declaration].dims[dim];
    std::map<std::int64_t, std::int64_t> by_index;
    for (const Shard* shard : ShardsOf(tensor)) {
      auto index = IndexOf(cut, shard->coordinate);
      if (!index || by_index.contains(*index)) continue;
      auto width = dim < shard->shape.size()
                       ? SolveWidth(formula, cut, shard->shape[dim], shard->coordinate, values_, tensor.counters)
                       : std::nullopt;
      if (!width) {
        Report(formula, cut, *shard);
        return {};
      }
      by_index.emplace(*index, *width);
    }
    double degree = 1;  // Of a mesh that a file may ask for, which need not fit in 63 bits.
    for (const std::string& axis : cut.axes) degree *= static_cast<double>(values_.mesh.Size(axis));
    if (static_cast<double>(by_index.size()) < degree) return {};
    std::vector<std::int64_t> widths;
    for (const auto& [index, width] : by_index) widths.push_back(width);
    return widths;
  }

  std::vector<const Shard*> ShardsOf(const BoundTensor& tensor) const {
    std::vector<const Shard*> shards;
    auto add = [&](std::string_view name) {
      const FoundTensor* found = found_.Find(name);
      if (found != nullptr) shards.insert(shards.end(), found->shards.begin(), found->shards.end());
    };
    add(tensor.name);
    for (const std::string& alias : tensor.aliases) add(alias);
    return shards;
  }

  std::optional<std::int64_t> IndexOf(const Formula& cut, const Coordinate& coordinate) const {
    std::optional<std::int64_t> index = 0;
    for (const std::string& axis : cut.axes) {
      std::int64_t size = values_.mesh.Size(axis);
      if (coordinate.At(axis) < 0 || coordinate.At(axis) >= size) return std::nullopt;
      if (index) index = CheckedMultiply(*index, size);
      if (index) index = CheckedAdd(*index, coordinate.At(axis));
    }
    return index;
  }

  void Report(const Formula& formula, const Formula& cut, const Shard& shard) {
    sink_.Report(
        {.kind = DiagnosticKind::kShapeMismatch,
         .place = formula.range,
         .message = fmt::format("no width of `{}` makes the shape {} that `{}` has at {}",
                                values_.spec.TextOf(cut.range), ShapeText(shard), shard.tensor, WhereText(shard)),
         .notes = NotesOf(formula, values_)});
  }

  const Values& values_;
  const InventoryIndex& found_;
  DiagnosticSink& sink_;
  FoundWidths widths_;
};

}  // namespace

FoundWidths FindWidths(const Values& values, const std::vector<BoundTensor>& tensors, const InventoryIndex& found,
                       DiagnosticSink& sink) {
  WidthFinder finder(values, found, sink);
  for (const BoundTensor& tensor : tensors) finder.Find(tensor);
  return std::move(finder).Finish();
}

}  // namespace ucp
