#include "compiler/formats/deepspeed/native/read/optimizer/zero12_groups.h"

#include <algorithm>

#include "compiler/support/checked_math.h"
#include "compiler/support/error.h"

namespace ucp::deepspeed {
namespace {

std::optional<std::int64_t> ElementsOf(const std::vector<std::int64_t>& shape) {
  std::optional<std::int64_t> elements = 1;
  for (std::int64_t size : shape) {
    elements = CheckedMultiply(*elements, size);
    if (!elements) return std::nullopt;
  }
  return elements;
}

// DeepSpeed aligns to twice the number of partitions; versions before that, to the number itself.
bool IsPaddedLength(std::int64_t padded, std::int64_t elements, std::int64_t partitions) {
  for (std::int64_t alignment : {2 * partitions, partitions}) {
    auto length = CheckedMultiply(CeilDivide(elements, alignment), alignment);
    if (length == padded) return true;
  }
  return false;
}

}  // namespace

llvm::Expected<FlatGroup> LayOutGroup(const std::vector<NamedShape>& shapes,
                                      const std::vector<std::int64_t>& paddings) {
  if (!paddings.empty() && paddings.size() != shapes.size()) {
    return Fail(ErrorCode::kBadData, "`param_alignment_paddings` has {} entries for {} parameters", paddings.size(),
                shapes.size());
  }
  FlatGroup group;
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    std::optional<std::int64_t> elements = ElementsOf(shapes[i].shape);
    std::optional<std::int64_t> end = elements ? CheckedAdd(group.elements, *elements) : std::nullopt;
    std::optional<std::int64_t> next = end && !paddings.empty() ? CheckedAdd(*end, paddings[i]) : end;
    if (!next) {
      return Fail(ErrorCode::kBadData, "the shapes in `param_shapes` up to `{}` have more than 2^63 elements",
                  shapes[i].name);
    }
    group.parameters.push_back({shapes[i].name, shapes[i].shape, group.elements, *elements});
    group.elements = *next;
  }
  return group;
}

llvm::Expected<std::int64_t> PartitionElements(const FlatGroup& group, std::size_t index,
                                               const std::vector<const OptimizerStates*>& partitions) {
  const auto count = static_cast<std::int64_t>(partitions.size());
  // Moments keep their padding. Without any (before the first step), the first partition tells: only if there is
  // nothing but padding behind it can it be short itself, and then the rule for the length decides.
  const GroupPartition& first = partitions.front()->groups[index];
  std::int64_t length = first.master.elements;
  if (length == group.elements) length = 2 * CeilDivide(group.elements, 2 * count);
  std::int64_t longest = 0;  // Scales of blocks are shorter, and of a tiny group could be as long as a partition.
  for (const auto& [state, place] : first.states) {
    auto total = CheckedMultiply(place.elements, count);
    if (first.is_lean || !total || !IsPaddedLength(*total, group.elements, count)) continue;
    longest = std::max(longest, place.elements);
  }
  if (longest > 0) length = longest;
  auto total = CheckedMultiply(length, count);
  if (!total || !IsPaddedLength(*total, group.elements, count)) {
    return Fail(ErrorCode::kBadData,
                "`{}`: group {} has {} partitions of {} elements, and the parameters in `param_shapes` have {}",
                partitions.front()->path, index, count, length, group.elements);
  }
  for (std::int64_t p = 0; p < count; ++p) {
    const OptimizerStates& partition = *partitions[static_cast<std::size_t>(p)];
    const GroupPartition& held = partition.groups[index];
    const std::int64_t real = std::clamp<std::int64_t>(group.elements - p * length, 0, length);
    if (held.master.elements < real || held.master.elements > length) {
      return Fail(ErrorCode::kBadData,
                  "`{}`: the fp32 partition of group {} has {} elements, and {} of the parameters' lie there",
                  partition.path, index, held.master.elements, real);
    }
  }
  return length;
}

AddressMismatch CompareAddresses(const FlatGroup& group, std::int64_t partition_elements, std::int64_t partition,
                                 const GroupPartition& recorded) {
  AddressMismatch mismatch;
  if (recorded.addresses.empty()) return mismatch;
  const std::int64_t begin = partition * partition_elements;
  const std::int64_t end = begin + partition_elements;
  for (const FlatParameter& parameter : group.parameters) {
    if (parameter.elements == 0) continue;
    const std::int64_t from = std::max(parameter.offset, begin);
    const std::int64_t to = std::min(parameter.offset + parameter.elements, end);
    auto found = recorded.addresses.find(parameter.name);
    const bool is_recorded = found != recorded.addresses.end();
    const bool agrees =
        from < to ? is_recorded && found->second == SliceAddress{from - begin, to - from} : !is_recorded;
    if (agrees) continue;
    if (mismatch.count++ == 0) mismatch.example = parameter.name;
  }
  return mismatch;
}

}  // namespace ucp::deepspeed
