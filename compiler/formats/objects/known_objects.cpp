// A walk over values that stops at nothing it does not know. An object that a pickle makes by a call is known if the
// list has the name and the call has its form; the parts that the form leaves open are looked at in turn.
#include "compiler/formats/objects/known_objects.h"

#include <llvm/ADT/DenseSet.h>

#include <algorithm>
#include <array>
#include <tuple>

#include "compiler/formats/objects/object_forms.h"
#include "compiler/formats/pytorch/values/torch_names.h"
#include "compiler/formats/pytorch/values/value_access.h"
#include "compiler/formats/pytorch/values/value_walk.h"

namespace ucp::objects {
namespace {

using pytorch::Call;
using pytorch::Entry;
using pytorch::Global;
using pytorch::Value;
using pytorch::ValuePtr;

using Values = std::vector<const Value*>;

bool Has(auto& names, std::string_view name) { return std::find(names.begin(), names.end(), name) != names.end(); }

// Types and dtypes, which may stand as values by themselves.
bool IsKnownValue(const Global& global) {
  constexpr std::array<std::string_view, 11> kTypes = {"bool", "bytes", "complex", "dict", "float", "frozenset",
                                                       "int",  "list",  "set",     "str",  "tuple"};
  // Dtypes that no conversion knows, and how numbers are quantised.
  constexpr std::array<std::string_view, 11> kOfTorch = {"complex32",
                                                         "float8_e8m0fnu",
                                                         "float4_e2m1fn_x2",
                                                         "qint8",
                                                         "qint32",
                                                         "quint8",
                                                         "quint4x2",
                                                         "quint2x4",
                                                         "per_tensor_affine",
                                                         "per_channel_affine",
                                                         "per_channel_affine_float_qparams"};
  if (ModuleOf(global) == "builtins") return Has(kTypes, global.name);
  return pytorch::DTypeOfGlobal(global).has_value() || (global.module == "torch" && Has(kOfTorch, global.name));
}

// The class and the function that a call of known_table.cpp has among its arguments. By themselves they are not run.
bool IsOfDTensors(const Global& global) {
  return (global.module == "torch.distributed.tensor" && global.name == "DTensor") ||
         (global.module == "torch._utils" && global.name == "_rebuild_wrapper_subclass");
}

const KnownObject* FindEntryOf(const Global& global) {
  const std::span<const KnownObject> all = AllKnownObjects();
  const auto key = std::pair(ModuleOf(global), std::string_view(global.name));
  const auto found = std::lower_bound(all.begin(), all.end(), key, [](const KnownObject& known, const auto& wanted) {
    return std::tie(known.module, known.name) < std::tie(wanted.first, wanted.second);
  });
  return found != all.end() && found->module == key.first && found->name == key.second ? &*found : nullptr;
}

// The class and the attributes that a tensor is given after it was made.
bool IsKnownTensor(const pytorch::Tensor& tensor) {
  if (tensor.python_class) {
    const auto* global = tensor.python_class->As<Global>();
    constexpr std::array<std::string_view, 4> kClasses = {"torch.Tensor", "torch._tensor.Tensor",
                                                          "torch.nn.parameter.Buffer", "torch.nn.parameter.Parameter"};
    if (global == nullptr || !Has(kClasses, NameOf(*global))) return false;
  }
  if (!tensor.attributes) return true;
  const auto* attributes = tensor.attributes->As<pytorch::Dict>();
  return attributes != nullptr &&
         std::all_of(attributes->entries.begin(), attributes->entries.end(), [](const Entry& entry) {
           const auto name = pytorch::AsText(*entry.key);
           return name && !name->starts_with("__");
         });
}

void AppendItems(const std::vector<ValuePtr>& items, Values& values) {
  for (const ValuePtr& item : items) values.push_back(item.get());
}

}  // namespace

bool KnownObjects::IsKept(const Global& global) const {
  return !keep_.empty() && (Has(keep_, global.module + "." + global.name) || Has(keep_, NameOf(global)));
}

bool KnownObjects::KnowsName(const Global& global) const {
  const KnownObject* known = FindEntryOf(global);
  const bool is_of_scans = use_ == KnownFor::kScans && known != nullptr && known->is_for_scans;
  return is_of_scans || (use_ == KnownFor::kScans && IsOfDTensors(global)) || IsKnownName(global) || IsKept(global);
}

bool KnownObjects::IsKnown(const Value& value) const {
  if (const auto* global = value.As<Global>()) {
    return IsKnownValue(*global) || (use_ == KnownFor::kScans && IsOfDTensors(*global)) || IsKept(*global);
  }
  if (const auto* tensor = value.As<pytorch::Tensor>()) return IsKnownTensor(*tensor);
  const auto* call = value.As<Call>();
  if (call == nullptr) return true;
  const auto* callable = call->callable->As<Global>();
  if (callable == nullptr) return false;
  const KnownObject* known = FindEntryOf(*callable);
  if (known != nullptr && known->is_for_scans && use_ != KnownFor::kScans) known = nullptr;
  return (known != nullptr && known->fits(*known, *call)) || IsKept(*callable);
}

std::optional<OpenParts> KnownObjects::OpenPartsOf(const Call& call) const {
  const auto& callable = *call.callable->As<Global>();
  if (IsKept(callable)) return std::nullopt;
  return FindEntryOf(callable)->open;
}

void KnownObjects::AppendOpen(const Value& value, Values& values) const {
  if (const auto* tensor = value.As<pytorch::Tensor>()) {
    if (tensor->attributes) values.push_back(tensor->attributes.get());
    return;
  }
  const auto* call = value.As<Call>();
  if (call == nullptr) return pytorch::AppendChildren(value, values);
  const OpenParts open = OpenPartsOf(*call).value_or(OpenParts{true, true, true, true});
  if (open.arguments) values.push_back(call->arguments.get());
  if (open.items) AppendItems(call->items, values);
  if (open.entries) {
    for (const Entry& entry : call->entries) values.push_back(entry.key.get()), values.push_back(entry.value.get());
  }
  if (open.state && call->state) values.push_back(call->state.get());
}

const Value* KnownObjects::FindUnknown(const Value& root) const {
  llvm::DenseSet<const Value*> seen;
  Values visits = {&root};
  while (!visits.empty()) {
    const Value* value = visits.back();
    visits.pop_back();
    if (!IsKnown(*value)) return value;
    if (pytorch::IsContainer(*value) && seen.insert(value).second) AppendOpen(*value, visits);
  }
  return nullptr;
}

std::string NameOf(const Global& global) { return std::string(ModuleOf(global)) + "." + global.name; }

bool IsKnownName(const Global& global) {
  const KnownObject* known = FindEntryOf(global);
  return (known != nullptr && !known->is_for_scans) || IsKnownValue(global);
}

bool IsKnownName(const std::string& name) {
  const std::size_t dot = name.rfind('.');
  return dot != std::string::npos && IsKnownName(Global{name.substr(0, dot), name.substr(dot + 1)});
}

}  // namespace ucp::objects
