#include "compiler/bind/match_shapes.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include "compiler/bind/lower/lower_dim.h"
#include "compiler/bind/lower/mesh_fit.h"

namespace ucp {
namespace {

// Where a declared dimension, or the number of dimensions, differs first, and how many tensors it is wrong for.
struct Mismatch {
  const Shard* shard = nullptr;
  std::string length;  // "is 16 on one rank"
  std::size_t tensors = 0;
  std::string_view last_tensor;
};

class ShapeMatcher {
 public:
  ShapeMatcher(const Values& values, const InventoryIndex& found, DiagnosticSink& sink)
      : values_(values), found_(found), sink_(sink), declared_(values.spec.tensors.size()) {}

  void Match(const BoundTensor& tensor) {
    Declared& declared = declared_[tensor.declaration];
    const std::vector<LocalLengths>* lengths = LengthsOf(tensor, declared);
    if (lengths == nullptr) return;
    MatchName(tensor.name, *lengths, declared);
    for (const std::string& alias : tensor.aliases) MatchName(alias, *lengths, declared);
  }

  void Report() {
    for (std::size_t i = 0; i < declared_.size(); ++i) {
      for (const auto& [dim, mismatch] : declared_[i].mismatches) ReportOne(values_.spec.tensors[i], dim, mismatch);
    }
  }

 private:
  static constexpr std::size_t kRank = static_cast<std::size_t>(-1);  // The number of dimensions is wrong.

  struct Declared {
    bool sound = true;
    // By the counters, where some dimension speaks of them; a single entry otherwise.
    std::map<std::vector<std::int64_t>, std::vector<LocalLengths>> lengths;
    std::map<std::size_t, Mismatch> mismatches;
  };

  // nullptr if a dimension of this declaration makes no sense on this mesh, which is reported once.
  const std::vector<LocalLengths>* LengthsOf(const BoundTensor& tensor, Declared& declared) {
    if (!declared.sound) return nullptr;
    const std::vector<Formula>& dims = values_.spec.tensors[tensor.declaration].dims;
    auto [entry, added] = declared.lengths.try_emplace(
        std::any_of(dims.begin(), dims.end(), HasCounter) ? tensor.counters : std::vector<std::int64_t>{});
    if (!added) return &entry->second;
    for (const Formula& dim : dims) {
      auto lowered = LowerDim(dim, values_, tensor.counters, sink_);
      declared.sound = declared.sound && lowered;
      if (!lowered) continue;
      const bool is_whole = found_.inventory().is_whole();
      entry->second.push_back(is_whole ? LocalLengths::Same(lowered->logical) : std::move(lowered->local));
    }
    return declared.sound ? &entry->second : nullptr;
  }

  void MatchName(std::string_view name, const std::vector<LocalLengths>& lengths, Declared& declared) {
    const FoundTensor* tensor = found_.Find(name);
    if (!tensor) return;
    for (const Shard* shard : tensor->shards) {
      if (shard->shape.size() != lengths.size()) {
        Note(*shard, "", declared.mismatches[kRank]);
        continue;
      }
      for (std::size_t i = 0; i < lengths.size(); ++i) {
        auto local = lengths[i].At(shard->coordinate);  // None outside of the mesh, which another check reports.
        if (!local || shard->shape[i] == *local) continue;
        std::string where = lengths[i].AllSame() ? " on one rank" : " at " + WhereText(*shard);
        Note(*shard, fmt::format("is {}{}", *local, where), declared.mismatches[i]);
      }
    }
  }

  static void Note(const Shard& shard, std::string length, Mismatch& mismatch) {
    if (!mismatch.shard) {
      mismatch.shard = &shard;
      mismatch.length = std::move(length);
    }
    if (mismatch.tensors == 0 || mismatch.last_tensor != shard.tensor) ++mismatch.tensors;
    mismatch.last_tensor = shard.tensor;
  }

  void ReportOne(const TensorDeclaration& tensor, std::size_t dim, const Mismatch& mismatch) {
    const Shard& shard = *mismatch.shard;
    std::string more =
        mismatch.tensors == 1 ? "" : fmt::format(", and {} more of its tensors differ too", mismatch.tensors - 1);
    Diagnostic diagnostic{.kind = DiagnosticKind::kShapeMismatch, .place = tensor.shape_range, .message = ""};
    if (dim == kRank) {
      diagnostic.message = fmt::format("`{}` has {} dimensions here and {} in the checkpoint{}", shard.tensor,
                                       tensor.dims.size(), shard.shape.size(), more);
    } else {
      const Formula& formula = tensor.dims[dim];
      diagnostic.place = formula.range;
      diagnostic.message = DifferText(formula, mismatch.length, shard, shard.shape[dim]) + more;
      diagnostic.notes = NotesOf(formula, values_);
      if (!CutsOf(formula).empty()) {
        diagnostic.notes.push_back({values_.spec.mesh->range, MeshText(values_.mesh)});
      }
    }
    diagnostic.notes.push_back(
        {found_.PlaceOf(shard), fmt::format("the tensor at {} has the shape {}", WhereText(shard), ShapeText(shard))});
    sink_.Report(std::move(diagnostic));
  }

  std::string DifferText(const Formula& formula, const std::string& length, const Shard& shard,
                         std::int64_t found) const {
    if (formula.kind == Formula::Kind::kNumber) {
      return fmt::format("this dimension is {}, and `{}` has {} there", formula.number, shard.tensor, found);
    }
    return fmt::format("`{}` {}, and `{}` has {} there", values_.spec.TextOf(formula.range), length, shard.tensor,
                       found);
  }

  const Values& values_;
  const InventoryIndex& found_;
  DiagnosticSink& sink_;
  std::vector<Declared> declared_;
};

}  // namespace

void MatchShapes(const Values& values, const std::vector<BoundTensor>& tensors, const InventoryIndex& found,
                 DiagnosticSink& sink) {
  ShapeMatcher matcher(values, found, sink);
  for (const BoundTensor& tensor : tensors) matcher.Match(tensor);
  matcher.Report();
}

}  // namespace ucp
