// Two ranges hold the same if they are of the same product sets of the same tensors, in one state and dtype, and of the
// same local elements. Ranks may cut the same local tensor differently (tied copies in partitions of their own), so all
// ranges of one kind are cut wherever one of them begins or ends.
#include "runtime/load/contents.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "runtime/engine/work_list.h"

namespace ucp {
namespace {

// The properties that make local elements the same ones.
using Kind = std::tuple<std::vector<WrittenPiece>, std::string, DType>;

Kind KindOf(const Plan& plan, const TargetRange& range) {
  return {plan.writes[range.write].pieces, range.state, range.dtype};
}

TargetRange PartOf(TargetRange range, std::int64_t begin, std::int64_t end) {
  range.record_element += begin - range.begin;
  range.begin = begin;
  range.end = end;
  return range;
}

// One stretch of local elements, in whatever records hold it.
void AddStretch(const std::vector<TargetRange>& ranges, std::int64_t begin, std::int64_t end,
                const RanksOfRecords& wanted_by, int rank, std::map<std::vector<int>, std::vector<Content>>& found) {
  std::set<int> ranks;
  std::vector<TargetRange> mine;
  for (const TargetRange& range : ranges) {
    if (range.begin > begin || range.end < end) continue;
    const std::vector<int>& wanting = wanted_by[range.record.index()];
    ranks.insert(wanting.begin(), wanting.end());
    if (std::binary_search(wanting.begin(), wanting.end(), rank)) mine.push_back(PartOf(range, begin, end));
  }
  if (mine.empty()) return;
  Content content{mine.front(), {}};
  for (std::size_t i = 1; i < mine.size(); ++i) content.copies.push_back({mine[i].record, mine[i].record_element});
  found[std::vector<int>(ranks.begin(), ranks.end())].push_back(std::move(content));
}

}  // namespace

std::vector<SharedContents> FindContents(const Plan& plan, const RanksOfRecords& wanted_by, int rank, int ranks) {
  std::map<Kind, std::vector<TargetRange>> ranges_of_kind;
  auto is_mine = [&](RecordId record) {
    return std::binary_search(wanted_by[record.index()].begin(), wanted_by[record.index()].end(), rank);
  };
  ForEachTargetRange(plan, [&](const TargetRange& range) {
    if (range.begin < range.end && is_mine(range.record)) ranges_of_kind.try_emplace(KindOf(plan, range));
  });
  ForEachTargetRange(plan, [&](const TargetRange& range) {
    if (range.begin == range.end || wanted_by[range.record.index()].empty()) return;
    if (auto kind = ranges_of_kind.find(KindOf(plan, range)); kind != ranges_of_kind.end()) {
      kind->second.push_back(range);
    }
  });
  std::map<std::vector<int>, std::vector<Content>> found;
  for (const auto& [kind, ranges] : ranges_of_kind) {
    std::set<std::int64_t> cuts;
    for (const TargetRange& range : ranges) cuts.insert({range.begin, range.end});
    for (auto begin = cuts.begin(); std::next(begin) != cuts.end(); ++begin) {
      AddStretch(ranges, *begin, *std::next(begin), wanted_by, rank, found);
    }
  }
  std::vector<SharedContents> list;
  for (auto& [members, contents] : found) {
    if (members.size() == 1) {
      const auto first = std::ssize(contents) * rank / ranks;
      std::rotate(contents.begin(), contents.begin() + first, contents.end());
    }
    list.push_back({members, std::move(contents)});
  }
  return list;
}

std::vector<Piece> CutIntoPieces(const Plan& plan, const std::vector<Content>& contents, std::uint64_t chunk_bytes) {
  std::vector<Piece> pieces;
  for (std::size_t content = 0; content < contents.size(); ++content) {
    const TargetRange& range = contents[content].range;
    const std::int64_t most = ElementsOfChunk(plan, range, chunk_bytes);
    for (std::int64_t begin = range.begin; begin < range.end; begin += most) {
      pieces.push_back({static_cast<std::uint32_t>(content), begin, std::min(begin + most, range.end)});
    }
  }
  return pieces;
}

TargetRange RangeOf(const Content& content, const Piece& piece) {
  return PartOf(content.range, piece.begin, piece.end);
}

void PlaceCopies(const Places& places, const Content& content, const Piece& piece) {
  if (!content.copies.empty()) PlaceAll(places, content, piece, places.Of(RangeOf(content, piece)));
}

void ForEachPlace(const Content& content, const Piece& piece,
                  llvm::function_ref<void(RecordId record, std::uint64_t begin)> place) {
  const TargetRange& range = content.range;
  auto tell = [&](RecordId record, std::int64_t record_element) {
    const std::int64_t begin = (record_element + piece.begin - range.begin) * ItemBytes(range.dtype);
    place(record, static_cast<std::uint64_t>(begin));
  };
  tell(range.record, range.record_element);
  for (const CopyInMemory& copy : content.copies) tell(copy.record, copy.record_element);
}

void PlaceAll(const Places& places, const Content& content, const Piece& piece, std::span<const std::byte> bytes) {
  ForEachPlace(content, piece, [&](RecordId record, std::uint64_t begin) { places.Put(record, begin, bytes); });
}

}  // namespace ucp
