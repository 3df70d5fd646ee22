#include "compiler/formats/pytorch/values/value_access.h"

#include <fmt/format.h>

#include "compiler/formats/pytorch/values/torch_names.h"

namespace ucp::pytorch {
namespace {

const std::vector<ValuePtr>* Arguments(const Call& call) {
  const auto* arguments = call.arguments->As<Tuple>();
  return arguments == nullptr ? nullptr : &arguments->items;
}

bool IsGlobal(const Value& value, std::string_view module, std::string_view name) {
  const auto* global = value.As<Global>();
  return global != nullptr && global->module == module && global->name == name;
}

bool IsBuiltin(const Value& value, std::string_view name) {
  return IsGlobal(value, "builtins", name) || IsGlobal(value, "__builtin__", name);
}

// Protocol 2 names Python 3's modules as Python 2 did.
std::string QualifiedName(const Global& global) {
  std::string_view module = global.module;
  if (module == "__builtin__") module = "builtins";
  if (module == "copy_reg") module = "copyreg";
  return fmt::format("{}.{}", module, global.name);
}

// The class and the name in `getattr(Class, 'name')`.
struct NamedMember {
  const Global* object_class;
  std::string_view name;
};
std::optional<NamedMember> AsNamedMember(const Call& call) {
  const auto* arguments = Arguments(call);
  if (!IsBuiltin(*call.callable, "getattr") || arguments == nullptr || arguments->size() != 2) return std::nullopt;
  const auto* object_class = (*arguments)[0]->As<Global>();
  const auto name = AsText(*(*arguments)[1]);
  if (object_class == nullptr || !name) return std::nullopt;
  return NamedMember{object_class, *name};
}

ValuePtr FindText(const std::vector<Entry>* entries, std::string_view key) {
  if (entries == nullptr) return nullptr;
  for (const Entry& entry : *entries) {
    if (AsText(*entry.key) == key) return entry.value;
  }
  return nullptr;
}

}  // namespace

ValuePtr Find(const Value& value, std::string_view key) {
  if (ValuePtr found = FindText(Entries(value), key)) return found;
  if (IsOrderedDict(value)) return nullptr;
  return FindText(Attributes(value), key);
}

ValuePtr Find(const Value& value, std::int64_t key) {
  const auto* entries = Entries(value);
  if (entries == nullptr) return nullptr;
  for (const Entry& entry : *entries) {
    if (AsInteger(*entry.key) == key) return entry.value;
  }
  return nullptr;
}

bool IsOrderedDict(const Value& value) {
  const auto* call = value.As<Call>();
  return call != nullptr && IsGlobal(*call->callable, "collections", "OrderedDict");
}

const std::vector<Entry>* Entries(const Value& value) {
  if (const auto* dict = value.As<Dict>()) return &dict->entries;
  const auto* call = value.As<Call>();
  if (call == nullptr) return nullptr;
  return !call->entries.empty() || IsOrderedDict(value) ? &call->entries : nullptr;
}

const std::vector<Entry>* Attributes(const Value& value) {
  const auto* call = value.As<Call>();
  const auto* state = call != nullptr && call->state ? call->state->As<Dict>() : nullptr;
  return state == nullptr ? nullptr : &state->entries;
}

const std::vector<ValuePtr>* Items(const Value& value) {
  if (const auto* list = value.As<List>()) return &list->items;
  if (const auto* tuple = value.As<Tuple>()) return &tuple->items;
  const auto* call = value.As<Call>();
  if (call == nullptr) return nullptr;
  const bool holds_items = IsGlobal(*call->callable, "torch", "Size") || IsBuiltin(*call->callable, "set") ||
                           IsBuiltin(*call->callable, "frozenset");
  const auto* arguments = Arguments(*call);
  if (!holds_items || arguments == nullptr || arguments->size() != 1) return nullptr;
  if (const auto* list = (*arguments)[0]->As<List>()) return &list->items;
  if (const auto* tuple = (*arguments)[0]->As<Tuple>()) return &tuple->items;
  return nullptr;
}

std::optional<bool> AsBool(const Value& value) {
  const auto* content = value.As<bool>();
  return content == nullptr ? std::nullopt : std::optional(*content);
}

std::optional<std::int64_t> AsInteger(const Value& value) {
  const auto* content = value.As<std::int64_t>();
  return content == nullptr ? std::nullopt : std::optional(*content);
}

std::optional<double> AsDouble(const Value& value) {
  if (const auto* integer = value.As<std::int64_t>()) return static_cast<double>(*integer);
  const auto* content = value.As<double>();
  return content == nullptr ? std::nullopt : std::optional(*content);
}

std::optional<std::string_view> AsText(const Value& value) {
  const auto* text = value.As<Text>();
  return text == nullptr ? std::nullopt : std::optional<std::string_view>(text->utf8);
}

std::optional<std::string_view> AsBytes(const Value& value) {
  const auto* bytes = value.As<Bytes>();
  return bytes == nullptr ? std::nullopt : std::optional<std::string_view>(bytes->bytes);
}

std::optional<DType> AsDType(const Value& value) {
  const auto* global = value.As<Global>();
  return global == nullptr ? std::nullopt : DTypeOfGlobal(*global);
}

std::optional<std::vector<std::int64_t>> AsIntegers(const Value& value) {
  const auto* items = Items(value);
  if (items == nullptr) return std::nullopt;
  std::vector<std::int64_t> integers;
  for (const ValuePtr& item : *items) {
    const auto integer = AsInteger(*item);
    if (!integer) return std::nullopt;
    integers.push_back(*integer);
  }
  return integers;
}

std::string ClassName(const Value& value) {
  const auto* call = value.As<Call>();
  if (call == nullptr) return "";
  if (const auto member = AsNamedMember(*call)) return QualifiedName(*member->object_class);
  const auto* callable = call->callable->As<Global>();
  return callable == nullptr ? "" : QualifiedName(*callable);
}

std::optional<EnumMember> AsEnumMember(const Value& value) {
  const auto* call = value.As<Call>();
  if (call == nullptr) return std::nullopt;
  if (const auto member = AsNamedMember(*call)) {
    return EnumMember{QualifiedName(*member->object_class), std::string(member->name)};
  }
  const auto* arguments = Arguments(*call);
  if (call->callable->As<Global>() == nullptr || arguments == nullptr || arguments->size() != 1) return std::nullopt;
  const ValuePtr& argument = arguments->front();
  if (const auto number = AsInteger(*argument)) return EnumMember{ClassName(value), *number};
  if (const auto text = AsText(*argument)) return EnumMember{ClassName(value), std::string(*text)};
  return std::nullopt;
}

}  // namespace ucp::pytorch
