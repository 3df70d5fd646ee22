#include "compiler/bind/offsets_between.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <vector>

#include "compiler/support/error.h"

namespace ucp {
namespace {

std::map<std::string_view, const TensorDeclaration*> DeclarationsOf(const BoundSpec& bound) {
  std::map<std::string_view, const TensorDeclaration*> declarations;
  for (const BoundTensor& tensor : bound.tensors) {
    declarations.emplace(tensor.name, &bound.spec.tensors[tensor.declaration]);
  }
  return declarations;
}

std::string PlaceOf(const BoundSpec& bound, const TensorDeclaration& declaration) {
  return bound.spec.LineOf(declaration.name.range);
}

bool HasOffsets(const BoundSpec& bound) {
  return std::ranges::any_of(
      bound.tensors, [&](const BoundTensor& tensor) { return bound.spec.tensors[tensor.declaration].offset != 0; });
}

}  // namespace

llvm::Expected<std::map<std::string, std::int64_t>> OffsetsBetween(const LayoutOfModel& source,
                                                                   const LayoutOfModel& target,
                                                                   const CommonOfTensors& common) {
  std::map<std::string, std::int64_t> offsets;
  if (!HasOffsets(source.bound) && !HasOffsets(target.bound)) return offsets;
  const auto of_source = DeclarationsOf(source.bound);
  const auto of_target = DeclarationsOf(target.bound);
  std::map<std::string_view, const std::string*> first;  // The target's tensor that said so.
  for (const auto& [name, elements] : common) {
    const TensorDeclaration& stored = *of_target.at(name);
    for (const CommonElements& some : elements) {
      const auto [said, is_new] = first.try_emplace(some.source, &name);
      const TensorDeclaration& before = *of_target.at(*said->second);
      if (before.offset != stored.offset) {
        return Fail(ErrorCode::kUnsupported,
                    "the elements of `{}` go to `{}`, with offset({}) by {}, and to `{}`, with offset({}) by {}; all "
                    "elements of one tensor are moved with one offset",
                    some.source, *said->second, before.offset, PlaceOf(target.bound, before), name, stored.offset,
                    PlaceOf(target.bound, stored));
      }
      const std::int64_t offset = stored.offset - of_source.at(some.source)->offset;
      if (offset != 0) offsets[some.source] = offset;
    }
  }
  return offsets;
}

std::string TextOfOffsets(const LayoutOfModel& source, const LayoutOfModel& target, const CommonOfTensors& common) {
  struct Line {
    std::int64_t offset = 0;
    std::size_t count = 0;
    const std::string* example = nullptr;
  };
  const auto of_source = DeclarationsOf(source.bound);
  const auto of_target = DeclarationsOf(target.bound);
  std::map<const TensorDeclaration*, Line> lines;  // Declarations stand one behind the other.
  for (const auto& [name, elements] : common) {
    const TensorDeclaration& stored = *of_target.at(name);
    const std::int64_t offset = stored.offset - of_source.at(elements.front().source)->offset;
    if (offset == 0) continue;
    Line& line = lines.try_emplace(&stored, Line{offset, 0, &name}).first->second;
    ++line.count;
  }
  if (lines.empty()) return "";
  std::vector<std::string> clauses;
  for (const auto& [declaration, line] : lines) {
    const std::string more = line.count == 1 ? "" : fmt::format(" and {} more", line.count - 1);
    clauses.push_back(
        fmt::format("{:+} to `{}`{} ({})", line.offset, *line.example, more, PlaceOf(target.bound, *declaration)));
  }
  return fmt::format(
      "weights and masters of these tensors get an offset, are rounded, and are not bit-invertible: {}; their other "
      "states stay as they are",
      fmt::join(clauses, ", "));
}

}  // namespace ucp
