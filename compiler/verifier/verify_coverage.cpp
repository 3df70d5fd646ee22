#include "compiler/verifier/verify_coverage.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "compiler/support/checked_math.h"
#include "compiler/support/error.h"
#include "compiler/support/interruption.h"
#include "compiler/verifier/multiplicity.h"

namespace ucp {
namespace {

// The extent of one copy in one space: the bytes of a file, or the elements of a buffer with several parts.
struct ReadExtent {
  std::size_t space = 0;  // A file; behind all files, a buffer.
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::size_t read = 0;
  std::string_view state;

  bool operator<(const ReadExtent& other) const {
    return std::tie(space, begin, end, read) < std::tie(other.space, other.begin, other.end, other.read);
  }
};

class SourceExtents {
 public:
  explicit SourceExtents(const Plan& plan) : plan_(plan) {}

  void Add(std::size_t r) {
    const PlanRead& read = plan_.reads[r];
    std::int64_t elements = plan_.set(read.set).local_elements();
    if (read.role != ReadRole::kCopy || !read.strides.empty() || elements == 0) return;
    // A shard that is read in several sets takes its place once, if they share it out.
    std::vector<ProductSet>& sets = sets_of_shard_[{read.tensor, read.states, read.base, read.spread}];
    sets.push_back(plan_.set(read.set));
    if (sets.size() > 1 && sets.front().LocalShape() == sets.back().LocalShape()) return;
    for (const StateBuffer& entry : plan_.source.buffer_set(read.states)) {
      if (entry.state != kWeightState) AddState(r, entry, elements);
    }
  }

  // Sorted, so if any two overlap then two neighbours do.
  llvm::Error Check() {
    if (mixed_ != nullptr) {
      return Fail(ErrorCode::kBadData, "the plan is not sound: tensor `{}` is cut otherwise than its buffer", *mixed_);
    }
    for (const auto& [shard, sets] : sets_of_shard_) {
      if (sets.size() == 1 || ShareOutPlaces(sets)) continue;
      return Fail(ErrorCode::kBadData,
                  "the plan is not sound: two elements of tensor `{}` would be read from one place of the source",
                  plan_.tensor(std::get<TensorId>(shard)).logical.name);
    }
    std::sort(extents_.begin(), extents_.end());
    for (std::size_t i = 1; i < extents_.size(); ++i) {
      const ReadExtent& a = extents_[i - 1];
      const ReadExtent& b = extents_[i];
      if (a.space != b.space || a.end <= b.begin) continue;
      return Fail(ErrorCode::kBadData,
                  "the plan is not sound: `{}` of tensor `{}` and `{}` of `{}` would be read from "
                  "one place of the source",
                  a.state, Tensor(a), b.state, Tensor(b));
    }
    return llvm::Error::success();
  }

 private:
  void AddState(std::size_t r, const StateBuffer& entry, std::int64_t elements) {
    const PlanRead& read = plan_.reads[r];
    const Buffer& buffer = plan_.source.buffer(entry.buffer);
    auto parts = static_cast<std::int64_t>(buffer.parts.size());
    if (parts == 1) return AddBytes(buffer, buffer.parts[0], read.base, elements, r, entry.state);
    bool each = read.spread == Spread::kEachTensor;
    auto begin = static_cast<std::uint64_t>(read.base);
    auto length = static_cast<std::uint64_t>(each ? CeilDivide(elements, parts) : elements);
    extents_.push_back({plan_.source.files.size() + entry.buffer.index(), begin, begin + length, r, entry.state});
    auto [spread, is_new] = spreads_.try_emplace(entry.buffer, read.spread);
    if (spread->second != read.spread) mixed_ = &plan_.tensor(read.tensor).logical.name;
    if (!is_new) return;
    for (const BufferPart& part : buffer.parts) AddBytes(buffer, part, 0, part.elements, r, entry.state);
  }

  void AddBytes(const Buffer& buffer, const BufferPart& part, std::int64_t base, std::int64_t elements, std::size_t r,
                std::string_view state) {
    std::int64_t room = part.elements - base;  // More than this is not there: the steps are checked for that.
    if (room <= 0 || elements == 0) return;
    const Record& record = plan_.source.record(part.record);
    auto item = static_cast<std::uint64_t>(ItemBytes(buffer.dtype));
    std::uint64_t begin = record.begin + static_cast<std::uint64_t>(part.first_element + base) * item;
    extents_.push_back(
        {record.file.index(), begin, begin + static_cast<std::uint64_t>(std::min(room, elements)) * item, r, state});
  }

  const std::string& Tensor(const ReadExtent& extent) const {
    return plan_.tensor(plan_.reads[extent.read].tensor).logical.name;
  }

  const Plan& plan_;
  std::vector<ReadExtent> extents_;
  std::map<std::tuple<TensorId, BufferSetId, std::int64_t, Spread>, std::vector<ProductSet>> sets_of_shard_;
  std::map<BufferId, Spread> spreads_;  // Of buffers with several parts.
  const std::string* mixed_ = nullptr;  // A tensor that is not spread as others in its buffer are.
};

}  // namespace

llvm::Error VerifySourceExtents(const Plan& plan) {
  SourceExtents extents(plan);
  for (std::size_t r = 0; r < plan.reads.size(); ++r) {
    UCP_RETURN_IF_ERROR(CheckInterrupted());
    extents.Add(r);
  }
  return extents.Check();
}

}  // namespace ucp
