#include "compiler/layout/compare_layouts.h"

#include <algorithm>

#include "compiler/support/error.h"

namespace ucp {
namespace {

llvm::Expected<bool> HoldAlike(const TensorLayout& a, const TensorLayout& b, const Mesh& mesh) {
  for (const TensorLayout* tensor : {&a, &b}) {
    for (const Coordinate& coordinate : CoordinatesOf(*tensor, mesh)) {
      UCP_ASSIGN_OR_RETURN(ProductSet of_a, HeldAt(a, mesh, coordinate));
      UCP_ASSIGN_OR_RETURN(ProductSet of_b, HeldAt(b, mesh, coordinate));
      if (!(of_a == of_b)) return false;
    }
  }
  return true;
}

}  // namespace

llvm::Expected<bool> AreCutAlike(const TensorLayout& a, const TensorLayout& b, const Mesh& mesh) {
  if (a.mean_axes != b.mean_axes || !(a.scale == b.scale)) return false;
  UCP_ASSIGN_OR_RETURN(std::vector<std::int64_t> shape_of_a, LogicalShape(a));
  UCP_ASSIGN_OR_RETURN(std::vector<std::int64_t> shape_of_b, LogicalShape(b));
  if (shape_of_a != shape_of_b) return false;
  return HoldAlike(a, b, mesh);
}

namespace {

llvm::Expected<bool> MeanTheSame(const TensorLayout& a, const TensorLayout& b, const Mesh& mesh) {
  if (a.name != b.name || a.aliases != b.aliases || a.buffer != b.buffer || a.stages != b.stages ||
      a.unused_stages != b.unused_stages || a.only_at != b.only_at) {
    return false;
  }
  return AreCutAlike(a, b, mesh);
}

}  // namespace

llvm::Expected<std::optional<std::string>> DifferentTensor(const Layout& a, const Layout& b) {
  for (std::size_t i = 0; i < std::max(a.tensors.size(), b.tensors.size()); ++i) {
    if (i >= b.tensors.size()) return a.tensors[i].name;
    if (i >= a.tensors.size()) return b.tensors[i].name;
    UCP_ASSIGN_OR_RETURN(bool same, MeanTheSame(a.tensors[i], b.tensors[i], a.mesh));
    if (!same) return a.tensors[i].name;
  }
  return std::nullopt;
}

}  // namespace ucp
