// One choice of all alternatives of a pattern, in a form that is compared without knowing any dim.
//
// A name is cut into characters that are not digits, and the digits that stand together. The first make its skeleton,
// with one mark for each group of digits:
//
//     "3.mlp.fc1.weight"  ->  "#.mlp.fc#.weight"
//
// Numbers in patterns print at least one digit, so two patterns match a common name if and only if they have a variant
// each with the same skeleton, and their numbers can all be equal. Skeletons are looked up, so matching is linear.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/source/source.h"
#include "compiler/spec/number_range.h"
#include "compiler/spec/pattern.h"

namespace ucp {

inline constexpr char kNumberMark = '\x01';

// Digits that stand together: literal text, one number of the pattern, or a mixture, of which nothing is known.
struct NumberSlot {
  std::optional<std::string> literal;
  NumberRange range;
  bool local = false;                  // It is a counter that counts from 0 on every stage.
  std::optional<std::size_t> counter;  // The index of the pattern's counter that it introduces.
};

struct Variant {
  std::string skeleton;
  std::vector<NumberSlot> slots;  // One for each mark.
  std::string shown;              // As the author wrote it: "{i+3: layers@pp}.mlp.weight".
};

inline constexpr std::size_t kMaxVariants = 4096;

// Returns how many variants a pattern has; more than kMaxVariants are counted as kMaxVariants + 1.
std::size_t CountVariants(const Pattern& pattern);

// Returns the variants in the order of the alternatives, the last one fastest. The pattern has at most kMaxVariants.
std::vector<Variant> VariantsOf(const Pattern& pattern, const Source& source);

std::string SkeletonOf(std::string_view name);

// Returns whether some values of dims and counters let both print the same name.
bool CanMeet(const Variant& a, const Variant& b);

// Returns whether a literal name, whose skeleton is the variant's, has the variant's literal numbers.
bool FitsLiterals(std::string_view name, const Variant& variant);

}  // namespace ucp
