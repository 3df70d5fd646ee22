// The instructions that make and fill tuples, lists, dicts and sets.
#include <algorithm>
#include <iterator>

#include "compiler/formats/pytorch/pickle/pickle_machine.h"
#include "compiler/support/error.h"

namespace ucp::pytorch {

llvm::Error PickleMachine::PushEmptyList() { return PushNew(List{}); }
llvm::Error PickleMachine::PushEmptyDict() { return PushNew(Dict{}); }

llvm::Error PickleMachine::PushEmptyTuple() {
  static const ValuePtr empty = MakeTuple({});
  return Push(empty);
}

// Sets have no instruction at protocol 2: they are calls, and protocol 4's become the same calls.
llvm::Error PickleMachine::PushEmptySet() { return Push(NewCall("builtins", "set", {builder_.New(List{})})); }

llvm::Error PickleMachine::MakeTupleOf(std::size_t count) {
  UCP_RETURN_IF_ERROR(CheckHolds(count));
  const auto begin = stack_.end() - static_cast<std::ptrdiff_t>(count);
  std::vector<ValuePtr> items(std::make_move_iterator(begin), std::make_move_iterator(stack_.end()));
  stack_.erase(begin, stack_.end());
  return PushNew(Tuple{std::move(items)});
}

llvm::Error PickleMachine::MakeTuple1() { return MakeTupleOf(1); }
llvm::Error PickleMachine::MakeTuple2() { return MakeTupleOf(2); }
llvm::Error PickleMachine::MakeTuple3() { return MakeTupleOf(3); }

llvm::Error PickleMachine::MakeTupleToMark() {
  UCP_ASSIGN_OR_RETURN(std::vector<ValuePtr> items, PopToMark());
  return PushNew(Tuple{std::move(items)});
}

llvm::Error PickleMachine::MakeListToMark() {
  UCP_ASSIGN_OR_RETURN(std::vector<ValuePtr> items, PopToMark());
  return PushNew(List{std::move(items)});
}

llvm::Error PickleMachine::MakeDictToMark() {
  UCP_ASSIGN_OR_RETURN(std::vector<Entry> entries, PopEntriesToMark());
  return PushNew(Dict{std::move(entries)});
}

llvm::Error PickleMachine::MakeFrozenSetToMark() {
  UCP_ASSIGN_OR_RETURN(std::vector<ValuePtr> items, PopToMark());
  return Push(NewCall("builtins", "frozenset", {builder_.New(List{std::move(items)})}));
}

llvm::Error PickleMachine::AppendTo(const ValuePtr& target, std::vector<ValuePtr> items) {
  std::vector<ValuePtr>* place = nullptr;
  if (auto* list = ValueBuilder::Fillable<List>(target)) place = &list->items;
  if (auto* call = ValueBuilder::Fillable<Call>(target); call != nullptr && !call->state) place = &call->items;
  if (place == nullptr) return Fail(ErrorCode::kBadData, "items are appended to a value that is not a list");
  std::ranges::move(items, std::back_inserter(*place));
  return llvm::Error::success();
}

llvm::Error PickleMachine::AppendOne() {
  UCP_ASSIGN_OR_RETURN(ValuePtr item, Pop());
  UCP_ASSIGN_OR_RETURN(const ValuePtr target, Top());
  return AppendTo(target, {std::move(item)});
}

llvm::Error PickleMachine::AppendToMark() {
  UCP_ASSIGN_OR_RETURN(std::vector<ValuePtr> items, PopToMark());
  UCP_ASSIGN_OR_RETURN(const ValuePtr target, Top());
  return AppendTo(target, std::move(items));
}

llvm::Error PickleMachine::AddToSet() {
  UCP_ASSIGN_OR_RETURN(std::vector<ValuePtr> items, PopToMark());
  UCP_ASSIGN_OR_RETURN(const ValuePtr target, Top());
  const Call* call = target->As<Call>();
  const Global* callable = call == nullptr ? nullptr : call->callable->As<Global>();
  const Tuple* arguments = call == nullptr ? nullptr : call->arguments->As<Tuple>();
  if (callable == nullptr || callable->name != "set" || arguments->items.size() != 1 ||
      arguments->items[0]->As<List>() == nullptr) {
    return Fail(ErrorCode::kBadData, "items are added to a value that is not a set");
  }
  return AppendTo(arguments->items[0], std::move(items));
}

llvm::Error PickleMachine::SetIn(const ValuePtr& target, std::vector<Entry> entries) {
  std::vector<Entry>* place = nullptr;
  if (auto* dict = ValueBuilder::Fillable<Dict>(target)) place = &dict->entries;
  if (auto* call = ValueBuilder::Fillable<Call>(target); call != nullptr && !call->state) place = &call->entries;
  if (place == nullptr) return Fail(ErrorCode::kBadData, "keys are set in a value that is not a dict");
  std::ranges::move(entries, std::back_inserter(*place));
  return llvm::Error::success();
}

llvm::Error PickleMachine::SetOne() {
  UCP_ASSIGN_OR_RETURN(ValuePtr value, Pop());
  UCP_ASSIGN_OR_RETURN(ValuePtr key, Pop());
  UCP_ASSIGN_OR_RETURN(const ValuePtr target, Top());
  return SetIn(target, {{std::move(key), std::move(value)}});
}

llvm::Error PickleMachine::SetToMark() {
  UCP_ASSIGN_OR_RETURN(std::vector<Entry> entries, PopEntriesToMark());
  UCP_ASSIGN_OR_RETURN(const ValuePtr target, Top());
  return SetIn(target, std::move(entries));
}

}  // namespace ucp::pytorch
