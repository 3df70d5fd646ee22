// The work is cut into stretches of a pair, and a thread goes through one of them in chunks. The sum of a stretch is
// kept until the end, where stretches are put together in their order: floating-point sums depend on it. Ranks take
// stretches in turn; what they found, and what they know of checksums, comes together at rank 0.
#include "runtime/difference/compare_checkpoints.h"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <type_traits>

#include "compiler/support/error.h"
#include "compiler/support/units.h"
#include "compiler/support/user_option.h"
#include "runtime/comm/communicator.h"
#include "runtime/difference/element_reader.h"
#include "runtime/engine/buffers.h"
#include "runtime/engine/progress_teller.h"
#include "runtime/wire/byte_codec.h"

namespace ucp {
namespace {

constexpr std::int64_t kStretchElements = std::int64_t{1} << 24;

struct Stretch {
  std::uint32_t pair = 0;
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

TargetRange PartOf(TargetRange range, std::int64_t begin, std::int64_t end) {
  range.record_element += begin - range.begin;
  range.begin = begin;
  range.end = end;
  return range;
}

class Comparing {
 public:
  Comparing(ElementReader& a, ElementReader& b, const std::vector<StatePair>& pairs, std::uint64_t chunk_bytes,
            ProgressTeller& progress, Communicator& ranks)
      : a_(a), b_(b), pairs_(pairs), chunk_bytes_(chunk_bytes), progress_(progress), ranks_(ranks) {
    for (std::size_t p = 0; p < pairs.size(); ++p) {
      const TargetRange& range = pairs[p].a->range;
      for (std::int64_t begin = range.begin; begin < range.end; begin += kStretchElements) {
        stretches_.push_back({static_cast<std::uint32_t>(p), begin, std::min(begin + kStretchElements, range.end)});
      }
    }
    found_.resize(stretches_.size());
  }

  llvm::Error Run(const ParallelOptions& parallel) {
    UCP_RETURN_IF_ERROR(Agree(ranks_, CompareMine(parallel)));
    UCP_RETURN_IF_ERROR(Gather());
    auto end = [&]() -> llvm::Error {
      UCP_RETURN_IF_ERROR(a_.End(parallel));
      return b_.End(parallel);
    };
    return OutcomeOfFirstRank(ranks_, ranks_.rank() == 0 ? end() : llvm::Error::success());
  }

  std::vector<Difference> Get() const {
    std::vector<Difference> differences(pairs_.size());
    for (std::size_t s = 0; s < stretches_.size(); ++s) differences[stretches_[s].pair].Append(found_[s]);
    return differences;
  }

 private:
  // Of these, this rank has those from its own number on, each as many further as there are ranks.
  std::uint64_t StretchesOf(int rank) const {
    const auto ranks = static_cast<std::uint64_t>(ranks_.size());
    return (stretches_.size() + ranks - 1 - static_cast<std::uint64_t>(rank)) / ranks;
  }
  std::size_t StretchOf(int rank, std::uint64_t number) const {
    return number * static_cast<std::uint64_t>(ranks_.size()) + static_cast<std::uint64_t>(rank);
  }

  llvm::Error CompareMine(const ParallelOptions& parallel) {
    UCP_RETURN_IF_ERROR(a_.Begin(parallel));
    UCP_RETURN_IF_ERROR(b_.Begin(parallel));
    const int rank = ranks_.rank();
    return ForEachInParallel(StretchesOf(rank), parallel, [&](unsigned thread, std::uint64_t number) {
      const std::size_t stretch = StretchOf(rank, number);
      return Compare(thread, stretches_[stretch], found_[stretch], parallel);
    });
  }

  llvm::Error Gather() {
    wire::ByteWriter mine;
    for (std::uint64_t number = 0; ranks_.rank() != 0 && number < StretchesOf(ranks_.rank()); ++number) {
      const Difference& found = found_[StretchOf(ranks_.rank(), number)];
      mine.Add(std::string_view(reinterpret_cast<const char*>(&found), sizeof(found)));
    }
    if (ranks_.rank() != 0) {
      a_.Save(mine);
      b_.Save(mine);
    }
    UCP_ASSIGN_OR_RETURN(const std::vector<std::string> all, ToFirstRank(ranks_, mine.bytes()));
    return OutcomeOfFirstRank(ranks_, Take(all));
  }

  // At rank 0; elsewhere `all` is empty.
  llvm::Error Take(const std::vector<std::string>& all) {
    static_assert(std::is_trivially_copyable_v<Difference>);
    for (int rank = 1; rank < std::ssize(all); ++rank) {
      wire::ByteReader reader(all[static_cast<std::size_t>(rank)]);
      for (std::uint64_t number = 0; number < StretchesOf(rank); ++number) {
        const std::string found = reader.Text();
        if (found.size() != sizeof(Difference)) reader.Fail();
        if (!reader.has_failed()) std::memcpy(&found_[StretchOf(rank, number)], found.data(), found.size());
      }
      a_.Restore(reader);
      b_.Restore(reader);
      if (reader.is_at_end()) continue;
      return Fail(ErrorCode::kIo, "rank {} sent what does not fit this comparison; all ranks must run the same ucp",
                  rank);
    }
    return llvm::Error::success();
  }

  llvm::Error Compare(unsigned thread, const Stretch& stretch, Difference& found, const ParallelOptions& parallel) {
    const TargetRange& range_a = pairs_[stretch.pair].a->range;
    const TargetRange& range_b = pairs_[stretch.pair].b->range;
    const std::int64_t item = std::max(ItemBytes(range_a.dtype), ItemBytes(range_b.dtype));
    constexpr std::int64_t kBlock = DifferenceSum::kBlockElements;
    const std::int64_t step = static_cast<std::int64_t>(chunk_bytes_) / item / kBlock * kBlock;
    DifferenceSum sum(range_a.dtype, range_b.dtype, pairs_[stretch.pair].cast);
    for (std::int64_t begin = stretch.begin; begin < stretch.end; begin += step) {
      if (parallel.cancelled != nullptr && parallel.cancelled->load(std::memory_order_relaxed)) {
        return Fail(ErrorCode::kCancelled, "interrupted");
      }
      const std::int64_t end = std::min(begin + step, stretch.end);
      UCP_ASSIGN_OR_RETURN(std::span<const std::byte> a, a_.Read(thread, PartOf(range_a, begin, end)));
      UCP_ASSIGN_OR_RETURN(std::span<const std::byte> b, b_.Read(thread, PartOf(range_b, begin, end)));
      sum.Add(a.data(), b.data(), end - begin, begin);
      progress_.Add(a.size() + b.size(), 0);
    }
    found = sum.Get();
    return llvm::Error::success();
  }

  ElementReader& a_;
  ElementReader& b_;
  const std::vector<StatePair>& pairs_;
  const std::uint64_t chunk_bytes_;
  ProgressTeller& progress_;
  Communicator& ranks_;
  std::vector<Stretch> stretches_;
  std::vector<Difference> found_;  // Of each stretch.
};

std::uint64_t BytesOf(const std::vector<StatePair>& pairs) {
  std::uint64_t bytes = 0;
  for (const StatePair& pair : pairs) {
    const TargetRange& range = pair.a->range;
    bytes += static_cast<std::uint64_t>((range.end - range.begin) *
                                        (ItemBytes(range.dtype) + ItemBytes(pair.b->range.dtype)));
  }
  return bytes;
}

struct SizesOfBoth {
  BufferSizes a;
  BufferSizes b;
};

// Of the one program, each checkpoint has a half of what is left.
llvm::Expected<SizesOfBoth> DivideBetween(const Plan& a, const Plan& b, const ExecutionOptions& options) {
  const unsigned threads = std::max(options.threads, 1U);
  const std::uint64_t needed = MemoryToCompare(a, b, threads);
  if (options.memory_bytes < needed) {
    return Fail(ErrorCode::kUsage,
                "{} of memory is too little to compare these checkpoints with {}: it takes {} ({} bytes); raise "
                "{} or lower {}",
                HumanBytes(options.memory_bytes), Counted(threads, "thread"), HumanBytes(needed), needed,
                OptionName(UserOption::kMemory), OptionName(UserOption::kThreads));
  }
  const std::uint64_t of_each = kProgramBytes + (options.memory_bytes - kProgramBytes) / 2;
  SizesOfBoth sizes;
  UCP_ASSIGN_OR_RETURN(sizes.a, DivideMemory(a, threads, of_each, options.most_chunk_bytes));
  UCP_ASSIGN_OR_RETURN(sizes.b, DivideMemory(b, threads, of_each, options.most_chunk_bytes));
  return sizes;
}

}  // namespace

std::uint64_t MemoryToCompare(const Plan& a, const Plan& b, unsigned threads) {
  return kProgramBytes + 2 * (std::max(MemoryNeeded(a, threads), MemoryNeeded(b, threads)) - kProgramBytes);
}

llvm::Expected<std::vector<Difference>> CompareCheckpoints(ReadableFileSystem& files, const ComparedCheckpoint& a,
                                                           const ComparedCheckpoint& b,
                                                           const std::vector<StatePair>& pairs,
                                                           const ExecutionOptions& options) {
  const unsigned threads = std::max(options.threads, 1U);
  Communicator& ranks = options.ranks == nullptr ? SingleProcess() : *options.ranks;
  llvm::Expected<SizesOfBoth> sizes = DivideBetween(a.plan, b.plan, options);
  UCP_RETURN_IF_ERROR(Agree(ranks, sizes ? llvm::Error::success() : sizes.takeError()));
  ElementReader reader_a(a.plan, a.root, files, sizes->a, threads, options.verify_source_crc);
  ElementReader reader_b(b.plan, b.root, files, sizes->b, threads, options.verify_source_crc);
  ProgressTeller progress(options.progress, BytesOf(pairs) / static_cast<std::uint64_t>(ranks.size()), 0);
  Comparing comparing(reader_a, reader_b, pairs, std::min(sizes->a.chunk_bytes, sizes->b.chunk_bytes), progress, ranks);
  UCP_RETURN_IF_ERROR(comparing.Run({threads, options.cancelled}));
  progress.TellEnd();
  return comparing.Get();
}

}  // namespace ucp
