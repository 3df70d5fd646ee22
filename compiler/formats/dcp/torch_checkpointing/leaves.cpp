// A value that is shared is visited once for each path that leads to it: a pickle of a few bytes can make so many paths
// that they are counted.
#include "compiler/formats/dcp/torch_checkpointing/leaves.h"

#include <fmt/format.h>
#include <llvm/ADT/DenseMap.h>

#include <algorithm>

#include "compiler/formats/pytorch/values/value_access.h"
#include "compiler/support/error.h"

namespace ucp::dcp {
namespace {

constexpr std::size_t kMostLeaves = 10'000'000;

class Leaves {
 public:
  using Visit = llvm::function_ref<llvm::Error(std::vector<PathPart>, const pytorch::ValuePtr&)>;

  explicit Leaves(Visit visit) : visit_(visit) {}

  // The reader limits how deep values nest.
  llvm::Error Walk(const pytorch::ValuePtr& value) {
    if (++visited_ > kMostLeaves) return Fail(ErrorCode::kUnsupported, "it holds more than {} values", kMostLeaves);
    if (const auto* entries = pytorch::Entries(*value); entries != nullptr && IsOpen(*value)) {
      for (const pytorch::Entry& entry : *entries) {
        const auto text = pytorch::AsText(*entry.key);
        const auto number = pytorch::AsInteger(*entry.key);
        if (!text && !number) {
          return Fail(ErrorCode::kUnsupported, "a dict that holds tensors has the key {:.100}, which is not a text",
                      pytorch::Print(*entry.key));
        }
        path_.emplace_back(text ? std::string(*text) : fmt::to_string(*number));
        UCP_RETURN_IF_ERROR(Walk(entry.value));
        path_.pop_back();
      }
      return llvm::Error::success();
    }
    if (const auto* items = ItemsOf(*value); items != nullptr && IsOpen(*value)) {
      for (std::size_t i = 0; i < items->size(); ++i) {
        path_.emplace_back(static_cast<std::int64_t>(i));
        UCP_RETURN_IF_ERROR(Walk((*items)[i]));
        path_.pop_back();
      }
      return llvm::Error::success();
    }
    return visit_(path_, value);
  }

 private:
  static const std::vector<pytorch::ValuePtr>* ItemsOf(const pytorch::Value& value) {
    if (const auto* list = value.As<pytorch::List>()) return &list->items;
    const auto* tuple = value.As<pytorch::Tuple>();
    return tuple != nullptr ? &tuple->items : nullptr;
  }

  // Whether it is taken apart.
  bool IsOpen(const pytorch::Value& value) {
    if (const auto known = is_open_.find(&value); known != is_open_.end()) return known->second;
    bool is_open = false;
    if (const auto* entries = pytorch::Entries(value)) {
      is_open = HoldsTensor(value) || std::ranges::all_of(*entries, [](const pytorch::Entry& entry) {
                  return pytorch::AsText(*entry.key).has_value();
                });
    } else if (const auto* list = value.As<pytorch::List>()) {
      is_open = std::ranges::any_of(list->items, [&](const pytorch::ValuePtr& item) {
        return item->As<pytorch::Tensor>() != nullptr || IsOpen(*item);
      });
    } else {
      is_open = value.As<pytorch::Tuple>() != nullptr && HoldsTensor(value);
    }
    return is_open_[&value] = is_open;
  }

  bool HoldsTensor(const pytorch::Value& value) {
    if (value.As<pytorch::Tensor>() != nullptr) return true;
    if (const auto known = holds_tensor_.find(&value); known != holds_tensor_.end()) return known->second;
    bool holds = false;
    if (const auto* entries = pytorch::Entries(value)) {
      holds = std::ranges::any_of(*entries, [&](const pytorch::Entry& entry) { return HoldsTensor(*entry.value); });
    } else if (const auto* items = ItemsOf(value)) {
      holds = std::ranges::any_of(*items, [&](const pytorch::ValuePtr& item) { return HoldsTensor(*item); });
    }
    return holds_tensor_[&value] = holds;
  }

  const Visit visit_;
  std::size_t visited_ = 0;
  std::vector<PathPart> path_;
  llvm::DenseMap<const pytorch::Value*, bool> is_open_;
  llvm::DenseMap<const pytorch::Value*, bool> holds_tensor_;
};

}  // namespace

llvm::Error ForEachLeaf(
    const pytorch::ValuePtr& item,
    llvm::function_ref<llvm::Error(std::vector<PathPart> path, const pytorch::ValuePtr& value)> visit) {
  return Leaves(visit).Walk(item);
}

}  // namespace ucp::dcp
