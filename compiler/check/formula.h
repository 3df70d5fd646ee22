// Checked arithmetic: an expression of a spec in which every name has been looked up and every node makes sense where
// it stands. What it is worth is another question, which evaluate.h answers once dims have values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "compiler/source/source.h"

namespace ucp {

struct Formula {
  enum class Kind : std::uint8_t { kNumber, kDim, kCounter, kAxisSize, kSum, kProduct, kPad, kCut };
  enum class Operator : std::uint8_t { kPlus, kMinus, kTimes, kDivide, kModulo };

  Kind kind = Kind::kNumber;
  SourceRange range;
  bool parenthesized = false;
  std::int64_t number = 0;               // kNumber.
  std::size_t index = 0;                 // kDim: which of the spec's dims. kCounter: which of the name's counters.
  std::string axis;                      // kAxisSize.
  std::vector<Formula> operands;         // kSum, kProduct: one or more. kPad: length and multiple. kCut: one.
  std::vector<Operator> operators;       // kSum, kProduct: one for each operand, what stands before it.
  std::vector<std::string> axes;         // kCut: major to minor.
  std::vector<SourceRange> axis_ranges;  // kCut: where each was written.
  SourceRange cut_range;                 // kCut: from the `@` on.
};

// Whether it has a cut or padding somewhere, so that it is more than a number.
bool HasStructure(const Formula& formula);

// The cuts anywhere in it, from left to right.
std::vector<const Formula*> CutsOf(const Formula& formula);

// The dims that it speaks of, each once, in the order they are named.
std::vector<std::size_t> DimsOf(const Formula& formula);

// Whether it speaks of a counter.
bool HasCounter(const Formula& formula);

}  // namespace ucp
