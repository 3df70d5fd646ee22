// Shape arithmetic with numbers in it: how one dimension of a tensor is put together and cut (docs/algebra.md).
//
//   n          n positions                       a + b      a's positions and then b's
//   a * b      for each position of a, all of b  pad(a, m)  a, and then padding up to a multiple of m
//   a @ x      of a's positions, the part of this coordinate of axis x, by one of the rules below
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/layout/mesh.h"
#include "compiler/sets/selection.h"

namespace ucp {

// How n positions are cut over k coordinates. The widths of AutoTP and of torch.chunk differ, and so do their names
// here.
enum class CutRule {
  kEven,       // n / k each; k must divide n.
  kChunk,      // ceil(n / k) each; the last ones get what is left, which may be nothing (torch.chunk).
  kSpread,     // The first n % k get one more (AutoTP, numpy.array_split), in whole units of `grain` positions; the
               // rest goes to the last coordinate.
  kWidths,     // Explicit: coordinate i gets widths[i], zero allowed; together n.
  kList,       // Explicit: coordinate i gets the positions lists[i], in that order; each at least once over all
               // coordinates, and not twice in one. The only rule whose selections need not be increasing.
  kReplicate,  // Even if k divides n; if n divides k, coordinate i holds position i / (k / n).
};

struct ShapeExpr {
  enum class Kind { kLength, kProduct, kSum, kPad, kCut };

  Kind kind = Kind::kLength;
  std::int64_t number = 0;                            // kLength: the length. kPad: the multiple.
  std::vector<ShapeExpr> operands = {};               // kProduct, kSum: two or more. kPad, kCut: one.
  std::vector<std::string> axes = {};                 // kCut: one or more, major to minor.
  CutRule rule = CutRule::kEven;                      // kCut.
  std::int64_t grain = 1;                             // kCut by kSpread.
  std::vector<std::int64_t> widths = {};              // kCut by kWidths: one for each coordinate.
  std::vector<std::vector<std::int64_t>> lists = {};  // kCut by kList: one for each coordinate.

  static ShapeExpr Length(std::int64_t length);
  static ShapeExpr Product(std::vector<ShapeExpr> factors);
  static ShapeExpr Sum(std::vector<ShapeExpr> parts);
  static ShapeExpr Pad(ShapeExpr inner, std::int64_t multiple);
  static ShapeExpr Cut(ShapeExpr inner, std::vector<std::string> axes);
};

// Returns the printed form, in the language's own notation: "8@tp * 3 * 64", "pad(50257, 256)@tp", "8@tp(spread 64)",
// "8@tp(widths [3, 3, 2])", "4@ep(list [[0, 3], [1, 2]])".
std::string ToString(const ShapeExpr& expr);

// Returns the length of the whole dimension, padding excluded; it does not depend on the mesh. Checked against
// overflow.
llvm::Expected<std::int64_t> LogicalLength(const ShapeExpr& expr);

// The selection that the rank at `coordinate` holds. Fails with one sentence if a cut rule does not fit (cut.h), a
// padded expression is cut inside, the coordinate is outside of the mesh, or the selection would have more than
// `kMaxRuns` runs. That no axis cuts two nested factors is for the spec's checker to say (check/check_shape.cpp).
constexpr std::int64_t kMaxRuns = 1 << 20;
llvm::Expected<Selection> Select(const ShapeExpr& expr, const Mesh& mesh, const Coordinate& coordinate);

// Returns the axes that cut this expression, each once, in the order of the mesh's names.
std::vector<std::string> CuttingAxes(const ShapeExpr& expr);

}  // namespace ucp
