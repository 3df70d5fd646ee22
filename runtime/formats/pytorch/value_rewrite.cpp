#include <llvm/ADT/DenseMap.h>

#include "runtime/formats/pytorch/value_access.h"

namespace ucp::pytorch {
namespace {

// Rebuilds bottom-up; a value none of whose parts changed is itself again, so most of a tree is not copied.
class TensorReplacer {
 public:
  explicit TensorReplacer(const std::function<ValuePtr(const ValuePtr&)>& replacement) : replacement_(replacement) {}

  ValuePtr Replace(const ValuePtr& value) {
    if (!value) return nullptr;
    if (const auto known = results_.find(value.get()); known != results_.end()) return known->second;
    ValuePtr result = std::visit([&](const auto& content) { return Rebuild(value, content); }, value->content());
    results_[value.get()] = result;
    return result;
  }

 private:
  template <typename Leaf>
  ValuePtr Rebuild(const ValuePtr& value, const Leaf&) {
    return value;
  }
  ValuePtr Rebuild(const ValuePtr& value, const Tensor&) { return replacement_(value); }
  ValuePtr Rebuild(const ValuePtr& value, const List& list) {
    auto items = Replace(list.items);
    return Same(items, list.items) ? value : MakeList(std::move(items));
  }
  ValuePtr Rebuild(const ValuePtr& value, const Tuple& tuple) {
    auto items = Replace(tuple.items);
    return Same(items, tuple.items) ? value : MakeTuple(std::move(items));
  }
  ValuePtr Rebuild(const ValuePtr& value, const Dict& dict) {
    auto entries = Replace(dict.entries);
    return Same(entries, dict.entries) ? value : MakeDict(std::move(entries));
  }
  ValuePtr Rebuild(const ValuePtr& value, const Call& call) {
    Call changed;
    changed.form = call.form;
    changed.callable = Replace(call.callable);
    changed.arguments = Replace(call.arguments);
    changed.items = Replace(call.items);
    changed.entries = Replace(call.entries);
    changed.state = Replace(call.state);
    const bool is_same = changed.callable == call.callable && changed.arguments == call.arguments &&
                         Same(changed.items, call.items) && Same(changed.entries, call.entries) &&
                         changed.state == call.state;
    return is_same ? value : MakeCall(std::move(changed));
  }

  std::vector<ValuePtr> Replace(const std::vector<ValuePtr>& items) {
    std::vector<ValuePtr> replaced;
    replaced.reserve(items.size());
    for (const ValuePtr& item : items) replaced.push_back(Replace(item));
    return replaced;
  }
  std::vector<Entry> Replace(const std::vector<Entry>& entries) {
    std::vector<Entry> replaced;
    replaced.reserve(entries.size());
    for (const Entry& entry : entries) {
      ValuePtr key = Replace(entry.key);
      replaced.push_back({std::move(key), Replace(entry.value)});
    }
    return replaced;
  }
  static bool Same(const std::vector<ValuePtr>& a, const std::vector<ValuePtr>& b) { return a == b; }
  static bool Same(const std::vector<Entry>& a, const std::vector<Entry>& b) {
    for (std::size_t i = 0; i < a.size(); ++i) {
      if (a[i].key != b[i].key || a[i].value != b[i].value) return false;
    }
    return true;
  }

  const std::function<ValuePtr(const ValuePtr&)>& replacement_;
  llvm::DenseMap<const Value*, ValuePtr> results_;
};

}  // namespace

ValuePtr ReplaceTensors(const ValuePtr& root, const std::function<ValuePtr(const ValuePtr& tensor)>& replacement) {
  return TensorReplacer(replacement).Replace(root);
}

}  // namespace ucp::pytorch
