// A checked name pattern: the names of one declaration, with the names of the blocks around it in front.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "compiler/source/source.h"
#include "compiler/spec/formula.h"

namespace ucp {

// {i + 3: layers@pp} counts from 0 to `count` - 1, and so does {2 * i + 1: pairs}. How far may depend on the counters
// before it: {e: experts_of[i]}.
struct Counter {
  std::string name;
  SourceRange range;         // With the braces.
  Formula count;             // Without the cut.
  bool over_stages = false;  // The counter is split over the pipeline stages: @pp.
  bool local = false;        // {i.local: layers@pp}: the source prints it from 0 on every stage.
  SourceRange cut_range;     // Of the `@pp` or other cut.
  // Cut over another axis than pp (experts over ep): a kCut whose operand is `count`. None or one.
  std::vector<Formula> cut;
};

struct PatternPiece {
  enum class Kind : std::uint8_t { kText, kAlternatives, kNumber };

  Kind kind = Kind::kText;
  SourceRange range;
  std::vector<std::string> options;  // kText: one. kAlternatives: two or more.
  Formula number;                    // kNumber: what is printed, of dims and counters.
  bool counts = false;               // kNumber: it is a capture, which introduces `counter`.
  std::size_t counter = 0;
};

// Bounds on one name, its blocks included; real ones are far below.
inline constexpr std::size_t kMaxPieces = 200;
inline constexpr std::size_t kMaxNameBytes = 1024;

struct Pattern {
  SourceRange range;  // Of the innermost string.
  std::vector<PatternPiece> pieces;
  std::vector<Counter> counters;  // In the order they are introduced; a piece names one by its place here.
};

}  // namespace ucp
