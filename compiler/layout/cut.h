// The cut rules: which of n places each of k coordinates gets (docs/algebra.md). Places are those of a list, padding
// included, so a rule knows nothing of the elements in them; shape.h applies it to selections.
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/layout/shape.h"

namespace ucp {

// Places [begin, end) of a list.
struct PlaceRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  bool operator==(const PlaceRange&) const = default;
};

// Returns the places of `places` that coordinate `index` of `degree` gets by the rule of `cut`, a kCut: ranges in the
// order of the part's own places, none of them empty. No ranges: the coordinate holds nothing. One sentence with both
// numbers where the rule does not fit. Of `list` only this coordinate's own positions are looked at; VerifyCut looks at
// all.
llvm::Expected<std::vector<PlaceRange>> PartOf(const ShapeExpr& cut, std::int64_t places, std::int64_t degree,
                                               std::int64_t index);

// Returns how many places that is.
llvm::Expected<std::int64_t> WidthOf(const ShapeExpr& cut, std::int64_t places, std::int64_t degree,
                                     std::int64_t index);

// Whether the rule fits for every coordinate, and all of them together get every place. Linear in the length of the
// rule's text, not in places.
[[nodiscard]] llvm::Error VerifyCut(const ShapeExpr& cut, std::int64_t places, std::int64_t degree);

// Returns the text behind the axes: "(spread 64)", "(widths [3, 3, 2])"; nothing for an even cut.
std::string RuleText(const ShapeExpr& cut);

}  // namespace ucp
