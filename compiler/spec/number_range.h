// The numbers that a piece of a name can print, as far as that can be said before dims have values: bounds that are
// polynomials of dims. `{i + 3: layers}` prints layers + 3 - 1 at most, so it never meets `{layers + 4}`.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include "compiler/spec/formula.h"
#include "compiler/spec/pattern.h"

namespace ucp {

// Products of dims (each a sorted list of their places; the empty one is the constant) and what each is multiplied by.
using Polynomial = std::map<std::vector<std::size_t>, std::int64_t>;

// Returns nothing if it divides, counts or overflows.
std::optional<Polynomial> ToPolynomial(const Formula& formula);

struct NumberRange {
  std::optional<Polynomial> low;  // Inclusive, both; nothing: not known.
  std::optional<Polynomial> high;
  std::int64_t step = 1;  // Each number is `low` and a multiple of it; 0: there is one number.
};

NumberRange RangeOf(const PatternPiece& number, const std::vector<Counter>& counters);
NumberRange RangeOf(std::string_view digits);  // Of literal text.

// Returns whether no values of the dims can give both the same number.
bool NeverMeet(const NumberRange& a, const NumberRange& b);

}  // namespace ucp
