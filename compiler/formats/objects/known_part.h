// The part of a value that is made of known objects alone.
#pragma once

#include <cstddef>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "compiler/formats/objects/known_objects.h"
#include "compiler/formats/pytorch/values/value.h"

namespace ucp::objects {

// An object that is not known, with the entry that goes because of it.
struct UnknownEntry {
  std::string path;    // The keys that lead to the entry, joined with dots.
  std::string object;  // ObjectName()
  std::string calls;   // CallText()
};

// Takes the smallest entry of a dict, or attribute, that holds an object which is not known. Where the object stands in
// a list or a tuple, or in an object that cannot lack it, the entry around that goes, since places have a meaning.
// Values that are shared stay shared, and are reported once. Linear over all calls.
class KnownPart {
 public:
  explicit KnownPart(const KnownObjects& known) : known_(known) {}

  // `value` itself if all of it is known, and null if nothing of it can stay. `path` leads to it.
  pytorch::ValuePtr Of(const pytorch::ValuePtr& value, const std::string& path);
  std::vector<pytorch::Entry> OfEntries(const std::vector<pytorch::Entry>& entries, const std::string& path);

  std::vector<UnknownEntry> TakeUnknown() { return std::exchange(unknown_, {}); }

 private:
  // How a value is reached: the text is made only where it is reported.
  struct Place {
    const Place* parent = nullptr;
    const pytorch::Value* key = nullptr;  // Null: an item, at `index`.
    std::size_t index = 0;
    const std::string* text = nullptr;  // Of the first place: what the caller says.
  };
  using Unknown = std::vector<const pytorch::Value*>;
  struct Result {
    pytorch::ValuePtr value;  // So that no other value gets its address.
    pytorch::ValuePtr left;   // Null: it goes, because of `unknown`.
    Unknown unknown;
  };

  const Result& ResultOf(const pytorch::ValuePtr& value, const Place& place);
  Result Compute(const pytorch::ValuePtr& value, const Place& place);
  Result OfCall(const pytorch::ValuePtr& value, const pytorch::Call& call, const Place& place);

  // Each replaces values by their known parts, and says whether anything was replaced. The part that must go is
  // `unknown`.
  bool Replace(pytorch::ValuePtr& value, const Place& place, Unknown& unknown);
  bool ReplaceItems(std::vector<pytorch::ValuePtr>& items, const Place& place, Unknown& unknown);
  bool ReplaceEntries(std::vector<pytorch::Entry>& entries, const Place& place);

  Unknown UnknownIn(const pytorch::Value& object) const;
  void Report(const Place& place, const Unknown& unknown);

  const KnownObjects& known_;
  std::unordered_map<const pytorch::Value*, Result> results_;
  std::vector<UnknownEntry> unknown_;
};

}  // namespace ucp::objects
