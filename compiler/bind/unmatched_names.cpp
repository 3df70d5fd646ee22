#include "compiler/bind/unmatched_names.h"

#include <fmt/format.h>
#include <llvm/ADT/ArrayRef.h>
#include <llvm/ADT/StringRef.h>

#include <algorithm>
#include <optional>

#include "compiler/spec/variant.h"

namespace ucp {
namespace {

std::vector<std::string_view> Segments(std::string_view name) {
  std::vector<std::string_view> segments;
  while (true) {
    std::size_t dot = name.find('.');
    segments.push_back(name.substr(0, dot));
    if (dot == std::string_view::npos) return segments;
    name.remove_prefix(dot + 1);
  }
}

// The first segment at which two names part, and how many segments differ; numbers are compared as marks.
struct Difference {
  std::size_t first = 0;
  std::size_t count = 0;
};

Difference Compare(const std::vector<std::string_view>& a, const std::vector<std::string_view>& b) {
  Difference difference;
  for (std::size_t i = 0; i < std::max(a.size(), b.size()); ++i) {
    if (i < a.size() && i < b.size() && a[i] == b[i]) continue;
    if (difference.count++ == 0) difference.first = i;
  }
  return difference;
}

std::string_view SegmentAt(const std::vector<std::string_view>& segments, std::size_t i) {
  return i < segments.size() ? segments[i] : std::string_view();
}

std::string Quoted(std::string_view segment) {
  return segment.empty() ? "the end of the name" : fmt::format("`{}`", segment);
}

// No more than `most` are counted; 0 stands for no bound.
unsigned Edits(std::string_view a, std::string_view b, unsigned most) {
  return llvm::StringRef(a.data(), a.size()).edit_distance(llvm::StringRef(b.data(), b.size()), true, most);
}

std::string More(std::size_t count, std::string_view what) {
  return count == 0 ? "" : fmt::format(", nor {} more {}", count, what);
}

}  // namespace

void UnmatchedGroups::Add(const FoundTensor& tensor) {
  std::string skeleton = SkeletonOf(tensor.name);
  auto [entry, added] = by_skeleton_.emplace(skeleton, groups_.size());
  if (added) groups_.push_back({std::move(skeleton), &tensor, 0, false});
  ++groups_[entry->second].count;
}

void ReportMissing(const MissingTensors& missing, const InventoryIndex& found, std::vector<UnmatchedTensors>& unmatched,
                   DiagnosticSink& sink) {
  const std::string& name = *missing.names.front();
  Diagnostic diagnostic{.kind = DiagnosticKind::kMissingTensor,
                        .place = missing.declaration->name.range,
                        .message = fmt::format("the checkpoint has no tensor `{}`{}", name,
                                               More(missing.names.size() - 1, "of this pattern"))};
  std::vector<std::string> skeletons;
  for (const std::string* one : missing.names) {
    std::string skeleton = SkeletonOf(*one);
    if (std::find(skeletons.begin(), skeletons.end(), skeleton) == skeletons.end())
      skeletons.push_back(std::move(skeleton));
  }
  constexpr std::size_t kMaxCompared = 1000;
  for (UnmatchedTensors& group : llvm::MutableArrayRef(unmatched).take_front(kMaxCompared)) {
    for (const std::string& skeleton : skeletons) {
      Difference difference = Compare(Segments(skeleton), Segments(group.skeleton));
      if (group.explained || difference.count > 1) continue;
      group.explained = true;
      if (!diagnostic.notes.empty()) continue;
      std::string_view theirs = SegmentAt(Segments(group.first->name), difference.first);
      std::string_view ours = SegmentAt(Segments(name), difference.first);
      bool numbers = difference.count == 0;
      diagnostic.notes.push_back(
          {found.PlaceOf(*group.first->shards.front()),
           numbers ? fmt::format("it has `{}`, with another number, which no pattern matches", group.first->name)
                   : fmt::format("it has `{}`, which no pattern matches: {} differs from {}", group.first->name,
                                 Quoted(theirs), Quoted(ours))});
    }
  }
  sink.Report(std::move(diagnostic));
}

void ReportUnmatched(const CheckedSpec& spec, const UnmatchedTensors& unmatched, const InventoryIndex& found,
                     DiagnosticSink& sink) {
  if (unmatched.explained) return;
  const Pattern* nearest = nullptr;
  Variant nearest_variant;
  unsigned fewest = 0;
  for (const TensorDeclaration& tensor : spec.tensors) {
    for (Variant& variant : VariantsOf(tensor.name, *spec.source)) {
      unsigned edits = Edits(variant.skeleton, unmatched.skeleton, fewest);
      if (nearest && edits >= fewest) continue;
      nearest = &tensor.name;
      nearest_variant = std::move(variant);
      fewest = edits;
    }
  }
  std::string_view name = unmatched.first->name;
  Diagnostic diagnostic{.kind = DiagnosticKind::kUnmatchedTensor,
                        .place = found.PlaceOf(*unmatched.first->shards.front()),
                        .message = fmt::format("no pattern matches the tensor `{}`{}", name,
                                               More(unmatched.count - 1, "that differ in their numbers only")),
                        .hint = fmt::format("declare it, or say that it is not needed: drop \"{}\"", name)};
  if (nearest) {
    Difference difference = Compare(Segments(unmatched.skeleton), Segments(nearest_variant.skeleton));
    std::string_view theirs = SegmentAt(Segments(name), difference.first);
    std::string_view ours = SegmentAt(Segments(nearest_variant.shown), difference.first);
    diagnostic.notes.push_back(
        {nearest->range,
         difference.count == 0
             ? fmt::format("the nearest pattern is `{}`, which does not print this number", nearest_variant.shown)
             : fmt::format("the nearest pattern is `{}`: {} differs from {}", nearest_variant.shown, Quoted(theirs),
                           Quoted(ours))});
  }
  sink.Report(std::move(diagnostic));
}

}  // namespace ucp
