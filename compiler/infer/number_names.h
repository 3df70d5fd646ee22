// Names for the numbers in shapes, where the checkpoint's metadata has them: 4096 is `hidden` if `config.hidden_size`
// is 4096 and no other known size is. A length that is cut is a number of units, such as heads, that no rank has a part
// of: 32 places are `kv_heads@tp * 16` if there are two heads of 16. A degree that the shapes have not seen would cut
// through units, so where the metadata does not name one reading, it is a question.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/layout/inventory.h"
#include "compiler/layout/shape.h"

namespace ucp {

class NumberNames {
 public:
  explicit NumberNames(const std::map<std::string, Fact>& facts);

  // Returns a length that is not cut.
  std::string Length(std::int64_t number);
  // Returns how far a counter counts.
  std::string Count(std::int64_t number);
  std::string Vocabulary(std::int64_t number);

  // "2 * (8@tp)", with names; only tp has a size in it. `doubt` gets a sentence where the units of a cut are not known.
  std::string Shape(const ShapeExpr& expr, std::int64_t tp, std::string& doubt);

  // Returns the declarations of the names that were given out: "dim hidden from config.hidden_size".
  std::vector<std::string> Declarations() const;

 private:
  struct Known {
    std::string name;
    std::string path;
    std::int64_t value = 0;
    bool counts = false;  // Of things, not of places.
  };
  std::string Use(const Known& known);
  std::int64_t ValueOf(std::string_view name) const;
  std::int64_t HeadSize() const;

  // As many units as `known` says, of `size` places each.
  struct Units {
    const Known* known = nullptr;
    std::int64_t size = 1;
  };
  std::vector<Units> UnitsOf(std::int64_t number) const;
  std::string Cut(const ShapeExpr& expr, std::int64_t tp, std::string& doubt);
  std::string UnevenLength(std::int64_t number, const ShapeExpr& cut);
  std::string CutLength(std::int64_t number, const ShapeExpr& cut, std::string& doubt);

  std::vector<Known> known_;
  std::set<std::string> used_;
};

}  // namespace ucp
