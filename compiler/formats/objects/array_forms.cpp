// numpy's arrays, scalars and dtypes. Elements are bytes; a dtype of objects would hold anything, and is not one of
// these.
#include <algorithm>
#include <cctype>
#include <cstdint>
#include <vector>

#include "compiler/formats/objects/object_forms.h"
#include "compiler/formats/pytorch/values/value_access.h"

namespace ucp::objects {
namespace {

using pytorch::AsInteger;
using pytorch::AsText;
using pytorch::Call;
using pytorch::Global;
using pytorch::Tuple;
using pytorch::Value;
using pytorch::ValuePtr;

const std::vector<ValuePtr>* ItemsOf(const Value& value) {
  const auto* tuple = value.As<Tuple>();
  return tuple == nullptr ? nullptr : &tuple->items;
}

const std::vector<ValuePtr>* ArgumentsOf(const Call& call, std::size_t count) {
  const auto* arguments = ItemsOf(*call.arguments);
  const bool is_alone = call.form == Call::Form::kReduce && call.items.empty() && call.entries.empty();
  return is_alone && arguments != nullptr && arguments->size() == count ? arguments : nullptr;
}

bool IsNamed(const Value& value, std::string_view module, std::string_view name) {
  const auto* global = value.As<Global>();
  return global != nullptr && ModuleOf(*global) == module && global->name == name;
}

bool IsRaw(const Value& value) { return pytorch::AsBytes(value) || AsText(value); }  // Python 2 had one type for both.

bool IsFlag(const Value& value) { return pytorch::AsBool(value) || AsInteger(value); }

bool IsShape(const Value& value) { return value.As<Tuple>() != nullptr && pytorch::AsIntegers(value); }

// "f8", "U10": numbers, texts, raw bytes, times; not "O".
bool IsElementCode(const Value& value) {
  const auto code = AsText(value);
  constexpr std::string_view kKinds = "?bBhHiIlLqQuefdgcFDGSaUVMm";
  return code && !code->empty() && kKinds.find(code->front()) != std::string_view::npos &&
         std::all_of(code->begin() + 1, code->end(), [](unsigned char c) { return std::isdigit(c) != 0; });
}

// Of times, which unit they count: ({}, (b'ns', 1, 1, 1)).
bool IsTimeUnit(const Value& value) {
  const auto* parts = ItemsOf(value);
  if (parts == nullptr || parts->size() != 2) return false;
  const auto* dict = (*parts)[0]->As<pytorch::Dict>();
  const auto* unit = ItemsOf(*(*parts)[1]);
  return dict != nullptr && dict->entries.empty() && unit != nullptr &&
         std::all_of(unit->begin(), unit->end(), [](const ValuePtr& one) { return IsRaw(*one) || AsInteger(*one); });
}

// (version, byte order, None, None, None, -1, -1, 0): without fields and parts, which could have dtypes of their own.
bool IsDTypeState(const Value& value) {
  const auto* state = ItemsOf(value);
  if (state == nullptr || (state->size() != 8 && state->size() != 9)) return false;
  auto is_integer = [&](std::size_t i) { return AsInteger(*(*state)[i]).has_value(); };
  return is_integer(0) && AsText(*(*state)[1]) && (*state)[2]->is_none() && (*state)[3]->is_none() &&
         (*state)[4]->is_none() && is_integer(5) && is_integer(6) && is_integer(7) &&
         (state->size() == 8 || IsTimeUnit(*(*state)[8]));
}

bool IsDTypeCall(const Call& call) {
  const auto* arguments = ArgumentsOf(call, 3);
  return arguments != nullptr && IsElementCode(*(*arguments)[0]) && IsFlag(*(*arguments)[1]) &&
         IsFlag(*(*arguments)[2]) && (call.state == nullptr || IsDTypeState(*call.state));
}

bool IsDType(const Value& value) {
  const auto* call = value.As<Call>();
  return call != nullptr && IsNamed(*call->callable, "numpy", "dtype") && IsDTypeCall(*call);
}

// (1, shape, dtype, is_fortran, bytes)
bool IsArrayState(const Value& value) {
  const auto* state = ItemsOf(value);
  return state != nullptr && state->size() == 5 && AsInteger(*(*state)[0]) && IsShape(*(*state)[1]) &&
         IsDType(*(*state)[2]) && IsFlag(*(*state)[3]) && IsRaw(*(*state)[4]);
}

}  // namespace

bool IsNumpyArray(const KnownObject&, const Call& call) {
  const auto* arguments = ArgumentsOf(call, 3);
  return arguments != nullptr && IsNamed(*(*arguments)[0], "numpy", "ndarray") &&
         pytorch::AsIntegers(*(*arguments)[1]) == std::vector<std::int64_t>{0} && IsRaw(*(*arguments)[2]) &&
         call.state != nullptr && IsArrayState(*call.state);
}

bool IsNumpyBuffer(const KnownObject&, const Call& call) {
  const auto* arguments = ArgumentsOf(call, 4);
  return arguments != nullptr && call.state == nullptr && pytorch::AsBytes(*(*arguments)[0]) &&
         IsDType(*(*arguments)[1]) && IsShape(*(*arguments)[2]) && AsText(*(*arguments)[3]);
}

bool IsNumpyScalar(const KnownObject&, const Call& call) {
  const auto* arguments = ArgumentsOf(call, 2);
  return arguments != nullptr && call.state == nullptr && IsDType(*(*arguments)[0]) && IsRaw(*(*arguments)[1]);
}

bool IsNumpyDType(const KnownObject&, const Call& call) { return IsDTypeCall(call); }

}  // namespace ucp::objects
