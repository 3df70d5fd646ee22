#include "compiler/formats/dcp/write/flatten.h"

#include <algorithm>
#include <string>

#include "compiler/formats/pytorch/values/value_access.h"

namespace ucp::dcp {
namespace {

using pytorch::Entry;
using pytorch::ValuePtr;

const std::vector<Entry>* EntriesToFollow(const pytorch::Value& value) {
  if (value.As<pytorch::Dict>() == nullptr && !pytorch::IsOrderedDict(value)) return nullptr;
  const std::vector<Entry>* entries = pytorch::Entries(value);
  const bool is_plain = entries != nullptr && std::ranges::all_of(*entries, [](const Entry& entry) {
                          return pytorch::AsText(*entry.key) || pytorch::AsInteger(*entry.key);
                        });
  return is_plain ? entries : nullptr;
}

// ReadPickle() limits how deep values are.
bool IsFollowed(const pytorch::Value& list) {  // NOLINT(misc-no-recursion)
  const auto* content = list.As<pytorch::List>();
  return content != nullptr && std::ranges::any_of(content->items, [](const ValuePtr& item) {
           return item->As<pytorch::Tensor>() != nullptr || EntriesToFollow(*item) != nullptr || IsFollowed(*item);
         });
}

bool HasTensor(const pytorch::Value& value) {  // NOLINT(misc-no-recursion)
  if (value.As<pytorch::Tensor>() != nullptr) return true;
  if (const auto* list = value.As<pytorch::List>()) {
    return std::ranges::any_of(list->items, [](const ValuePtr& item) { return HasTensor(*item); });
  }
  const std::vector<Entry>* entries = EntriesToFollow(value);
  return entries != nullptr &&
         std::ranges::any_of(*entries, [](const Entry& entry) { return HasTensor(*entry.value); });
}

}  // namespace

void Flatten(const EntryPath& path, const ValuePtr& value, TorchRelease release,  // NOLINT(misc-no-recursion)
             std::vector<FlatEntry>& entries) {
  const bool is_value = release == TorchRelease::kUpTo23 && !HasTensor(*value);
  const std::vector<Entry>* inner = is_value ? nullptr : EntriesToFollow(*value);
  const auto* list = is_value ? nullptr : value->As<pytorch::List>();
  if (inner != nullptr) {
    for (const Entry& entry : *inner) {
      const auto text = pytorch::AsText(*entry.key);
      std::string key = text ? std::string(*text) : std::to_string(*pytorch::AsInteger(*entry.key));
      Flatten(Below(path, std::move(key)), entry.value, release, entries);
    }
  } else if (list != nullptr && (release == TorchRelease::kUpTo23 || IsFollowed(*value))) {
    std::int64_t place = 0;
    for (const ValuePtr& item : list->items) Flatten(Below(path, place++), item, release, entries);
  } else {
    entries.push_back({path, value});
  }
}

}  // namespace ucp::dcp
