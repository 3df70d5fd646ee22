// Checked conditions of `when`. They speak of dims, facts, counters and names of the header, all looked up.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "compiler/ast/ast.h"
#include "compiler/source/source.h"
#include "compiler/spec/formula.h"
#include "compiler/spec/pattern.h"

namespace ucp {

struct Condition {
  enum class Kind : std::uint8_t {
    kBoolean,  // true, false
    kFact,     // A fact that is a boolean: `tied`; with `position`, an element of a list of booleans.
    kHas,      // The header has tensors of this name, all of them; `is_block`: any behind it.
    kCompare,  // Two operands that are both numbers or both texts.
    kIn,       // An operand, and a FactElement that is a list of such.
    kNot,
    kAnd,
    kOr,
  };
  // A side of a comparison.
  struct Operand {
    SourceRange range;
    // A number; a text; or a fact (a text or a number), with a position an element of its list.
    struct FactElement {
      std::size_t fact = 0;
      std::vector<Formula> position;  // None or one.
    };
    std::variant<Formula, std::string, bool, FactElement> value;
  };

  Kind kind = Kind::kBoolean;
  SourceRange range;
  bool boolean = false;        // kBoolean.
  std::vector<Operand> sides;  // kCompare, kIn: two. kFact: one, a FactElement.
  ast::Comparator comparator = ast::Comparator::kEqual;
  std::vector<Condition> operands;  // kNot: one. kAnd, kOr: two or more.
  std::vector<Pattern> name;        // kHas: one, behind the names of the blocks around it.
  bool is_block = false;            // kHas: it stands for `optional block`, and the name ends with a dot.
  std::size_t outer = 0;            // kHas: so many of the name's counters are those of the blocks, and have a value.
};

// A declaration inside of `when` stands under guards, outermost first: it is there where each condition has the value
// that the guard wants. `else` wants the conditions before it to be false. Guards that share a condition object and
// differ in `holds` exclude each other.
struct Guard {
  std::shared_ptr<const Condition> condition;
  bool holds = true;
};
using Guards = std::vector<Guard>;

// More conditions around one item than any family of models needs.
inline constexpr std::size_t kMaxGuards = 64;

// Returns whether they stand in different branches of one `when`. Conditions are compared as objects, not by their
// meaning.
bool ExcludeEachOther(const Guards& a, const Guards& b);

// Returns, at k, how many of the guards can be asked when the first k of a name's `counters` have values. A guard waits
// for its counters and for the guards before it.
std::vector<std::size_t> GuardsUntil(const Guards& guards, std::size_t counters);

// The names in an expression or a condition. Each is there once, in the order they are named.
struct References {
  std::vector<std::size_t> dims;
  std::vector<std::size_t> facts;
  std::vector<std::size_t> counters;    // Of the name around it; those that only a `has` introduces are left out.
  std::vector<const Condition*> names;  // The kHas in it.

  void Add(const Formula& formula);
  void Add(const Condition& condition);
  void Add(const Pattern& pattern);
};

}  // namespace ucp
