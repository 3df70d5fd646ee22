// A dimension as runs, one behind the other, each cut over the tensor-parallel ranks by itself: heads@tp * 3 * head is
// one run of heads * 3 * head places, 2 * (ffn@tp) is two runs of ffn. DeepSpeed's metadata and the loader of its
// universal folders know cuts in this form.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "compiler/layout/mesh.h"
#include "compiler/layout/shape.h"

namespace ucp {

struct CutRun {
  const ShapeExpr* cut = nullptr;  // The cut expression, in the dimension that was asked about.
  std::int64_t times = 1;          // How many places of the run there are for each of its places.
  std::int64_t length = 0;         // Of the run, padding excluded.

  bool is_padded() const { return cut->operands.front().kind == ShapeExpr::Kind::kPad; }
};

struct CutDimension {
  std::size_t dim = 0;
  std::vector<CutRun> runs;  // At least one.

  // Rows behind which DeepSpeed knows of padding; `dims` is how many dimensions the tensor has.
  bool IsPaddedVocabulary(std::size_t dims) const;
};

// Returns the one dimension that is cut. Returns nothing if none is, if several are, if another axis than tp has a part
// in it, or if something in it is cut beside something that is not.
std::optional<CutDimension> FindCut(std::span<const ShapeExpr> dims);

// Returns how many places of the run each rank has, padding included. Returns nothing if the ranks do not hold
// neighbouring stretches of it, in their order.
std::optional<std::vector<std::int64_t>> WidthsOf(const CutRun& run, const Mesh& mesh);

}  // namespace ucp
