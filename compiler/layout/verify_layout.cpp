// A tensor is a product of its dimensions, and an axis cuts one of them only. So every element is held somewhere if and
// only if, in each dimension by itself, every position is held at some coordinate of the axes that cut it; there are
// few of those, however large the mesh.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "compiler/layout/layout.h"
#include "compiler/support/error.h"

namespace ucp {
namespace {

// The use of each axis in one tensor; an axis has one use.
using Uses = std::map<std::string, std::string>;

class TensorVerifier {
 public:
  TensorVerifier(const TensorLayout& tensor, const Mesh& mesh) : tensor_(tensor), mesh_(mesh) {}

  llvm::Error Verify() const {
    UCP_RETURN_IF_ERROR(VerifyAxes());
    for (std::size_t d = 0; d < tensor_.dims.size(); ++d) UCP_RETURN_IF_ERROR(VerifyDimension(d));
    UCP_RETURN_IF_ERROR(VerifyPlaces());
    if (tensor_.scale.numerator == 0 || tensor_.scale.denominator == 0) {
      return Wrong("scale({} / {}) leaves nothing to be read", tensor_.scale.numerator, tensor_.scale.denominator);
    }
    return llvm::Error::success();
  }

 private:
  template <typename... Arguments>
  llvm::Error Wrong(fmt::format_string<Arguments...> format, Arguments&&... arguments) const {
    return Fail(ErrorCode::kSpec, "tensor `{}`: {}", tensor_.name,
                fmt::format(format, std::forward<Arguments>(arguments)...));
  }

  llvm::Error VerifyAxes() const {
    Uses uses;
    for (std::size_t d = 0; d < tensor_.dims.size(); ++d) {
      for (const std::string& axis : CuttingAxes(tensor_.dims[d])) {
        UCP_RETURN_IF_ERROR(Use(axis, fmt::format("cuts dimension {}", d), uses));
      }
    }
    for (const auto& [axis, places] : tensor_.only_at) UCP_RETURN_IF_ERROR(Use(axis, "cuts its name", uses));
    for (const std::string& axis : tensor_.mean_axes) UCP_RETURN_IF_ERROR(Use(axis, "is averaged over", uses));
    return llvm::Error::success();
  }

  llvm::Error Use(const std::string& axis, const std::string& use, Uses& uses) const {
    const std::vector<std::string>& own = tensor_.axes;
    if (!own.empty() && std::find(own.begin(), own.end(), axis) == own.end()) {
      return Wrong("the axis {} {}, and its mesh is {}", axis, use, fmt::join(own, ", "));
    }
    auto [first, added] = uses.emplace(axis, use);
    if (added) return llvm::Error::success();
    return Wrong("the axis {} {}, and {} too; an axis has one use in a tensor", axis, first->second, use);
  }

  llvm::Error VerifyDimension(std::size_t d) const {
    TensorLayout alone;
    alone.name = tensor_.name;
    alone.dims = {tensor_.dims[d]};
    UCP_ASSIGN_OR_RETURN(std::int64_t length, LogicalLength(tensor_.dims[d]));
    std::vector<Run> runs;
    for (const Coordinate& coordinate : CoordinatesOf(alone, mesh_)) {
      UCP_ASSIGN_OR_RETURN(ProductSet set, HeldAt(alone, mesh_, coordinate));
      runs.insert(runs.end(), set.dims[0].runs().begin(), set.dims[0].runs().end());
    }
    std::sort(runs.begin(), runs.end(), [](const Run& a, const Run& b) { return a.logical_begin < b.logical_begin; });
    std::int64_t covered = 0;
    for (const Run& run : runs) {
      if (run.logical_begin > covered) break;
      covered = std::max(covered, run.logical_begin + run.length);
    }
    if (covered == length) return llvm::Error::success();
    return Wrong("no rank holds position {} of the {} of dimension {}, which is `{}`", covered, length, d,
                 ToString(tensor_.dims[d]));
  }

  // Where its name is cut, some place of the axis has it, and there are no others.
  llvm::Error VerifyPlaces() const {
    for (const auto& [axis, places] : tensor_.only_at) {
      if (places.empty()) return Wrong("no place on {} holds it", axis);
      for (std::int64_t place : places) {
        if (place >= 0 && place < mesh_.Size(axis)) continue;
        return Wrong("it is at {}={}, and there are {} places on {}", axis, place, mesh_.Size(axis), axis);
      }
    }
    return llvm::Error::success();
  }

  const TensorLayout& tensor_;
  const Mesh& mesh_;
};

}  // namespace

llvm::Error VerifyLayout(const Layout& layout) {
  for (const TensorLayout& tensor : layout.tensors) {
    UCP_RETURN_IF_ERROR(TensorVerifier(tensor, layout.mesh).Verify());
  }
  return llvm::Error::success();
}

}  // namespace ucp
