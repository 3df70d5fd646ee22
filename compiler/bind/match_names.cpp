#include "compiler/bind/match_names.h"

#include <fmt/format.h>

#include <map>
#include <unordered_map>
#include <unordered_set>

#include "compiler/bind/unmatched_names.h"

namespace ucp {
namespace {

class NameMatcher {
 public:
  NameMatcher(const Values& values, ExpandedSpec expanded, const InventoryIndex& found, DiagnosticSink& sink)
      : values_(values), expanded_(std::move(expanded)), found_(found), sink_(sink) {
    here_.resize(expanded_.tensors.size(), false);
  }

  MatchedNames Run() {
    LookUp();
    MatchedNames matched;
    std::vector<UnmatchedTensors> unmatched = SortFound(matched.dropped);
    CheckDeclared(unmatched);
    ReportAllUnmatched(unmatched);
    for (std::size_t i = 0; i < expanded_.tensors.size(); ++i) {
      if (here_[i]) matched.tensors.push_back(std::move(expanded_.tensors[i].bound));
    }
    return matched;
  }

 private:
  void LookUp() {
    for (std::size_t i = 0; i < expanded_.tensors.size(); ++i) {
      claimed_.emplace(expanded_.tensors[i].bound.name, i);
      for (const std::string& alias : expanded_.tensors[i].bound.aliases) claimed_.emplace(alias, i);
    }
  }

  // The kinds of names in the source: a declared tensor, a second name that its own metadata knows, dropped, or not
  // declared.
  std::vector<UnmatchedTensors> SortFound(std::vector<std::string>& dropped) {
    std::unordered_set<std::string> drops(expanded_.drops.begin(), expanded_.drops.end());
    UnmatchedGroups groups;
    for (const FoundTensor& tensor : found_.tensors()) {
      std::string name(tensor.name);
      if (auto claimed = claimed_.find(name); claimed != claimed_.end()) {
        here_[claimed->second] = true;
      } else if (auto alias = found_.inventory().aliases.find(name);
                 alias != found_.inventory().aliases.end() && claimed_.contains(alias->second)) {
        std::size_t index = claimed_.at(alias->second);
        here_[index] = true;
        expanded_.tensors[index].bound.aliases.push_back(name);
      } else if (drops.contains(name)) {
        dropped.push_back(std::move(name));
      } else {
        groups.Add(tensor);
      }
    }
    return std::move(groups).Finish();
  }

  // Of each declaration: the names by variant, because `optional` is all or nothing for each of them.
  void CheckDeclared(std::vector<UnmatchedTensors>& unmatched) {
    for (std::size_t begin = 0; begin < expanded_.tensors.size();) {
      std::size_t declaration = expanded_.tensors[begin].bound.declaration;
      std::size_t end = begin;
      MissingTensors missing;
      std::map<std::size_t, Presence> variants;
      for (; end < expanded_.tensors.size() && expanded_.tensors[end].bound.declaration == declaration; ++end) {
        const ExpandedSpec::Tensor& tensor = expanded_.tensors[end];
        Presence& presence = variants[tensor.variant];
        ++presence.all;
        if (here_[end]) {
          ++presence.here;
          presence.present = &tensor.bound.name;
        } else {
          if (!presence.missing) presence.missing = &tensor.bound.name;
          missing.names.push_back(&tensor.bound.name);
        }
      }
      missing.declaration = &values_.spec.tensors[declaration];
      if (missing.declaration->optional) {
        for (const auto& [variant, presence] : variants) CheckOptional(*missing.declaration, presence);
      } else if (!missing.names.empty()) {
        ReportMissing(missing, found_, unmatched, sink_);
      }
      begin = end;
    }
  }

  struct Presence {
    std::size_t all = 0;
    std::size_t here = 0;
    const std::string* missing = nullptr;  // The first of them.
    const std::string* present = nullptr;
  };

  void CheckOptional(const TensorDeclaration& declaration, const Presence& presence) {
    if (presence.here == 0 || presence.here == presence.all) return;
    const FoundTensor* found = found_.Find(*presence.present);
    std::vector<Note> notes;
    if (found) {
      notes.push_back({found_.PlaceOf(*found->shards.front()), fmt::format("`{}` is here", *presence.present)});
    }
    sink_.Report({.kind = DiagnosticKind::kPartlyOptional,
                  .place = declaration.name.range,
                  .message = fmt::format("an optional tensor is there for all of its counters or for none, and the "
                                         "checkpoint has {} of {}; it lacks `{}`",
                                         presence.here, presence.all, *presence.missing),
                  .notes = std::move(notes)});
  }

  // A spec of another model matches nothing: after some messages their number says it better.
  void ReportAllUnmatched(const std::vector<UnmatchedTensors>& unmatched) {
    constexpr std::size_t kMaxShown = 20;
    std::size_t shown = 0;
    std::size_t rest = 0;
    for (const UnmatchedTensors& group : unmatched) {
      if (group.explained) continue;
      if (++shown <= kMaxShown) {
        ReportUnmatched(values_.spec, group, found_, sink_);
      } else {
        rest += group.count;
      }
    }
    if (rest == 0) return;
    sink_.Report({.kind = DiagnosticKind::kUnmatchedTensor,
                  .place = Place::Elsewhere("the checkpoint"),
                  .message = fmt::format("no pattern matches {} more tensors", rest)});
  }

  const Values& values_;
  ExpandedSpec expanded_;
  const InventoryIndex& found_;
  DiagnosticSink& sink_;
  std::vector<bool> here_;  // For each expanded tensor: the source has it, by one of its names.
  std::unordered_map<std::string, std::size_t> claimed_;
};

}  // namespace

MatchedNames MatchNames(const Values& values, ExpandedSpec expanded, const InventoryIndex& found,
                        DiagnosticSink& sink) {
  return NameMatcher(values, std::move(expanded), found, sink).Run();
}

}  // namespace ucp
