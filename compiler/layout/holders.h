// The holders of one tensor's parts: its layout, spelled out for one mesh.
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <vector>

#include "compiler/layout/layout.h"
#include "compiler/layout/mesh.h"
#include "compiler/sets/product_set.h"

namespace ucp {

// Ranks that differ only on axes which do not cut the tensor are one holder.
struct Holder {
  Coordinate at;  // On the axes that cut the tensor.
  ProductSet held;
};

// More than any real mesh cuts a tensor into.
inline constexpr std::int64_t kMaxHolders = 1 << 16;

// Returns the holders in mesh order. Fails (kUsage) on more than kMaxHolders, and as HeldAt does.
llvm::Expected<std::vector<Holder>> HoldersOf(const TensorLayout& tensor, const Mesh& mesh);

// Returns the axes of `mesh` with more than one rank that cut `tensor`, in mesh order.
std::vector<Axis> AxesThatCut(const TensorLayout& tensor, const Mesh& mesh);

}  // namespace ucp
