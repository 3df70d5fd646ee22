// Names for the numbers in shapes, where the checkpoint's metadata has them: 4096 is `hidden` if `config.hidden_size`
// is 4096 and no other known size is.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "compiler/layout/inventory.h"
#include "compiler/layout/shape.h"

namespace ucp {

class NumberNames {
 public:
  explicit NumberNames(const std::map<std::string, Fact>& facts);

  // A length, or how far a counter counts. `note` gets a sentence where a number that is cut could be several things.
  std::string Length(std::int64_t number, bool cut, std::string& note);
  std::string Count(std::int64_t number);
  std::string Vocabulary(std::int64_t number);

  // "2 * (8@tp)", with names; only tp has a size in it.
  std::string Shape(const ShapeExpr& expr, std::int64_t tp, std::string& note);

  // The declarations of the names that were given out: "dim hidden from config.hidden_size".
  std::vector<std::string> Declarations() const;

 private:
  struct Known {
    std::string name;
    std::string path;
    std::int64_t value = 0;
    bool counts = false;  // Of things, not of places.
  };
  std::string Use(const Known& known);
  std::string Operand(const ShapeExpr& expr, std::int64_t tp, bool cut, std::string& note);

  std::vector<Known> known_;
  std::set<std::string> used_;
};

}  // namespace ucp
