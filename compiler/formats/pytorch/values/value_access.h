// Questions that readers of checkpoints ask of a value, answered over the several forms that Python gives the same
// thing. None of them fails: a value of another kind is "nothing".
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "compiler/formats/pytorch/values/value.h"

namespace ucp::pytorch {

// Returns the value under a text key of a dict, an OrderedDict or another mapping, or the attribute of that name of an
// object (argparse.Namespace, fragment_address, LossScaler). Returns null if there is none. Linear in the entries.
ValuePtr Find(const Value& value, std::string_view key);
ValuePtr Find(const Value& value, std::int64_t key);  // An integer key of a mapping.

bool IsOrderedDict(const Value& value);

// Returns the entries of a dict, an OrderedDict or another mapping; null for other values.
const std::vector<Entry>* Entries(const Value& value);
// Returns the attributes of an object: the entries of its state. Returns null for other values. (An OrderedDict has
// both.)
const std::vector<Entry>* Attributes(const Value& value);
// Returns the items of a list, a tuple, a torch.Size, a set or a frozenset; null for other values.
const std::vector<ValuePtr>* Items(const Value& value);

std::optional<bool> AsBool(const Value& value);
std::optional<std::int64_t> AsInteger(const Value& value);  // Not a bool.
std::optional<double> AsDouble(const Value& value);         // Also an integer.
std::optional<std::string_view> AsText(const Value& value);
std::optional<std::string_view> AsBytes(const Value& value);
std::optional<DType> AsDType(const Value& value);  // `torch.float16`.
// Returns a list, tuple or torch.Size of integers.
std::optional<std::vector<std::int64_t>> AsIntegers(const Value& value);

// "collections.OrderedDict", "argparse.Namespace", "deepspeed.runtime.zero.config.ZeroStageEnum": the class (or
// function) that makes this object, in Python 3's spelling. Of an enum member its class, in both forms. It is empty for
// plain values.
std::string ClassName(const Value& value);

// A member of an enum: `Class(2)` or `getattr(Class, 'gradients')`. Only a form: the caller knows which classes are
// enums.
struct EnumMember {
  std::string class_name;
  std::variant<std::int64_t, std::string> member;
};
std::optional<EnumMember> AsEnumMember(const Value& value);

// Returns the tree with every tensor replaced by the result of `replacement` for it (called once for each distinct
// tensor, in the order of first appearance; values in its attributes are not visited), and everything else shared with
// the old tree or rebuilt with the same sharing. Linear.
ValuePtr ReplaceTensors(const ValuePtr& root, const std::function<ValuePtr(const ValuePtr& tensor)>& replacement);

// Returns one readable line, Python-like; a shared value is printed once, as `&1 {...}`, and then named `*1`. Two trees
// print the same if and only if they mean the same with the same sharing of lists, dicts, calls, tensors and storages.
// Linear.
std::string Print(const Value& value);

}  // namespace ucp::pytorch
