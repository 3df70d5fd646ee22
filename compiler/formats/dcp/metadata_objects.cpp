#include "compiler/formats/dcp/metadata_objects.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "compiler/formats/pytorch/values/utf8.h"
#include "compiler/support/error.h"

namespace ucp::dcp {
namespace {

// PyTorch's classes have six at most. A hostile file may share one dict of many among all its objects.
constexpr std::size_t kMostAttributes = 64;

// Versions 1.12 and 1.13 had the package at another place, and up to 2.2 the properties were of sharded tensors.
constexpr std::array<std::string_view, 5> kModules = {
    "torch.distributed.checkpoint.metadata", "torch.distributed.checkpoint.filesystem",
    "torch.distributed._shard.sharded_tensor.metadata", "torch.distributed._shard.checkpoint.metadata",
    "torch.distributed._shard.checkpoint.filesystem"};

}  // namespace

std::optional<PickleTree::Id> MetadataObjects::ClassOf(Id id) const {
  if (tree_.kind(id) != PickleTree::Kind::kCall) return std::nullopt;
  const Id callable = tree_.Callable(id);
  return tree_.kind(callable) == PickleTree::Kind::kGlobal ? std::optional(callable) : std::nullopt;
}

bool MetadataObjects::Is(Id id, std::string_view class_name) const {
  const auto global = ClassOf(id);
  if (!global) return false;
  for (const KnownClass& known : known_) {
    if (known.global == *global) return known.name == class_name;
  }
  if (tree_.Name(*global) != class_name) return false;
  if (std::ranges::find(kModules, tree_.Module(*global)) == kModules.end()) return false;
  known_[next_known_++ % known_.size()] = {*global, tree_.Name(*global)};
  return true;
}

std::optional<std::string> MetadataObjects::ClassOfMegatron(Id id) const {
  const auto global = ClassOf(id);
  if (!global || !tree_.Module(*global).starts_with("megatron.")) return std::nullopt;
  return std::string(tree_.Name(*global).substr(0, 100));
}

std::optional<PickleTree::Id> MetadataObjects::FindAttribute(Id object, std::string_view name) const {
  const Id state = tree_.State(object);
  if (state == PickleTree::kNothing || tree_.kind(state) != PickleTree::Kind::kDict) return std::nullopt;
  std::optional<Id> found;
  std::size_t seen = 0;
  tree_.ForEachEntry(state, [&](Id key, Id value) {
    if (tree_.Text(key) == name) found = value;
    return ++seen < kMostAttributes;
  });
  return found;
}

llvm::Expected<PickleTree::Id> MetadataObjects::Attribute(Id object, std::string_view name,
                                                          std::string_view what) const {
  if (const auto found = FindAttribute(object, name)) return *found;
  return Fail(ErrorCode::kBadData, "{} has no attribute `{}`", what, name);
}

llvm::Expected<std::string_view> MetadataObjects::NeedText(Id id, std::string_view what) const {
  const auto text = tree_.Text(id);
  if (!text) return Unexpected(what, id, "a text");
  if (pytorch::IsPickleUtf8(*text)) return *text;
  return Fail(ErrorCode::kBadData, "{} is not a text in UTF-8", what);
}

std::vector<PickleTree::Id> MetadataObjects::ItemsOf(Id id) const {
  std::vector<Id> items;
  if (tree_.kind(id) != PickleTree::Kind::kTuple && tree_.kind(id) != PickleTree::Kind::kList) return items;
  tree_.ForEach(id, [&](Id item) {
    items.push_back(item);
    return true;
  });
  return items;
}

// Megatron-FSDP writes tuples and lists.
std::optional<Extents> MetadataObjects::AsExtents(Id id) const {
  if (const auto global = ClassOf(id)) {
    if (tree_.Module(*global) != "torch" || tree_.Name(*global) != "Size") return std::nullopt;
    if (tree_.Count(tree_.Arguments(id)) != 1) return std::nullopt;
    tree_.ForEach(tree_.Arguments(id), [&](Id item) {
      id = item;
      return true;
    });
  }
  if (tree_.kind(id) != PickleTree::Kind::kTuple && tree_.kind(id) != PickleTree::Kind::kList) return std::nullopt;
  Extents extents;
  bool are_numbers = true;
  tree_.ForEach(id, [&](Id item) {
    const auto number = tree_.Integer(item);
    are_numbers = number.has_value();
    if (number) extents.push_back(*number);
    return are_numbers;
  });
  return are_numbers ? std::optional(std::move(extents)) : std::nullopt;
}

llvm::Expected<Extents> MetadataObjects::NeedExtents(Id object, std::string_view name, std::string_view what) const {
  UCP_ASSIGN_OR_RETURN(const Id value, Attribute(object, name, what));
  return NeedExtentsOf(value, fmt::format("`{}` of {}", name, what));
}

llvm::Expected<Extents> MetadataObjects::NeedExtentsOf(Id value, std::string_view what) const {
  if (auto extents = AsExtents(value)) return *std::move(extents);
  return Unexpected(what, value, "a list of numbers");
}

llvm::Expected<DType> MetadataObjects::DTypeOf(Id tensor, std::string_view what) const {
  UCP_ASSIGN_OR_RETURN(const Id properties, Attribute(tensor, "properties", what));
  if (!Is(properties, "TensorProperties")) {
    return Unexpected(fmt::format("`properties` of {}", what), properties, "TensorProperties");
  }
  const Id state = tree_.State(properties);
  const std::vector<Id> parts = state == PickleTree::kNothing ? std::vector<Id>() : ItemsOf(state);
  if (parts.size() != 5 && parts.size() != 6) {  // PyTorch 2.15 added the strides.
    return Fail(ErrorCode::kUnsupported, "the TensorProperties of {} have {} parts, and 5 or 6 are known", what,
                parts.size());
  }
  const bool is_of_torch = tree_.kind(parts[0]) == PickleTree::Kind::kGlobal && tree_.Module(parts[0]) == "torch";
  const auto dtype = is_of_torch ? DTypeFromName(tree_.Name(parts[0])) : std::nullopt;
  if (!dtype) {
    return Fail(ErrorCode::kUnsupported, "{} has the dtype {}, which is not known", what, Called(parts[0]));
  }
  const bool is_called = tree_.kind(parts[1]) == PickleTree::Kind::kCall;
  const std::vector<Id> layout = is_called ? ItemsOf(tree_.Arguments(parts[1])) : std::vector<Id>();
  if (layout.size() == 1 && tree_.Text(layout[0]) == "torch.strided") return *dtype;
  return Fail(ErrorCode::kUnsupported, "{} has the layout {}, and strided tensors alone are read", what,
              Called(layout.size() == 1 ? layout[0] : parts[1]));
}

std::optional<std::vector<PathPart>> MetadataObjects::AsPath(Id id) const {
  std::vector<PathPart> path;
  for (const Id item : ItemsOf(id)) {
    if (const auto text = tree_.Text(item); text && pytorch::IsPickleUtf8(*text)) {
      path.emplace_back(std::string(*text));
    } else if (const auto number = tree_.Integer(item)) {
      path.emplace_back(*number);
    } else {
      return std::nullopt;
    }
  }
  return path.empty() ? std::nullopt : std::optional(std::move(path));
}

std::string MetadataObjects::Called(Id id) const {
  if (const auto text = tree_.Text(id)) return fmt::format("`{:.60}`", *text);
  if (const auto number = tree_.Integer(id)) return fmt::format("{}", *number);
  if (const auto global = ClassOf(id)) {
    return fmt::format("an object of `{:.100}.{:.100}`", tree_.Module(*global), tree_.Name(*global));
  }
  switch (tree_.kind(id)) {
    case PickleTree::Kind::kNone:
      return "None";
    case PickleTree::Kind::kTuple:
      return "a tuple";
    case PickleTree::Kind::kList:
      return "a list";
    case PickleTree::Kind::kDict:
      return "a dict";
    case PickleTree::Kind::kGlobal:
      return fmt::format("`{:.100}.{:.100}`", tree_.Module(id), tree_.Name(id));
    case PickleTree::Kind::kCall:
      return "an object";
    default:
      return "another value";
  }
}

llvm::Error MetadataObjects::Unexpected(std::string_view what, Id id, std::string_view expected) const {
  const bool is_object = tree_.kind(id) == PickleTree::Kind::kCall;
  return Fail(is_object ? ErrorCode::kUnsupported : ErrorCode::kBadData, "{} is {}, and {} was expected", what,
              Called(id), expected);
}

}  // namespace ucp::dcp
