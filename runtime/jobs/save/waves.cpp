// Boxes that are needed together are a group. Groups go, in the order of the state, each into the first wave in which
// all of its ranks have room for it.
#include "runtime/jobs/save/waves.h"

#include <fmt/format.h>
#include <llvm/ADT/IntEqClasses.h>
#include <llvm/ADT/STLExtras.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "compiler/plan/steps.h"
#include "compiler/support/error.h"
#include "compiler/support/units.h"
#include "runtime/job_state/job_items.h"

namespace ucp {
namespace {

struct Box {
  dcp::Chunk* chunk = nullptr;
  const std::string* key = nullptr;  // Of its entry.
  bool is_needed = false;            // By a range of the target.
  std::size_t wave = 0;
  std::uint64_t place = 0;  // In the wave.

  std::size_t rank() const { return chunk->place.file; }
  std::uint64_t bytes() const { return (chunk->place.bytes + kBoxAlignment - 1) / kBoxAlignment * kBoxAlignment; }
};

class WaveCutter {
 public:
  WaveCutter(const Plan& plan, std::uint64_t most_bytes, JoinedState& joined)
      : plan_(plan), most_bytes_(most_bytes), joined_(joined) {}

  llvm::Error Run() {
    ListBoxes();
    JoinNeeded();
    std::vector<std::vector<unsigned>> groups(groups_.getNumClasses());
    for (unsigned number = 0; number < boxes_.size(); ++number) groups[groups_[number]].push_back(number);
    UCP_RETURN_IF_ERROR(CheckFits(groups));
    // Those that planning may read are the first.
    llvm::stable_sort(groups, [&](const auto& a, const auto& b) { return IsForPlanning(a) && !IsForPlanning(b); });
    for (const std::vector<unsigned>& group : groups) Take(group);
    Place();
    return llvm::Error::success();
  }

 private:
  void ListBoxes() {
    for (dcp::Entry& entry : joined_.entries) {
      if (!entry.is_tensor) continue;
      for (dcp::Chunk& chunk : entry.chunks) {
        if (chunk.place.bytes == 0) continue;
        number_of_place_[{chunk.place.file, chunk.place.offset}] = static_cast<unsigned>(boxes_.size());
        boxes_.push_back({&chunk, &entry.key});
      }
    }
  }

  void JoinNeeded() {
    groups_.grow(static_cast<unsigned>(boxes_.size()));
    std::unordered_map<std::string, std::size_t> rank_of_name;
    for (std::size_t rank = 0; rank < joined_.ranks.size(); ++rank) rank_of_name.emplace(SegmentName(rank), rank);
    const StepEnumerator steps(plan_);
    ForEachTargetRange(plan_, [&](const TargetRange& range) {
      std::optional<unsigned> first;
      steps.ForEachJoinedStep(range, [&](const Step& step) {
        const Record& record = plan_.source.record(step.source);
        const auto rank = rank_of_name.find(plan_.source.files[record.file.index()].path);
        if (rank == rank_of_name.end()) return;  // A tensor among the values.
        const unsigned number = number_of_place_.at({rank->second, record.begin});
        boxes_[number].is_needed = true;
        groups_.join(first.value_or(number), number);
        first = number;
      });
    });
    std::optional<unsigned> for_planning;
    for (unsigned number = 0; number < boxes_.size(); ++number) {
      if (boxes_[number].is_needed || boxes_[number].chunk->place.bytes > kMostSmallBytes) continue;
      groups_.join(for_planning.value_or(number), number);
      for_planning = number;
    }
    groups_.compress();
  }

  bool IsForPlanning(const std::vector<unsigned>& group) const {
    const Box& box = boxes_[group.front()];
    return !box.is_needed && box.chunk->place.bytes <= kMostSmallBytes;
  }

  std::map<std::size_t, std::uint64_t> BytesByRank(const std::vector<unsigned>& group) const {
    std::map<std::size_t, std::uint64_t> bytes;
    for (const unsigned number : group) bytes[boxes_[number].rank()] += boxes_[number].bytes();
    return bytes;
  }

  llvm::Error CheckFits(const std::vector<std::vector<unsigned>>& groups) const {
    std::uint64_t largest = 0;
    std::size_t of_rank = 0;
    const std::vector<unsigned>* of_group = nullptr;
    for (const std::vector<unsigned>& group : groups) {
      for (const auto& [rank, bytes] : BytesByRank(group)) {
        if (bytes <= largest) continue;
        largest = bytes;
        of_rank = rank;
        of_group = &group;
      }
    }
    if (largest <= most_bytes_) return llvm::Error::success();
    std::vector<std::string> keys;
    for (const unsigned number : *of_group) {
      if (boxes_[number].rank() == of_rank) keys.push_back(*boxes_[number].key);
    }
    const std::string others =
        keys.size() == 1 ? "" : fmt::format(" and {} that are written with it", Counted(keys.size() - 1, "part"));
    return Fail(ErrorCode::kUsage,
                "rank {} stages {} at once for `{}`{}, and may stage {} at a time; allow {} bytes or more", of_rank,
                HumanBytes(largest), keys.front(), others, HumanBytes(most_bytes_), WithThousands(largest));
  }

  void Take(const std::vector<unsigned>& group) {
    const std::map<std::size_t, std::uint64_t> wanted = BytesByRank(group);
    std::size_t wave = 0;
    auto has_room = [&](const auto& of_rank) { return used_[wave][of_rank.first] + of_rank.second <= most_bytes_; };
    while (wave < used_.size() && !llvm::all_of(wanted, has_room)) ++wave;
    if (wave == used_.size()) used_.emplace_back(joined_.ranks.size());
    for (const unsigned number : group) {
      Box& box = boxes_[number];
      box.wave = wave;
      box.place = used_[wave][box.rank()];
      used_[wave][box.rank()] += box.bytes();
    }
  }

  void Place() {
    joined_.waves = {used_.size(), 0};
    for (std::size_t rank = 0; rank < joined_.ranks.size(); ++rank) {
      std::uint64_t& bytes = joined_.ranks[rank].segment_bytes;
      bytes = 0;
      for (const std::vector<std::uint64_t>& used : used_) bytes = std::max(bytes, used[rank]);
      joined_.waves.window = std::max(joined_.waves.window, bytes);
    }
    for (std::size_t rank = 0; rank < joined_.ranks.size(); ++rank) {
      RankShare& share = joined_.ranks[rank];
      share.bytes = joined_.waves.count * joined_.waves.window;
      for (StagedBox& staged : share.boxes) {
        if (staged.bytes == 0) continue;
        const Box& box = boxes_[number_of_place_.at({rank, staged.offset})];
        staged.offset = box.wave * joined_.waves.window + box.place;
      }
    }
    for (const Box& box : boxes_) box.chunk->place.offset = box.wave * joined_.waves.window + box.place;
  }

  const Plan& plan_;
  const std::uint64_t most_bytes_;
  JoinedState& joined_;
  std::vector<Box> boxes_;  // Those with elements, in the order of the state.
  std::map<std::pair<std::size_t, std::uint64_t>, unsigned> number_of_place_;  // By rank and offset.
  llvm::IntEqClasses groups_;
  std::vector<std::vector<std::uint64_t>> used_;  // Bytes by wave and rank.
};

}  // namespace

llvm::Error CutIntoWaves(const Plan& plan, std::uint64_t most_bytes, JoinedState& joined) {
  const bool fits = llvm::all_of(joined.ranks, [&](const RankShare& share) { return share.bytes <= most_bytes; });
  return most_bytes == 0 || fits ? llvm::Error::success() : WaveCutter(plan, most_bytes, joined).Run();
}

}  // namespace ucp
