#include "compiler/formats/dcp/torch_checkpointing/tree_values.h"

#include <fmt/format.h>

#include "compiler/support/error.h"
#include "compiler/support/interruption.h"

namespace ucp::dcp {
namespace {

using Kind = PickleTree::Kind;

constexpr std::size_t kMostKeys = 64;  // The package's own dicts have six at most.

}  // namespace

std::optional<PickleTree::Id> TreeValues::Find(Id dict, std::string_view key) const {
  std::optional<Id> found;
  if (tree_.kind(dict) != Kind::kDict) return found;
  std::size_t seen = 0;
  tree_.ForEachEntry(dict, [&](Id own, Id value) {
    if (tree_.Text(own) == key) found = value;  // The last one, as in Python.
    return ++seen < kMostKeys;
  });
  return found;
}

llvm::Expected<PickleTree::Id> TreeValues::Need(Id dict, std::string_view key, std::string_view what) const {
  if (tree_.kind(dict) != Kind::kDict) {
    return Fail(ErrorCode::kBadData, "{} is {}, and a dict is expected", what, Called(dict));
  }
  if (const auto found = Find(dict, key)) return *found;
  return Fail(ErrorCode::kBadData, "{} has no `{}`", what, key);
}

llvm::Expected<std::string_view> TreeValues::NeedText(Id dict, std::string_view key, std::string_view what) const {
  UCP_ASSIGN_OR_RETURN(const Id value, Need(dict, key, what));
  if (const auto text = tree_.Text(value)) return *text;
  return Fail(ErrorCode::kBadData, "`{}` of {} is {}, and a text is expected", key, what, Called(value));
}

llvm::Expected<std::int64_t> TreeValues::NeedInteger(Id dict, std::string_view key, std::string_view what) const {
  UCP_ASSIGN_OR_RETURN(const Id value, Need(dict, key, what));
  const auto number = tree_.Integer(value);
  if (number && *number >= 0) return *number;
  return Fail(ErrorCode::kBadData, "`{}` of {} is {}, and a count is expected", key, what, Called(value));
}

llvm::Error TreeValues::ForEachEntry(Id dict, std::string_view what,
                                     llvm::function_ref<llvm::Error(Id key, Id value)> visit) {
  if (tree_.kind(dict) != Kind::kDict) {
    return Fail(ErrorCode::kBadData, "{} is {}, and a dict is expected", what, Called(dict));
  }
  UCP_RETURN_IF_ERROR(Count(tree_.Count(dict)));
  llvm::Error failure = llvm::Error::success();
  tree_.ForEachEntry(dict, [&](Id key, Id value) {
    if (!failure) failure = visit(key, value);
    return !failure;
  });
  return failure;
}

llvm::Error TreeValues::ForEachItem(Id list, std::string_view what, llvm::function_ref<llvm::Error(Id item)> visit) {
  if (tree_.kind(list) != Kind::kList && tree_.kind(list) != Kind::kTuple) {
    return Fail(ErrorCode::kBadData, "{} is {}, and a list is expected", what, Called(list));
  }
  UCP_RETURN_IF_ERROR(Count(tree_.Count(list)));
  llvm::Error failure = llvm::Error::success();
  tree_.ForEach(list, [&](Id item) {
    if (!failure) failure = visit(item);
    return !failure;
  });
  return failure;
}

llvm::Expected<std::vector<std::int64_t>> TreeValues::Numbers(Id list, std::string_view what) {
  std::vector<std::int64_t> numbers;
  UCP_RETURN_IF_ERROR(ForEachItem(list, what, [&](Id item) -> llvm::Error {
    const auto number = tree_.Integer(item);
    if (!number || *number < 0)
      return Fail(ErrorCode::kBadData, "{} holds {}, and a count is expected", what, Called(item));
    numbers.push_back(*number);
    return llvm::Error::success();
  }));
  return numbers;
}

std::string TreeValues::Called(Id id) const {
  if (const auto text = tree_.Text(id)) return fmt::format("`{:.100}`", *text);
  if (const auto number = tree_.Integer(id)) return fmt::to_string(*number);
  switch (tree_.kind(id)) {
    case Kind::kNone:
      return "None";
    case Kind::kDict:
      return "a dict";
    case Kind::kList:
      return "a list";
    case Kind::kTuple:
      return "a tuple";
    default:
      return "another value";
  }
}

llvm::Error TreeValues::Count(std::size_t items) {
  UCP_RETURN_IF_ERROR(CheckInterrupted());
  counted_ += items;
  if (items <= bytes_ && counted_ <= bytes_) return llvm::Error::success();
  return Fail(ErrorCode::kBadData, "its {} bytes describe more than {} items of lists and dicts", bytes_, bytes_);
}

}  // namespace ucp::dcp
