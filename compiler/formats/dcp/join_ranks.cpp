// The union of what ranks saved each for itself. Every rank stores the tensors that all have, and the values: the first
// one's count.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "compiler/formats/dcp/entries/check_chunks.h"
#include "compiler/formats/dcp/metadata.h"
#include "compiler/support/error.h"

namespace ucp::dcp {
namespace {

class RankJoiner {
 public:
  llvm::Expected<Metadata> Run(std::vector<Metadata> of_ranks) {
    joined_.has_paths = std::ranges::all_of(of_ranks, &Metadata::has_paths);
    for (std::size_t rank = 0; rank < of_ranks.size(); ++rank)
      UCP_RETURN_IF_ERROR(Add(rank, std::move(of_ranks[rank])));
    for (Entry& entry : joined_.entries) {
      if (!entry.is_tensor) continue;
      DropCopies(entry.chunks);
      UCP_RETURN_IF_ERROR(TakeChunks(entry));
    }
    return std::move(joined_);
  }

 private:
  llvm::Error Add(std::size_t rank, Metadata of_rank) {
    std::vector<std::uint32_t> numbers;
    for (std::string& file : of_rank.files) {
      const auto next = static_cast<std::uint32_t>(joined_.files.size());
      const auto [known, is_new] = number_of_file_.try_emplace(file, next);
      if (is_new) joined_.files.push_back(std::move(file));
      numbers.push_back(known->second);
    }
    const std::size_t saved_before = joined_.entries.size();
    for (Entry& entry : of_rank.entries) {
      for (Chunk& chunk : entry.chunks) {
        if (chunk.place.bytes > 0) chunk.place.file = numbers[chunk.place.file];
      }
      const auto [known, is_new] = number_of_key_.try_emplace(entry.key, joined_.entries.size());
      if (is_new) {
        entry.saved += saved_before;
        first_rank_.push_back(rank);
        joined_.entries.push_back(std::move(entry));
      } else {
        UCP_RETURN_IF_ERROR(AddTo(joined_.entries[known->second], first_rank_[known->second], rank, entry));
      }
    }
    return llvm::Error::success();
  }

  static llvm::Error AddTo(Entry& known, std::size_t first_rank, std::size_t rank, const Entry& entry) {
    if (known.is_tensor != entry.is_tensor || known.dtype != entry.dtype || known.shape != entry.shape) {
      return Fail(ErrorCode::kBadData, "`{}` is {} of rank {} and {} of rank {}", known.key, Text(known), first_rank,
                  Text(entry), rank);
    }
    if (known.is_tensor) known.chunks.insert(known.chunks.end(), entry.chunks.begin(), entry.chunks.end());
    return llvm::Error::success();
  }

  static std::string Text(const Entry& entry) {
    if (!entry.is_tensor) return "a value";
    return fmt::format("a tensor [{}] of {}", fmt::join(entry.shape, ", "), Name(entry.dtype));
  }

  static void DropCopies(std::vector<Chunk>& chunks) {
    std::ranges::stable_sort(chunks, [](const Chunk& a, const Chunk& b) {
      return std::tie(a.offsets, a.sizes) < std::tie(b.offsets, b.sizes);
    });
    const auto copies = std::ranges::unique(
        chunks, [](const Chunk& a, const Chunk& b) { return a.offsets == b.offsets && a.sizes == b.sizes; });
    chunks.erase(copies.begin(), copies.end());
  }

  Metadata joined_;
  std::vector<std::size_t> first_rank_;  // Of each entry.
  std::unordered_map<std::string, std::size_t> number_of_key_;
  std::unordered_map<std::string, std::uint32_t> number_of_file_;
};

}  // namespace

llvm::Expected<Metadata> JoinRanks(std::vector<Metadata> of_ranks) { return RankJoiner().Run(std::move(of_ranks)); }

}  // namespace ucp::dcp
