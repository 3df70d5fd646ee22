#include "compiler/formats/pytorch/values/value_walk.h"

namespace ucp::pytorch {
namespace {

using Children = std::vector<const Value*>;

void AppendOne(const ValuePtr& child, Children& children) {
  if (child) children.push_back(child.get());
}

void AppendItems(const std::vector<ValuePtr>& items, Children& children) {
  for (const ValuePtr& item : items) children.push_back(item.get());
}

void AppendEntries(const std::vector<Entry>& entries, Children& children) {
  for (const Entry& entry : entries) {
    children.push_back(entry.key.get());
    children.push_back(entry.value.get());
  }
}

struct ChildrenOf {
  Children& children;

  void operator()(const List& list) const { AppendItems(list.items, children); }
  void operator()(const Tuple& tuple) const { AppendItems(tuple.items, children); }
  void operator()(const Dict& dict) const { AppendEntries(dict.entries, children); }
  void operator()(const Call& call) const {
    AppendOne(call.callable, children);
    AppendOne(call.arguments, children);
    AppendItems(call.items, children);
    AppendEntries(call.entries, children);
    AppendOne(call.state, children);
  }
  void operator()(const Tensor& tensor) const {
    AppendOne(tensor.python_class, children);
    AppendOne(tensor.attributes, children);
  }
  void operator()(const None&) const {}
  void operator()(bool) const {}
  void operator()(std::int64_t) const {}
  void operator()(const BigInteger&) const {}
  void operator()(double) const {}
  void operator()(const Text&) const {}
  void operator()(const Bytes&) const {}
  void operator()(const Global&) const {}
  void operator()(const StorageReference&) const {}
};

}  // namespace

bool IsContainer(const Value& value) {
  if (const auto* tensor = value.As<Tensor>()) return tensor->python_class || tensor->attributes;
  return value.As<List>() != nullptr || value.As<Tuple>() != nullptr || value.As<Dict>() != nullptr ||
         value.As<Call>() != nullptr;
}

bool IsLeaf(const Value& value) {
  return value.As<List>() == nullptr && value.As<Tuple>() == nullptr && value.As<Dict>() == nullptr &&
         value.As<Call>() == nullptr && value.As<Tensor>() == nullptr && value.As<StorageReference>() == nullptr;
}

void AppendChildren(const Value& value, Children& children) { value.Visit(ChildrenOf{children}); }

}  // namespace ucp::pytorch
