// Bottom-up, once for each value however often it is shared: what is left of a value is made of what is left of its
// parts. A part that must go takes what it stands in along, up to the next entry, which is reported and dropped. Values
// that a reader returns nest at most 200 deep (pickle_reader.h).
#include "compiler/formats/objects/known_part.h"

#include <algorithm>

#include "compiler/formats/objects/call_text.h"
#include "compiler/formats/pytorch/values/value_access.h"
#include "compiler/formats/pytorch/values/value_walk.h"
#include "compiler/support/printable.h"

namespace ucp::objects {
namespace {

using pytorch::Call;
using pytorch::Entry;
using pytorch::Value;
using pytorch::ValuePtr;

constexpr std::size_t kMostNamed = 8;  // Of one entry.
constexpr std::size_t kLongestKey = 160;

void AddUnknown(const std::vector<const Value*>& more, std::vector<const Value*>& unknown) {
  for (const Value* value : more) {
    if (unknown.size() < kMostNamed) unknown.push_back(value);
  }
}

}  // namespace

ValuePtr KnownPart::Of(const ValuePtr& value, const std::string& path) {
  const Place place{.text = &path};
  const Result& result = ResultOf(value, place);
  if (!result.left) Report(place, result.unknown);
  return result.left;
}

std::vector<Entry> KnownPart::OfEntries(const std::vector<Entry>& entries, const std::string& path) {
  std::vector<Entry> left = entries;
  ReplaceEntries(left, {.text = &path});
  return left;
}

const KnownPart::Result& KnownPart::ResultOf(const ValuePtr& value, const Place& place) {
  if (const auto known = results_.find(value.get()); known != results_.end()) return known->second;
  Result result = Compute(value, place);
  result.value = value;
  return results_.emplace(value.get(), std::move(result)).first->second;
}

KnownPart::Result KnownPart::Compute(const ValuePtr& value, const Place& place) {
  if (!known_.IsKnown(*value)) return {{}, nullptr, UnknownIn(*value)};
  if (const auto* call = value->As<Call>()) return OfCall(value, *call, place);
  Result result{{}, value, {}};
  if (const auto* list = value->As<pytorch::List>()) {
    std::vector<ValuePtr> items = list->items;
    if (ReplaceItems(items, place, result.unknown)) result.left = pytorch::MakeList(std::move(items));
  } else if (const auto* tuple = value->As<pytorch::Tuple>()) {
    std::vector<ValuePtr> items = tuple->items;
    if (ReplaceItems(items, place, result.unknown)) result.left = pytorch::MakeTuple(std::move(items));
  } else if (const auto* dict = value->As<pytorch::Dict>()) {
    std::vector<Entry> entries = dict->entries;
    if (ReplaceEntries(entries, place)) result.left = pytorch::MakeDict(std::move(entries));
  }
  if (!result.unknown.empty()) result.left = nullptr;
  return result;
}

// The object itself and what it is made with, which loading would make first.
KnownPart::Unknown KnownPart::UnknownIn(const Value& object) const {
  constexpr int kMostVisits = 1000;
  Unknown unknown;
  std::vector<const Value*> visits = {&object};
  for (int i = 0; i < kMostVisits && !visits.empty() && unknown.size() < kMostNamed; ++i) {
    const Value* value = visits.back();
    visits.pop_back();
    if (known_.IsKnown(*value)) {
      known_.AppendOpen(*value, visits);
      continue;
    }
    unknown.push_back(value);
    pytorch::AppendChildren(*value, visits);
  }
  return unknown;
}

// A part that the form does not leave open is what it must be.
KnownPart::Result KnownPart::OfCall(const ValuePtr& value, const Call& call, const Place& place) {
  const std::optional<OpenParts> open = known_.OpenPartsOf(call);
  Result result{{}, value, {}};
  Call left = call;
  bool is_changed = false;
  if (!open || open->arguments) is_changed |= Replace(left.arguments, place, result.unknown);
  if (!open || open->items) is_changed |= ReplaceItems(left.items, place, result.unknown);
  if (!open || open->entries) is_changed |= ReplaceEntries(left.entries, place);
  if (left.state && (!open || open->state)) is_changed |= Replace(left.state, place, result.unknown);
  if (is_changed) result.left = pytorch::MakeCall(std::move(left));
  if (!result.unknown.empty()) result.left = nullptr;
  return result;
}

bool KnownPart::Replace(ValuePtr& value, const Place& place, Unknown& unknown) {
  if (pytorch::IsLeaf(*value) && value->As<pytorch::Global>() == nullptr) return false;
  const Result& result = ResultOf(value, place);
  AddUnknown(result.unknown, unknown);
  if (!result.left || result.left == value) return false;
  value = result.left;
  return true;
}

bool KnownPart::ReplaceItems(std::vector<ValuePtr>& items, const Place& place, Unknown& unknown) {
  bool is_changed = false;
  for (std::size_t i = 0; i < items.size(); ++i) {
    is_changed |= Replace(items[i], {.parent = &place, .index = i}, unknown);
  }
  return is_changed;
}

// A key cannot change without becoming another one, so an entry goes with what is not known in its key.
bool KnownPart::ReplaceEntries(std::vector<Entry>& entries, const Place& place) {
  bool is_changed = false;
  std::vector<Entry> left;
  left.reserve(entries.size());
  for (Entry& entry : entries) {
    const Place inner{.parent = &place, .key = entry.key.get()};
    Unknown unknown;
    ValuePtr key = entry.key;
    const bool is_other_key = Replace(key, inner, unknown);
    is_changed |= Replace(entry.value, inner, unknown);
    if (is_other_key || !unknown.empty()) {
      Report(inner, unknown);
      is_changed = true;
    } else {
      left.push_back(std::move(entry));
    }
  }
  entries = std::move(left);
  return is_changed;
}

void KnownPart::Report(const Place& place, const Unknown& unknown) {
  std::string path;
  for (const Place* at = &place; at != nullptr; at = at->parent) {
    std::string step = at->text != nullptr  ? *at->text
                       : at->key != nullptr ? std::string(pytorch::AsText(*at->key).value_or(""))
                                            : std::to_string(at->index);
    if (at->key != nullptr && (step.empty() || step.size() > kLongestKey)) step = ShortText(*at->key);
    if (!step.empty()) path = path.empty() ? step : step + "." + path;
  }
  std::vector<std::string> named;
  for (const Value* value : unknown) {
    std::string object = ObjectName(*value);
    if (std::find(named.begin(), named.end(), object) != named.end()) continue;
    unknown_.push_back({Printable(path), object, CallText(*value)});
    named.push_back(std::move(object));
  }
}

}  // namespace ucp::objects
