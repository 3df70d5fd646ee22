// Each function looks at one call alone. Parts that a call may hold besides its arguments, and does not, must be
// absent: an argument, an item or a state that the framework never writes is how an object of a known class is made to
// run code.
#include "compiler/formats/objects/object_forms.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "compiler/formats/pytorch/values/tensor_forms.h"
#include "compiler/formats/pytorch/values/value_access.h"

namespace ucp::objects {
namespace {

using pytorch::Call;
using pytorch::Dict;
using pytorch::Entry;
using pytorch::Global;
using pytorch::List;
using pytorch::Tuple;
using pytorch::Value;
using pytorch::ValuePtr;

enum class Further { kNothing, kFurtherItems, kFurtherEntries };

// The arguments of `callable(*arguments)`, if nothing but `further` stands behind the call.
const std::vector<ValuePtr>* ArgumentsOf(const Call& call, Further further) {
  const auto* arguments = call.arguments->As<Tuple>();
  const bool is_plain = call.form == Call::Form::kReduce && (call.items.empty() || further == Further::kFurtherItems) &&
                        (call.entries.empty() || further == Further::kFurtherEntries);
  return is_plain && arguments != nullptr ? &arguments->items : nullptr;
}

const std::vector<ValuePtr>* ArgumentsAlone(const Call& call, Further further = Further::kNothing) {
  return call.state == nullptr ? ArgumentsOf(call, further) : nullptr;
}

bool IsListing(const Value& value) { return value.As<List>() != nullptr || value.As<Tuple>() != nullptr; }

bool IsNumber(const Value& value) {
  return value.As<std::int64_t>() != nullptr || value.As<double>() != nullptr ||
         value.As<pytorch::BigInteger>() != nullptr;
}

bool IsFactory(const Value& value) {
  constexpr std::array<std::string_view, 8> kTypes = {"bool", "dict", "float", "int", "list", "set", "str", "tuple"};
  const auto* global = value.As<Global>();
  if (global == nullptr) return value.is_none();
  if (ModuleOf(*global) == "collections") return global->name == "OrderedDict";
  return ModuleOf(*global) == "builtins" && std::find(kTypes.begin(), kTypes.end(), global->name) != kTypes.end();
}

bool HasWord(const KnownObject& known, std::string_view word) {
  return std::find(known.words.begin(), known.words.end(), word) != known.words.end();
}

// Attributes are set past the methods of a class, and would be called in their place: `__class__`, `__len__`.
bool IsAttributeName(const Value& key) {
  const auto name = pytorch::AsText(key);
  return name && !name->empty() && !(name->starts_with("__") && name->ends_with("__"));
}

bool HasAttributesOf(const KnownObject& known, const Call& call, bool (*may_be)(const Value&)) {
  const auto* arguments = call.arguments->As<Tuple>();
  if (call.form != Call::Form::kNewObject || arguments == nullptr || !arguments->items.empty()) return false;
  if (!call.items.empty() || !call.entries.empty()) return false;
  if (call.state == nullptr) return true;
  const auto* attributes = call.state->As<Dict>();
  return attributes != nullptr &&
         std::all_of(attributes->entries.begin(), attributes->entries.end(), [&](const Entry& entry) {
           const bool is_name = IsAttributeName(*entry.key);
           return is_name && (known.words.empty() || HasWord(known, *pytorch::AsText(*entry.key))) &&
                  may_be(*entry.value);
         });
}

}  // namespace

std::string_view ModuleOf(const Global& global) {
  if (global.module == "__builtin__") return "builtins";
  if (global.module == "numpy.core.multiarray") return "numpy._core.multiarray";
  if (global.module == "numpy.core.numeric") return "numpy._core.numeric";
  return global.module;
}

bool IsPlainNumber(const Value& value) {
  return value.is_none() || value.As<bool>() != nullptr || IsNumber(value) || pytorch::AsDType(value);
}

// Its one attribute says of which versions the parts of a module are.
bool IsMapping(const KnownObject&, const Call& call) {
  const auto* arguments = ArgumentsOf(call, Further::kFurtherEntries);
  if (arguments == nullptr || !arguments->empty()) return false;
  if (call.state == nullptr) return true;
  const auto* attributes = call.state->As<Dict>();
  return attributes != nullptr &&
         (attributes->entries.empty() ||
          (attributes->entries.size() == 1 && pytorch::AsText(*attributes->entries.front().key) == "_metadata"));
}

bool IsDefaultDict(const KnownObject&, const Call& call) {
  const auto* arguments = ArgumentsAlone(call, Further::kFurtherEntries);
  return arguments != nullptr && (arguments->empty() || (arguments->size() == 1 && IsFactory(*arguments->front())));
}

bool IsCounter(const KnownObject&, const Call& call) {
  const auto* arguments = ArgumentsAlone(call);
  return arguments != nullptr &&
         (arguments->empty() || (arguments->size() == 1 && arguments->front()->As<Dict>() != nullptr));
}

bool IsDeque(const KnownObject&, const Call& call) {
  const auto* arguments = ArgumentsAlone(call, Further::kFurtherItems);
  if (arguments == nullptr || arguments->size() > 2) return false;
  if (!arguments->empty() && !IsListing(*arguments->front())) return false;
  return arguments->size() < 2 || (*arguments)[1]->is_none() || pytorch::AsInteger(*(*arguments)[1]);
}

bool IsSet(const KnownObject&, const Call& call) {
  const auto* arguments = ArgumentsAlone(call);
  return arguments != nullptr && (arguments->empty() || (arguments->size() == 1 && IsListing(*arguments->front())));
}

bool IsOfNumbers(const KnownObject&, const Call& call) {
  const auto* arguments = ArgumentsAlone(call);
  return arguments != nullptr && !arguments->empty() && arguments->size() <= 3 &&
         std::all_of(arguments->begin(), arguments->end(),
                     [](const ValuePtr& value) { return value->is_none() || IsNumber(*value); });
}

// Not a number, for which Python would take as many bytes.
bool IsOfBytes(const KnownObject&, const Call& call) {
  const auto* arguments = ArgumentsAlone(call);
  if (arguments == nullptr) return false;
  if (arguments->size() == 2)
    return pytorch::AsText(*(*arguments)[0]) && pytorch::AsText(*(*arguments)[1]) == "latin-1";
  return arguments->empty() || (arguments->size() == 1 && pytorch::AsBytes(*arguments->front()));
}

bool IsSize(const KnownObject&, const Call& call) {
  const auto* arguments = ArgumentsAlone(call);
  if (arguments == nullptr || arguments->size() != 1 || !IsListing(*arguments->front())) return false;
  return pytorch::AsIntegers(*arguments->front()).has_value();
}

bool IsDevice(const KnownObject&, const Call& call) {
  const auto* arguments = ArgumentsAlone(call);
  if (arguments == nullptr || arguments->empty() || !pytorch::AsText(*arguments->front())) return false;
  return arguments->size() == 1 || (arguments->size() == 2 && pytorch::AsInteger(*(*arguments)[1]));
}

// A number or a text that is not a member is an error when it is loaded.
bool IsEnum(const KnownObject&, const Call& call) {
  const auto* arguments = ArgumentsAlone(call);
  return arguments != nullptr && arguments->size() == 1 &&
         (pytorch::AsInteger(*arguments->front()) || pytorch::AsText(*arguments->front()));
}

bool IsEnumMember(const KnownObject&, const Call& call) {
  const auto* arguments = ArgumentsAlone(call);
  if (arguments == nullptr || arguments->size() != 2) return false;
  const auto* owner = (*arguments)[0]->As<Global>();
  const auto member = pytorch::AsText(*(*arguments)[1]);
  if (owner == nullptr || !member) return false;
  const std::span<const KnownObject> all = AllKnownObjects();
  return std::any_of(all.begin(), all.end(), [&](const KnownObject& known) {
    return known.fits == &IsEnum && known.module == owner->module && known.name == owner->name &&
           HasWord(known, *member);
  });
}

bool IsPath(const KnownObject&, const Call& call) {
  const auto* arguments = ArgumentsAlone(call);
  return arguments != nullptr &&
         std::ranges::all_of(*arguments, [](const ValuePtr& part) { return pytorch::AsText(*part).has_value(); });
}

bool IsTensorCall(const KnownObject&, const Call& call) { return ArgumentsAlone(call) != nullptr; }

bool IsDTensorCall(const KnownObject&, const Call& call) {
  const auto* function = call.callable->As<Global>();
  const auto* arguments = call.arguments->As<Tuple>();
  return ArgumentsAlone(call) != nullptr && function != nullptr && arguments != nullptr &&
         pytorch::MakesDTensor(*function, *arguments);
}

bool IsNamedTuple(const KnownObject&, const Call& call) {
  return call.form == Call::Form::kNewObject && call.arguments->As<Tuple>() != nullptr && call.items.empty() &&
         call.entries.empty() && call.state == nullptr;
}

bool HasParts(const KnownObject&, const Call& call) {
  const auto* arguments = call.arguments->As<Tuple>();
  return call.form == Call::Form::kNewObject && arguments != nullptr && arguments->items.empty() &&
         call.items.empty() && call.entries.empty() && call.state != nullptr && call.state->As<Tuple>() != nullptr;
}

bool HasNumbers(const KnownObject& known, const Call& call) { return HasAttributesOf(known, call, &IsPlainNumber); }

bool HasAttributes(const KnownObject& known, const Call& call) {
  return HasAttributesOf(known, call, [](const Value&) { return true; });
}

}  // namespace ucp::objects
