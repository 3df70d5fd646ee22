// Owns the values of a pickle while they are being read: lists, dicts and objects are still filled then, and a hostile
// pickle makes them contain themselves or nest a million deep. Nothing leaves before it is checked, and what does not
// leave is taken apart without recursion.
#pragma once

#include <llvm/Support/Error.h>

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "compiler/formats/pytorch/values/value.h"
#include "compiler/formats/pytorch/values/value_walk.h"

namespace ucp::pytorch {

class ValueBuilder {
 public:
  ValueBuilder() = default;
  ValueBuilder(const ValueBuilder&) = delete;
  ValueBuilder& operator=(const ValueBuilder&) = delete;
  // Empties every container that was not given away by Finish().
  ~ValueBuilder();

  template <typename T>
  ValuePtr New(T content);
  std::size_t count() const { return count_; }  // Of the calls of New().

  // Returns the list, dict or call in `value`, to be filled; null if it is of another kind. Call with values from
  // New().
  template <typename T>
  static T* Fillable(const ValuePtr& value) {
    return const_cast<T*>(value->As<T>());  // New() made it non-const, and nobody else sees it yet.
  }

  // Checks that no value below `root` contains itself, that they nest at most `depth_limit` deep, and that no mapping
  // has a text or integer key twice. Then they are final, and all other containers are emptied: let go of them before.
  [[nodiscard]] llvm::Error Finish(const ValuePtr& root, int depth_limit);

 private:
  std::size_t count_ = 0;
  std::vector<std::shared_ptr<Value>> containers_;  // To let go of any other value is to let go of that one alone.
};

template <typename T>
ValuePtr ValueBuilder::New(T content) {
  ++count_;
  auto value = std::make_shared<Value>(std::move(content));
  if (IsContainer(*value)) containers_.push_back(value);
  return value;
}

}  // namespace ucp::pytorch
