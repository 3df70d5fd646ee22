// Dicts, texts and numbers in a pickle of plain data, and how they are called in messages.
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/formats/dcp/tree/pickle_tree.h"

namespace ucp::dcp {

class TreeValues {
 public:
  using Id = PickleTree::Id;

  // `tree` must outlive this object, and `bytes` are those of its pickle.
  TreeValues(const PickleTree& tree, std::size_t bytes) : tree_(tree), bytes_(bytes) {}

  // Returns the value of this key of a dict, among its first 64 keys. A hostile file may share one dict of many.
  std::optional<Id> Find(Id dict, std::string_view key) const;
  // Fails (kBadData) if `dict` is not one or has no such key. `what` is the dict in messages.
  llvm::Expected<Id> Need(Id dict, std::string_view key, std::string_view what) const;
  llvm::Expected<std::string_view> NeedText(Id dict, std::string_view key, std::string_view what) const;
  llvm::Expected<std::int64_t> NeedInteger(Id dict, std::string_view key, std::string_view what) const;

  // Calls `visit` for the entries of a dict, or for the items of a list or tuple, until one fails. Each counts: a
  // pickle can name one list any number of times, and has as many bytes as it has items otherwise.
  [[nodiscard]] llvm::Error ForEachEntry(Id dict, std::string_view what,
                                         llvm::function_ref<llvm::Error(Id key, Id value)> visit);
  [[nodiscard]] llvm::Error ForEachItem(Id list, std::string_view what, llvm::function_ref<llvm::Error(Id item)> visit);
  // Returns the numbers of a list or tuple, none of which is negative.
  llvm::Expected<std::vector<std::int64_t>> Numbers(Id list, std::string_view what);

  std::string Called(Id id) const;  // "`text`", "12", "a dict": in messages.

 private:
  llvm::Error Count(std::size_t items);

  const PickleTree& tree_;
  const std::size_t bytes_;
  std::size_t counted_ = 0;
};

}  // namespace ucp::dcp
