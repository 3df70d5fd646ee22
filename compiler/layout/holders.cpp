#include "compiler/layout/holders.h"

#include <algorithm>
#include <set>
#include <string>

#include "compiler/support/error.h"

namespace ucp {

std::vector<Axis> AxesThatCut(const TensorLayout& tensor, const Mesh& mesh) {
  std::set<std::string> names;
  for (const ShapeExpr& dim : tensor.dims) {
    for (const std::string& axis : CuttingAxes(dim)) names.insert(axis);
  }
  if (!tensor.boxes.empty()) names.insert(kBoxAxis);
  std::vector<Axis> axes;
  std::copy_if(mesh.axes.begin(), mesh.axes.end(), std::back_inserter(axes),
               [&](const Axis& axis) { return axis.size > 1 && names.contains(axis.name); });
  return axes;
}

llvm::Expected<std::vector<Holder>> HoldersOf(const TensorLayout& tensor, const Mesh& mesh) {
  std::int64_t count = 1;
  for (const Axis& axis : AxesThatCut(tensor, mesh)) {
    if (axis.size > kMaxHolders / count) {
      return Fail(ErrorCode::kUsage, "tensor `{}` would be cut into more than {} parts on {}", tensor.name, kMaxHolders,
                  ToString(mesh));
    }
    count *= axis.size;
  }
  std::vector<Holder> holders;
  for (Coordinate& coordinate : CoordinatesOf(tensor, mesh)) {
    UCP_ASSIGN_OR_RETURN(ProductSet held, HeldAt(tensor, mesh, coordinate));
    holders.push_back({std::move(coordinate), std::move(held)});
  }
  return holders;
}

}  // namespace ucp
