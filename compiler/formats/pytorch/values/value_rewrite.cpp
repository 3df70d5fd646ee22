#include <llvm/ADT/DenseMap.h>

#include <optional>

#include "compiler/formats/pytorch/values/value_access.h"
#include "compiler/formats/pytorch/values/value_walk.h"

namespace ucp::pytorch {
namespace {

// Rebuilds bottom-up. A value none of whose parts changed stays itself: nothing of it is copied, and what has no parts
// is not even remembered, since there are many of these and few tensors.
class TensorReplacer {
 public:
  explicit TensorReplacer(const std::function<ValuePtr(const ValuePtr&)>& replacement) : replacement_(replacement) {}

  // Null: it stays.
  ValuePtr Changed(const ValuePtr& value) {
    if (!value || IsLeaf(*value)) return nullptr;
    if (const auto known = results_.find(value.get()); known != results_.end()) return known->second;
    ValuePtr result = value->Visit([&](const auto& content) { return Rebuild(value, content); });
    results_[value.get()] = result;
    return result;
  }

 private:
  template <typename Leaf>
  ValuePtr Rebuild(const ValuePtr&, const Leaf&) {
    return nullptr;
  }
  ValuePtr Rebuild(const ValuePtr& value, const Tensor&) { return replacement_(value); }
  ValuePtr Rebuild(const ValuePtr&, const List& list) {
    auto items = Changed(list.items);
    return items ? MakeList(std::move(*items)) : nullptr;
  }
  ValuePtr Rebuild(const ValuePtr&, const Tuple& tuple) {
    auto items = Changed(tuple.items);
    return items ? MakeTuple(std::move(*items)) : nullptr;
  }
  ValuePtr Rebuild(const ValuePtr&, const Dict& dict) {
    auto entries = Changed(dict.entries);
    return entries ? MakeDict(std::move(*entries)) : nullptr;
  }
  ValuePtr Rebuild(const ValuePtr&, const Call& call) {
    ValuePtr callable = Changed(call.callable);
    ValuePtr arguments = Changed(call.arguments);
    auto items = Changed(call.items);
    auto entries = Changed(call.entries);
    ValuePtr state = Changed(call.state);
    if (!callable && !arguments && !items && !entries && !state) return nullptr;
    Call changed = call;
    if (callable) changed.callable = std::move(callable);
    if (arguments) changed.arguments = std::move(arguments);
    if (items) changed.items = std::move(*items);
    if (entries) changed.entries = std::move(*entries);
    if (state) changed.state = std::move(state);
    return MakeCall(std::move(changed));
  }

  // Nothing: all of them stay.
  std::optional<std::vector<ValuePtr>> Changed(const std::vector<ValuePtr>& items) {
    std::optional<std::vector<ValuePtr>> all;
    for (std::size_t i = 0; i < items.size(); ++i) {
      ValuePtr item = Changed(items[i]);
      if (!item) continue;
      if (!all) all = items;
      (*all)[i] = std::move(item);
    }
    return all;
  }
  std::optional<std::vector<Entry>> Changed(const std::vector<Entry>& entries) {
    std::optional<std::vector<Entry>> all;
    for (std::size_t i = 0; i < entries.size(); ++i) {
      ValuePtr key = Changed(entries[i].key);
      ValuePtr value = Changed(entries[i].value);
      if (!key && !value) continue;
      if (!all) all = entries;
      if (key) (*all)[i].key = std::move(key);
      if (value) (*all)[i].value = std::move(value);
    }
    return all;
  }

  const std::function<ValuePtr(const ValuePtr&)>& replacement_;
  llvm::DenseMap<const Value*, ValuePtr> results_;
};

}  // namespace

ValuePtr ReplaceTensors(const ValuePtr& root, const std::function<ValuePtr(const ValuePtr& tensor)>& replacement) {
  ValuePtr changed = TensorReplacer(replacement).Changed(root);
  return changed ? changed : root;
}

}  // namespace ucp::pytorch
