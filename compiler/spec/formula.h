// Checked arithmetic: an expression of a spec in which every name has been looked up and every node makes sense where
// it stands. Its value is another question, which evaluate_formula.h answers once dims have values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "compiler/layout/shape.h"
#include "compiler/source/source.h"

namespace ucp {

struct Formula;

// The argument of a cut rule: `spread 64`, `widths [3, 3, 2]`, `list placement`.
struct CutArgument {
  enum class Kind : std::uint8_t {
    kNone,     // kWidths: those of the source's headers. kSpread: a grain of 1.
    kNumber,   // kSpread: the grain, a number of dims, in `numbers`.
    kNumbers,  // kWidths: `numbers`, one for each coordinate.
    kLists,    // kList: `lists`, one for each coordinate.
    kFact,     // kWidths, kList: what the fact holds; with `position`, its element there.
  };
  Kind kind = Kind::kNone;
  SourceRange range;
  std::vector<Formula> numbers;
  std::vector<std::vector<Formula>> lists;
  std::size_t fact = 0;
  std::vector<Formula> position;  // None or one.
};

struct Formula {
  // kElement is a number of a list that a fact holds: `ffns[i]`. kLength is how many elements such a list has, or with
  // a place a list in it: `length(placement[i])`.
  // kCount is how many elements of such a list are one text: `count(kinds, "moe")`. kCeil: `ceil(number, multiple)`.
  enum class Kind : std::uint8_t {
    kNumber,
    kDim,
    kCounter,
    kElement,
    kLength,
    kCount,
    kCeil,
    kAxisSize,
    kSum,
    kProduct,
    kPad,
    kCut
  };
  enum class Operator : std::uint8_t { kPlus, kMinus, kTimes, kDivide, kModulo };

  Kind kind = Kind::kNumber;
  SourceRange range;
  bool parenthesized = false;
  std::string label;  // In a model or a layout of one: the part `q: …`, or a factor's own name `inputs: hidden`.
  SourceRange label_range;
  std::int64_t number = 0;          // kNumber.
  std::size_t index = 0;            // Index among the spec's dims (kDim), the name's counters (kCounter), or the
                                    // spec's facts (kElement, kLength, kCount; the operand is the place in the list).
  std::string text;                 // kCount: what is counted.
  std::string axis;                 // kAxisSize.
  std::vector<Formula> operands;    // kSum, kProduct: one or more. kPad, kCeil: two. kCut: one.
  std::vector<Operator> operators;  // kSum, kProduct: one for each operand, what stands before it.
  std::vector<std::string> axes;    // kCut: major to minor.
  std::vector<SourceRange> axis_ranges;  // kCut: where each was written.
  SourceRange cut_range;                 // kCut: from the `@` on.
  CutRule rule = CutRule::kEven;         // kCut.
  CutArgument argument;                  // kCut.
};

// Returns whether it has a cut or padding somewhere, so that it is more than a number.
bool HasStructure(const Formula& formula);

// Returns the cuts anywhere in it, from left to right.
std::vector<const Formula*> CutsOf(const Formula& formula);

// Returns whether a kCut takes its widths from the source's headers: `ffn@tp(widths)`.
bool TakesHeaderWidths(const Formula& cut);

// Returns the dims that it speaks of, each once, in the order they are named.
std::vector<std::size_t> DimsOf(const Formula& formula);

// Returns the facts that it speaks of, each once: lists of which it takes an element or the length, or that a cut rule
// reads.
std::vector<std::size_t> FactsOf(const Formula& formula);

// Returns the counters that it speaks of, each once.
std::vector<std::size_t> CountersOf(const Formula& formula);

// Returns whether it speaks of a counter.
bool HasCounter(const Formula& formula);

}  // namespace ucp
