// The places of a tensor, part by part of a model (docs/language/model.md). A shape is a row of dimensions, each a
// product of factors and sums; multiplied out, it is a sum of terms, and each term belongs to one part:
//
//     [kv_heads * (q: group * head + k: head), hidden]      q: kv_heads, group, head | hidden      begin 0
//                                                           k: kv_heads,        head | hidden      begin group * head
//
// A factor stands at a stride within its dimension. Two layouts that name the same factors of a part say of each of its
// elements where it is, and need no operations.
#pragma once

#include <llvm/ADT/STLFunctionalExtras.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "compiler/spec/spec.h"

namespace ucp {

struct TermFactor {
  std::string name;  // Of a dim, or its own: `inputs: hidden`.
  SourceRange range;
  std::int64_t length = 0;
  std::size_t dim = 0;      // Of the tensor,
  std::int64_t stride = 1;  // and the distance of its neighbours there.
};

struct PartTerm {
  std::string part;
  SourceRange range;                // That says so.
  std::vector<TermFactor> factors;  // As they are written, the slowest one first.
  std::vector<std::int64_t> begin;  // By dimension: where its first element is.
};

// Places that no part can be told of.
struct TermProblem {
  enum class Kind : std::uint8_t { kUnlabelled, kTwoLabels, kNoPart, kTooLarge };
  Kind kind = Kind::kUnlabelled;
  SourceRange range;
  std::string message;
  std::string hint;
};

// Gives the length of a formula without cuts and padding; nothing if it has none.
using LengthOfNumber = llvm::function_ref<std::optional<std::int64_t>(const Formula&)>;

// Splits shapes into terms. Padding and cuts do not matter: the places are those of the whole tensor. A dim that is
// defined as a product of dims counts as its factors. `spec` must outlive this.
class PartTerms {
 public:
  explicit PartTerms(const CheckedSpec& spec) : spec_(spec) {}

  // The terms of a tensor of a layout, or why there are none. Nothing if a length could not be told.
  using Terms = std::variant<std::vector<PartTerm>, TermProblem, std::monostate>;
  Terms Of(const TensorDeclaration& tensor, LengthOfNumber length) const;

  // Does the same for a part's own shape: one term.
  Terms Of(const PartDeclaration& part, LengthOfNumber length) const;

  // Returns the length of a whole dimension, without padding; nothing if it could not be told.
  std::optional<std::int64_t> LengthOf(const Formula& dim, LengthOfNumber length) const;

  // Returns the factors that the count of a name's counter stands for, the slowest one first; nothing if it is not a
  // name.
  std::optional<std::vector<TermFactor>> FactorsOf(const Counter& counter, LengthOfNumber length) const;

 private:
  class Walk;
  const CheckedSpec& spec_;
};

// Returns a part's place in the model of `spec`, if it has one of this name.
std::optional<std::size_t> FindPart(const CheckedSpec& spec, std::string_view name);

// Returns the dims of which this one is the product by definition; none if it is defined otherwise.
std::vector<std::size_t> ProductOfDims(const DimDeclaration& dim);

}  // namespace ucp
