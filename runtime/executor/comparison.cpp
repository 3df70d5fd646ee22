#include "runtime/executor/comparison.h"

#include <fmt/ranges.h>

#include <cstring>
#include <optional>
#include <utility>

#include "compiler/support/check.h"
#include "runtime/executor/element_text.h"
#include "runtime/executor/rounding.h"

namespace ucp {
namespace {

struct Difference {
  std::int64_t element = 0;  // Of the chunk.
  const std::byte* replica = nullptr;
};

// The first element of a row that is not the same, bit for bit.
std::optional<Difference> FirstDifference(const std::byte* replica, std::int64_t element, const StepLoop& row,
                                          std::int64_t item_bytes, std::span<const std::byte> chunk) {
  auto item = static_cast<std::size_t>(item_bytes);
  const std::byte* copied = chunk.data() + element * item_bytes;
  bool contiguous = row.source_stride == 1 && row.target_stride == 1;
  if (contiguous && std::memcmp(copied, replica, static_cast<std::size_t>(row.count) * item) == 0) return std::nullopt;
  for (std::int64_t i = 0; i < row.count; ++i) {
    const std::byte* other = replica + i * row.source_stride * item_bytes;
    if (std::memcmp(copied + i * row.target_stride * item_bytes, other, item) != 0) {
      return Difference{element + i * row.target_stride, other};
    }
  }
  return std::nullopt;
}

// The part of a range that is one of its elements.
TargetRange OneElement(TargetRange range, std::int64_t element) {
  range.begin += element;
  range.record_element += element;
  range.end = range.begin + 1;
  return range;
}

}  // namespace

llvm::Error Comparison::Compare(const Step& step, const TargetRange& range, std::span<const std::byte> chunk,
                                StepMover& mover) {
  switch (step.role) {
    case ReadRole::kCompare:
      return CompareReplica(step, range, chunk, mover);
    case ReadRole::kCheckRounding:
      return CheckRounding(step, range, chunk, mover);
    case ReadRole::kCopy:
    case ReadRole::kUnused:
      break;
  }
  UCP_UNREACHABLE();
}

llvm::Error Comparison::CompareReplica(const Step& step, const TargetRange& range, std::span<const std::byte> chunk,
                                       StepMover& mover) {
  std::int64_t item_bytes = ItemBytes(range.source_dtype);
  return mover.Visit(step, range.record_element, [&](const GatheredElements& elements) -> llvm::Error {
    std::optional<Difference> first;
    ForEachRow(elements, item_bytes, [&](const std::byte* replica, std::int64_t element, const StepLoop& row) {
      if (!first) first = FirstDifference(replica, element, row, item_bytes, chunk);
    });
    if (!first) return llvm::Error::success();
    return Fail(ErrorCode::kBadData,
                "element {} of `{}` of tensor `{}` has two values: {} in `{}` and {} in `{}`; declare the copy as "
                "`unused` if that stage does not train it, or pass --replicas=trust",
                LogicalPlace(range, first->element), range.state, plan_.tensor(step.tensor).logical.name,
                ElementText(range.source_dtype, chunk.data() + first->element * item_bytes),
                CopiedFrom(step.term, range, first->element), ElementText(range.source_dtype, first->replica),
                source_.Path(plan_.source.record(step.source).file));
  });
}

llvm::Error Comparison::CheckRounding(const Step& step, const TargetRange& range, std::span<const std::byte> chunk,
                                      StepMover& mover) {
  if (range.source_dtype != DType::kFloat32 || !CanCheckRounding(step.source_dtype)) {
    skipped_checks_ = true;
    return llvm::Error::success();
  }
  std::int64_t item_bytes = ItemBytes(step.source_dtype);
  return mover.Visit(step, range.record_element, [&](const GatheredElements& elements) {
    ForEachRow(elements, item_bytes, [&](const std::byte* low, std::int64_t element, const StepLoop& row) {
      CountMismatches(step, range, chunk, low, element, row);
    });
    return llvm::Error::success();
  });
}

void Comparison::CountMismatches(const Step& step, const TargetRange& range, std::span<const std::byte> chunk,
                                 const std::byte* low, std::int64_t element, const StepLoop& row) {
  auto master = [&](std::int64_t i) { return chunk.data() + (element + i * row.target_stride) * 4; };
  auto weight = [&](std::int64_t i) { return low + i * row.source_stride * ItemBytes(step.source_dtype); };
  bool contiguous = row.source_stride == 1 && row.target_stride == 1;
  if (contiguous && CountRoundingMismatches(master(0), step.source_dtype, low, row.count) == 0) return;

  std::uint64_t count = 0;
  std::int64_t first = 0;
  for (std::int64_t i = row.count; i-- > 0;) {
    if (IsRoundingOf(master(i), step.source_dtype, weight(i))) continue;
    ++count;
    first = i;
  }
  if (count == 0) return;
  std::int64_t first_element = element + first * row.target_stride;
  Place place{range.write, range.state, range.begin + first_element, step.read};
  std::lock_guard lock(mutex_);
  Mismatches& mismatches = mismatches_[step.tensor];
  bool is_first = mismatches.elements == 0 || place < mismatches.first;
  mismatches.elements += count;
  if (!is_first) return;
  mismatches.first = std::move(place);
  mismatches.text =
      fmt::format("element {} is {} in `{}` and {} in the master in `{}`", LogicalPlace(range, first_element),
                  ElementText(step.source_dtype, weight(first)), source_.Path(plan_.source.record(step.source).file),
                  ElementText(range.source_dtype, master(first)), CopiedFrom(step.term, range, first_element));
}

std::vector<RoundingMismatch> Comparison::rounding_mismatches() const {
  std::vector<RoundingMismatch> result;  // Tensors are sorted by name, and so are their ids.
  for (const auto& [tensor, mismatches] : mismatches_) {
    result.push_back({plan_.tensor(tensor).logical.name, mismatches.elements, mismatches.text});
  }
  return result;
}

// "[12, 7]": the index in the whole tensor.
std::string Comparison::LogicalPlace(const TargetRange& range, std::int64_t element) const {
  for (SetId piece : plan_.writes[range.write].pieces) {
    LexBound bound = LogicalBound(plan_.set(piece), range.begin + element);
    if (LocalPlace(plan_.set(piece), bound) == range.begin + element) {
      return fmt::format("[{}]", fmt::join(bound.index, ", "));
    }
  }
  return "of padding";
}

// The file that an element was copied from.
std::string Comparison::CopiedFrom(std::int64_t term, const TargetRange& range, std::int64_t element) const {
  std::string path = "padding";
  steps_.ForEachStep(OneElement(range, element), [&](const Step& step) {
    if (step.role == ReadRole::kCopy && step.term == term) path = source_.Path(plan_.source.record(step.source).file);
  });
  return path;
}

}  // namespace ucp
