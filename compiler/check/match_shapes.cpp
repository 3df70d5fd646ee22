#include "compiler/check/match_shapes.h"

#include <fmt/format.h>

#include <map>

namespace ucp {
namespace {

// Where a declared dimension, or the number of dimensions, differs first, and how many tensors it is wrong for.
struct Mismatch {
  const Shard* shard = nullptr;
  std::size_t tensors = 0;
  std::string_view last_tensor;
};

class ShapeMatcher {
 public:
  ShapeMatcher(const Values& values, const InventoryIndex& found, DiagnosticSink& sink)
      : values_(values), found_(found), sink_(sink), declared_(values.spec.tensors.size()) {}

  void Match(const BoundTensor& tensor) {
    Declared& declared = DeclaredBy(tensor.declaration);
    if (!declared.sound) return;
    MatchName(tensor.name, declared);
    for (const std::string& alias : tensor.aliases) MatchName(alias, declared);
  }

  void Report() {
    for (std::size_t i = 0; i < declared_.size(); ++i) {
      for (const auto& [dim, mismatch] : declared_[i].mismatches)
        ReportOne(values_.spec.tensors[i], declared_[i], dim, mismatch);
    }
  }

 private:
  static constexpr std::size_t kRank = static_cast<std::size_t>(-1);  // The number of dimensions is wrong.

  struct Declared {
    bool lowered = false;
    bool sound = true;
    std::vector<std::int64_t> local;
    std::map<std::size_t, Mismatch> mismatches;
  };

  Declared& DeclaredBy(std::size_t declaration) {
    Declared& declared = declared_[declaration];
    if (declared.lowered) return declared;
    declared.lowered = true;
    for (const Formula& dim : values_.spec.tensors[declaration].dims) {
      auto lowered = LowerDim(dim, values_, sink_);
      declared.sound = declared.sound && lowered;
      if (lowered) declared.local.push_back(lowered->local);
    }
    return declared;
  }

  void MatchName(std::string_view name, Declared& declared) {
    const FoundTensor* tensor = found_.Find(name);
    if (!tensor) return;
    for (const Shard* shard : tensor->shards) {
      if (shard->shape.size() != declared.local.size()) {
        Note(*shard, declared.mismatches[kRank]);
        continue;
      }
      for (std::size_t i = 0; i < declared.local.size(); ++i) {
        if (shard->shape[i] != declared.local[i]) Note(*shard, declared.mismatches[i]);
      }
    }
  }

  static void Note(const Shard& shard, Mismatch& mismatch) {
    if (!mismatch.shard) mismatch.shard = &shard;
    if (mismatch.tensors == 0 || mismatch.last_tensor != shard.tensor) ++mismatch.tensors;
    mismatch.last_tensor = shard.tensor;
  }

  void ReportOne(const TensorDeclaration& tensor, const Declared& declared, std::size_t dim, const Mismatch& mismatch) {
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
      diagnostic.message = DifferText(formula, declared.local[dim], shard, shard.shape[dim]) + more;
      diagnostic.notes = NotesOf(formula, values_);
      if (!CutsOf(formula).empty()) {
        diagnostic.notes.push_back({values_.spec.mesh->range, fmt::format("the mesh is {}", ToString(values_.mesh))});
      }
    }
    diagnostic.notes.push_back(
        {found_.PlaceOf(shard), fmt::format("the tensor at {} has the shape {}", WhereText(shard), ShapeText(shard))});
    sink_.Report(std::move(diagnostic));
  }

  std::string DifferText(const Formula& formula, std::int64_t declared, const Shard& shard, std::int64_t found) const {
    if (formula.kind == Formula::Kind::kNumber) {
      return fmt::format("this dimension is {}, and `{}` has {} there", declared, shard.tensor, found);
    }
    return fmt::format("`{}` is {} on one rank, and `{}` has {} there", values_.spec.TextOf(formula.range), declared,
                       shard.tensor, found);
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
