// The work is cut into stretches of a pair, and a thread goes through one of them in chunks. What a stretch adds up to
// is kept until the end, where stretches are put together in their order: floating-point sums depend on it.
#include "runtime/difference/compare_checkpoints.h"

#include <algorithm>

#include "compiler/support/error.h"
#include "compiler/support/units.h"
#include "runtime/difference/element_reader.h"
#include "runtime/executor/buffers.h"
#include "runtime/executor/progress_teller.h"

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
            ProgressTeller& progress)
      : a_(a), b_(b), pairs_(pairs), chunk_bytes_(chunk_bytes), progress_(progress) {
    for (std::size_t p = 0; p < pairs.size(); ++p) {
      const TargetRange& range = pairs[p].a->range;
      for (std::int64_t begin = range.begin; begin < range.end; begin += kStretchElements) {
        stretches_.push_back({static_cast<std::uint32_t>(p), begin, std::min(begin + kStretchElements, range.end)});
      }
    }
    found_.resize(stretches_.size());
  }

  llvm::Error Run(const ParallelOptions& parallel) {
    UCP_RETURN_IF_ERROR(a_.Begin(parallel));
    UCP_RETURN_IF_ERROR(b_.Begin(parallel));
    UCP_RETURN_IF_ERROR(ForEachInParallel(stretches_.size(), parallel, [&](unsigned thread, std::uint64_t number) {
      return Compare(thread, stretches_[number], found_[number], parallel);
    }));
    UCP_RETURN_IF_ERROR(a_.End(parallel));
    return b_.End(parallel);
  }

  std::vector<Difference> Get() const {
    std::vector<Difference> differences(pairs_.size());
    for (std::size_t s = 0; s < stretches_.size(); ++s) differences[stretches_[s].pair].Append(found_[s]);
    return differences;
  }

 private:
  llvm::Error Compare(unsigned thread, const Stretch& stretch, Difference& found, const ParallelOptions& parallel) {
    const TargetRange& range_a = pairs_[stretch.pair].a->range;
    const TargetRange& range_b = pairs_[stretch.pair].b->range;
    const std::int64_t item = std::max(ItemBytes(range_a.dtype), ItemBytes(range_b.dtype));
    constexpr std::int64_t kBlock = DifferenceSum::kBlockElements;
    const std::int64_t step = static_cast<std::int64_t>(chunk_bytes_) / item / kBlock * kBlock;
    DifferenceSum sum(range_a.dtype, range_b.dtype);
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

// Of the one program, each checkpoint has a half of what is left.
llvm::Expected<std::uint64_t> MemoryOfEach(const Plan& a, const Plan& b, const ExecutionOptions& options) {
  const unsigned threads = std::max(options.threads, 1U);
  const std::uint64_t needed = MemoryToCompare(a, b, threads);
  if (options.memory_bytes >= needed) return kProgramBytes + (options.memory_bytes - kProgramBytes) / 2;
  return Fail(ErrorCode::kUsage,
              "{} of memory is too little to compare these checkpoints with {}: it takes {} ({} bytes); raise --memory "
              "or lower --threads",
              HumanBytes(options.memory_bytes), Counted(threads, "thread"), HumanBytes(needed), needed);
}

}  // namespace

std::uint64_t MemoryToCompare(const Plan& a, const Plan& b, unsigned threads) {
  return kProgramBytes + 2 * (std::max(MemoryNeeded(a, threads), MemoryNeeded(b, threads)) - kProgramBytes);
}

llvm::Expected<std::vector<Difference>> CompareCheckpoints(FileSystem& files, const ComparedCheckpoint& a,
                                                           const ComparedCheckpoint& b,
                                                           const std::vector<StatePair>& pairs,
                                                           const ExecutionOptions& options) {
  const unsigned threads = std::max(options.threads, 1U);
  UCP_ASSIGN_OR_RETURN(const std::uint64_t memory_bytes, MemoryOfEach(a.plan, b.plan, options));
  auto sizes_of = [&](const Plan& plan) { return DivideMemory(plan, threads, memory_bytes, options.most_chunk_bytes); };
  UCP_ASSIGN_OR_RETURN(BufferSizes sizes_a, sizes_of(a.plan));
  UCP_ASSIGN_OR_RETURN(BufferSizes sizes_b, sizes_of(b.plan));
  ElementReader reader_a(a.plan, a.root, files, sizes_a, threads, options.verify_source_crc);
  ElementReader reader_b(b.plan, b.root, files, sizes_b, threads, options.verify_source_crc);
  ProgressTeller progress(options.progress, BytesOf(pairs), 0);
  Comparing comparing(reader_a, reader_b, pairs, std::min(sizes_a.chunk_bytes, sizes_b.chunk_bytes), progress);
  UCP_RETURN_IF_ERROR(comparing.Run({threads, options.cancelled}));
  progress.TellEnd();
  return comparing.Get();
}

}  // namespace ucp
