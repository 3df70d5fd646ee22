#include "runtime/engine/comparison.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <utility>

#include "compiler/support/check.h"
#include "compiler/support/user_option.h"
#include "runtime/elements/element_text.h"
#include "runtime/elements/rounding.h"

namespace ucp {
namespace {

struct Differences {
  std::uint64_t count = 0;
  std::int64_t first = 0;              // Of the chunk.
  const std::byte* replica = nullptr;  // The bytes of the first one there.
};

// The elements of a row that are not the same, bit for bit.
void AddDifferences(const std::byte* replica, std::int64_t element, const StepLoop& row, std::int64_t item_bytes,
                    std::span<const std::byte> chunk, Differences& found) {
  auto item = static_cast<std::size_t>(item_bytes);
  const std::byte* copied = chunk.data() + element * item_bytes;
  bool contiguous = row.source_stride == 1 && row.target_stride == 1;
  if (contiguous && std::memcmp(copied, replica, static_cast<std::size_t>(row.count) * item) == 0) return;
  for (std::int64_t i = 0; i < row.count; ++i) {
    const std::byte* other = replica + i * row.source_stride * item_bytes;
    if (std::memcmp(copied + i * row.target_stride * item_bytes, other, item) == 0) continue;
    if (found.count++ == 0) found = {1, element + i * row.target_stride, other};
  }
}

// The part of a range that is one of its elements.
TargetRange OneElement(TargetRange range, std::int64_t element) {
  range.begin += element;
  range.record_element += element;
  range.end = range.begin + 1;
  return range;
}

double Share(const RoundingMismatch::Worst& weights) {
  return static_cast<double>(weights.elements) / static_cast<double>(weights.of);
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
    Differences found;
    ForEachRow(elements, item_bytes, [&](const std::byte* replica, std::int64_t element, const StepLoop& row) {
      AddDifferences(replica, element, row, item_bytes, chunk, found);
    });
    if (found.count == 0) return llvm::Error::success();
    auto describe = [&] {
      return Describe(step, range, found.first,
                      ElementText(range.source_dtype, chunk.data() + found.first * item_bytes),
                      ElementText(range.source_dtype, found.replica));
    };
    if (plan_.reads[step.read].is_overruled) {
      DifferencePlace place{range.write, range.state, range.begin + found.first, step.read};
      overruled_.Add({step.read, range.state}, place, found.count, describe);
      return llvm::Error::success();
    }
    const RankDecision difference = describe();
    std::string path;
    const PlanRead* copied = CopyOf(step.term, range, found.first, path);
    const std::string hint =
        copied == nullptr ? "" : PreferenceHint(copied->coordinate, plan_.reads[step.read].coordinate);
    return Fail(ErrorCode::kBadData,
                "{} has two values: {} in `{}` and {} in `{}`; {}{}declare the copy as `unused` if that stage does not "
                "train it, or pass {}",
                difference.what, difference.believed, difference.believed_file, difference.overruled,
                difference.overruled_file, hint, hint.empty() ? "" : "; or ",
                OptionName(UserOption::kReplicas, "trust"));
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
  DifferencePlace place{range.write, range.state, range.begin + first_element, step.read};
  const bool is_overruled = plan_.reads[step.read].is_overruled;
  auto describe = [&] {
    RankDecision found = Describe(step, range, first_element, ElementText(range.source_dtype, master(first)),
                                  ElementText(step.source_dtype, weight(first)));
    if (!is_overruled) found.what = "element " + LogicalPlace(step.tensor, range, first_element);
    return found;
  };
  if (is_overruled) {
    overruled_.Add({step.read, kWeightState}, place, count, describe);
  } else {
    wrong_roundings_.Add({step.read, KeyOfFile(step.source)}, place, count, describe);
  }
}

std::string Comparison::KeyOfFile(RecordId record) const {
  return std::to_string(plan_.source.record(record).file.index());
}

// A shard is joined of several files where each has some of its experts, and one of them can be another checkpoint's.
// Padding there counts as weights, which can only make a warning of an error.
std::uint64_t Comparison::WeightsIn(const PlanRead& read, const std::string& file) const {
  const ProductSet& set = plan_.set(read.set);
  auto weights = static_cast<std::uint64_t>(set.real_elements());
  std::map<std::string, std::uint64_t> by_file;
  for (const StateBuffer& state : plan_.source.buffer_set(read.states)) {
    const Buffer& buffer = plan_.source.buffer(state.buffer);
    if (state.state != kWeightState || buffer.parts.size() == 1) continue;
    const std::int64_t elements = set.local_elements();
    for (const Fragment& fragment : FragmentsOf(read.spread, read.base, elements, buffer, 0, elements)) {
      by_file[KeyOfFile(buffer.parts[fragment.part].record)] +=
          static_cast<std::uint64_t>(fragment.end - fragment.begin);
    }
  }
  const auto found = by_file.find(file);
  return found == by_file.end() ? weights : std::min(weights, found->second);
}

std::vector<RoundingMismatch> Comparison::rounding_mismatches() const {
  struct Joined {
    RoundingMismatch mismatch;
    DifferencePlace first;
  };
  std::map<std::size_t, Joined> tensors;  // They are sorted by name, and so are their ids.
  for (const DifferenceTally::Entry& entry : wrong_roundings_.Entries()) {
    const PlanRead& read = plan_.reads[entry.subject.first];
    const RankDecision& first = entry.first;
    RoundingMismatch::Worst here;
    here.of = WeightsIn(read, entry.subject.second);
    here.elements = std::min(entry.elements, here.of);  // Parts of the target may overlap.
    here.first = fmt::format("{} is {} in `{}` and {} in the master in `{}`", first.what, first.overruled,
                             first.overruled_file, first.believed, first.believed_file);
    auto [tensor, is_new] = tensors.try_emplace(read.tensor.index());
    RoundingMismatch& mismatch = tensor->second.mismatch;
    mismatch.elements += here.elements;
    if (is_new || entry.place < tensor->second.first) {
      tensor->second.first = entry.place;
      mismatch.first = here.first;
    }
    if (is_new || Share(here) > Share(mismatch.worst)) mismatch.worst = std::move(here);
  }
  std::vector<RoundingMismatch> result;
  for (auto& [tensor, joined] : tensors) {
    joined.mismatch.tensor = plan_.tensors[tensor].logical.name;
    result.push_back(std::move(joined.mismatch));
  }
  return result;
}

std::vector<RankDecision> Comparison::decisions() const {
  std::vector<RankDecision> decisions;
  for (DifferenceTally::Entry& entry : overruled_.Entries()) {
    decisions.push_back(std::move(entry.first));
    decisions.back().elements = entry.elements;
  }
  return decisions;
}

void Comparison::Save(wire::ByteWriter& writer) const {
  writer.Add(std::uint64_t{skipped_checks_});
  wrong_roundings_.Save(writer);
  overruled_.Save(writer);
}

void Comparison::Restore(wire::ByteReader& reader) {
  if (reader.Number() != 0) skipped_checks_ = true;
  wrong_roundings_.Restore(reader, plan_.reads.size());
  overruled_.Restore(reader, plan_.reads.size());
}

RankDecision Comparison::Describe(const Step& step, const TargetRange& range, std::int64_t element, std::string copied,
                                  std::string read) const {
  std::string copied_from = "padding";
  CopyOf(step.term, range, element, copied_from);
  const bool is_weight = step.role == ReadRole::kCheckRounding;
  return {fmt::format("element {} of `{}` of tensor `{}`", LogicalPlace(step.tensor, range, element),
                      is_weight ? kWeightState : range.state, plan_.tensor(step.tensor).logical.name),
          std::move(copied),
          std::move(copied_from),
          std::move(read),
          source_.Path(plan_.source.record(step.source).file),
          0};
}

// "[12, 7]": the index in the whole tensor.
std::string Comparison::LogicalPlace(TensorId tensor, const TargetRange& range, std::int64_t element) const {
  const std::optional<Index> index = IndexOfElement(plan_, plan_.writes[range.write], tensor, range.begin + element);
  return index ? fmt::format("[{}]", fmt::join(*index, ", ")) : "of padding";
}

// The read that an element was copied by, and its file; null for padding.
const PlanRead* Comparison::CopyOf(std::int64_t term, const TargetRange& range, std::int64_t element,
                                   std::string& path) const {
  const PlanRead* read = nullptr;
  steps_.ForEachStep(OneElement(range, element), [&](const Step& step) {
    if (step.role != ReadRole::kCopy || step.term != term) return;
    read = &plan_.reads[step.read];
    path = source_.Path(plan_.source.record(step.source).file);
  });
  return read;
}

}  // namespace ucp
