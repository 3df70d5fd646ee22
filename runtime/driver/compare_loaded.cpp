#include "runtime/driver/compare_loaded.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "compiler/compile/whole_states.h"
#include "compiler/plan/boxes.h"
#include "compiler/plan/piece_places.h"
#include "compiler/support/error.h"
#include "runtime/difference/element_reader.h"
#include "runtime/difference/pair_states.h"
#include "runtime/driver/loaded_view.h"
#include "runtime/elements/cast.h"
#include "runtime/elements/element_text.h"
#include "runtime/elements/finish_sum.h"
#include "runtime/engine/buffers.h"
#include "runtime/load/places.h"

namespace ucp {
namespace {

// By the local index of one dimension: the logical one, or -1 for padding.
std::vector<std::int64_t> LogicalOf(const Selection& dim) {
  std::vector<std::int64_t> logical(static_cast<std::size_t>(dim.local_length()), -1);
  for (const Run& run : dim.runs()) {
    for (std::int64_t i = 0; i < run.length; ++i) {
      logical[static_cast<std::size_t>(run.local_begin + i)] = run.logical_begin + i;
    }
  }
  return logical;
}

// The number that each element of a piece has in its tensor, one after the other.
class LogicalNumbers {
 public:
  LogicalNumbers(const ProductSet& set, const WrittenPiece& piece, const std::vector<std::int64_t>& shape)
      : places_(set, piece), strides_(RowMajorStrides(shape)) {
    for (const Selection& dim : set.dims) of_local_.push_back(LogicalOf(dim));
  }

  // Nothing if the piece has none at this element of its shard.
  std::optional<std::int64_t> Of(std::int64_t element) const {
    if (element < places_.begin() || element > places_.last()) return std::nullopt;
    std::int64_t left = element - places_.begin();
    std::int64_t number = 0;
    for (std::size_t d : places_.order()) {
      const std::vector<std::int64_t>& of_local = of_local_[d];
      const auto local = of_local.size() == 1 ? 0 : static_cast<std::size_t>(left / places_.strides()[d]);
      if (local >= of_local.size() || of_local[local] < 0) return std::nullopt;
      number += of_local[local] * strides_[d];
      if (of_local.size() > 1) left %= places_.strides()[d];
    }
    return left == 0 ? std::optional(number) : std::nullopt;
  }

 private:
  PiecePlaces places_;
  ElementStrides strides_;
  std::vector<std::vector<std::int64_t>> of_local_;  // By dimension.
};

class Comparing {
 public:
  // `most_run`: elements that are read at a time.
  Comparing(const Plan& loaded, LoadedView& view, const Plan& whole, ElementReader& reader, std::int64_t most_run)
      : loaded_(loaded), view_(view), reader_(reader), most_run_(most_run) {
    for (const WholeTensor& tensor : WholeTensorsOf(whole)) {
      for (const WholeState& state : tensor.states) whole_.emplace(std::pair(tensor.name, state.name), state.range);
    }
  }

  llvm::Error Compare(unsigned thread, const TargetRange& range) {
    const PlanWrite& write = loaded_.writes[range.write];
    for (const WrittenPiece& piece : write.pieces) {
      const LogicalTensor& tensor = loaded_.tensor(piece.tensor).logical;
      const TargetRange* whole = FindWhole(tensor.name, range.state);
      if (whole == nullptr) {
        return Fail(ErrorCode::kBadData, "the source, read again, has no `{}` of `{}`", range.state, tensor.name);
      }
      const LogicalNumbers numbers(loaded_.set(piece.set), piece, tensor.shape);
      for (std::int64_t local = range.begin; local < range.end;) {
        const std::optional<std::int64_t> first = numbers.Of(local);
        std::int64_t count = 1;
        while (first && count < most_run_ && local + count < range.end && numbers.Of(local + count) == *first + count) {
          ++count;
        }
        if (first) UCP_RETURN_IF_ERROR(CompareRun(thread, range, piece.tensor, *whole, local, *first, count));
        local += count;
      }
    }
    return llvm::Error::success();
  }

  LoadedComparison found() const { return found_; }

 private:
  // A model computes with the rounding of a master, where there is one.
  const TargetRange* FindWhole(const std::string& tensor, const std::string& state) const {
    if (state == kWeightState) {
      if (auto master = whole_.find({tensor, kMasterState}); master != whole_.end()) return &master->second;
    }
    auto same = whole_.find({tensor, state});
    return same == whole_.end() ? nullptr : &same->second;
  }

  llvm::Error CompareRun(unsigned thread, const TargetRange& range, TensorId tensor, const TargetRange& whole,
                         std::int64_t local, std::int64_t logical, std::int64_t count) {
    TargetRange part = whole;
    part.record_element += logical - whole.begin;
    part.begin = logical;
    part.end = logical + count;
    UCP_ASSIGN_OR_RETURN(std::span<const std::byte> read, reader_.Read(thread, part));
    const auto item = static_cast<std::size_t>(ItemBytes(range.dtype));
    std::vector<std::byte> wanted(static_cast<std::size_t>(count) *
                                  static_cast<std::size_t>(std::max(ItemBytes(whole.dtype), ItemBytes(range.dtype))));
    std::memcpy(wanted.data(), read.data(), read.size());
    Arithmetic rest = loaded_.tensor(tensor).arithmetic;
    rest.terms = 1;  // The source, read again, is the mean already, and unscaled.
    rest.divisor = {};
    if (rest != Arithmetic{}) FinishSum(rest, whole.dtype, std::span(wanted).first(read.size()));
    if (whole.dtype != range.dtype || range.offset != 0) Cast(wanted, count, whole.dtype, range.dtype, range.offset);
    const std::uint64_t begin = static_cast<std::size_t>(range.record_element + local - range.begin) * item;
    const std::uint64_t end = static_cast<std::size_t>(range.record_element + range.end - range.begin) * item;
    UCP_ASSIGN_OR_RETURN(const std::byte* held,
                         view_.At(thread, range.record, begin, static_cast<std::size_t>(count) * item, end));
    LoadedComparison found{static_cast<std::uint64_t>(count), 0, ""};
    for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
      if (std::memcmp(held + i * item, wanted.data() + i * item, item) == 0) continue;
      if (found.differ++ == 0) {
        found.first =
            fmt::format("element {} of `{}` of tensor `{}`, in `{}`, is {} in memory and {} in the source",
                        logical + static_cast<std::int64_t>(i), range.state, loaded_.tensor(tensor).logical.name,
                        loaded_.target.file(range.record).path, ElementText(range.dtype, held + i * item),
                        ElementText(range.dtype, wanted.data() + i * item));
      }
    }
    Add(range, found);
    return llvm::Error::success();
  }

  void Add(const TargetRange& range, const LoadedComparison& more) {
    std::lock_guard lock(mutex_);
    found_.elements += more.elements;
    found_.differ += more.differ;
    const std::pair place(range.record.index(), range.record_element);
    if (more.differ > 0 && (found_.first.empty() || place < first_place_)) {
      found_.first = more.first;
      first_place_ = place;
    }
  }

  const Plan& loaded_;
  LoadedView& view_;
  ElementReader& reader_;
  const std::int64_t most_run_;
  std::map<std::pair<std::string, std::string>, TargetRange> whole_;
  std::mutex mutex_;  // Protects what follows.
  LoadedComparison found_;
  std::pair<std::size_t, std::int64_t> first_place_;
};

}  // namespace

llvm::Expected<LoadedComparison> CompareLoaded(ReadableFileSystem& files, const LoadPlan& load,
                                               const SourceRequest& source, std::span<const WantedRecord> records,
                                               const ExecutionOptions& options) {
  UCP_ASSIGN_OR_RETURN(const Compiled compiled, CompileWholeStates(files, source, ReplicaPolicy::kTrust));
  const Plan& whole = compiled.plan;
  const unsigned threads = std::max(options.threads, 1U);
  UCP_ASSIGN_OR_RETURN(const Places places, Places::Make(load.plan, records));
  const std::uint64_t windows = places.Devices().empty() ? 0 : threads * options.most_chunk_bytes;
  UCP_ASSIGN_OR_RETURN(const BufferSizes sizes,
                       DivideMemory(whole, threads, options.memory_bytes, options.most_chunk_bytes, windows));
  ElementReader reader(whole, compiled.source.folder, files, sizes, threads, false);
  const ParallelOptions parallel{threads, options.cancelled};
  UCP_RETURN_IF_ERROR(reader.Begin(parallel));
  constexpr std::int64_t kMostItemBytes = 16;
  LoadedView view(places, threads, sizes.chunk_bytes);
  Comparing comparing(load.plan, view, whole, reader, static_cast<std::int64_t>(sizes.chunk_bytes) / kMostItemBytes);
  const std::vector<TargetRange> ranges = places.Ranges();
  UCP_RETURN_IF_ERROR(ForEachInParallel(ranges.size(), parallel, [&](unsigned thread, std::uint64_t number) {
    return comparing.Compare(thread, ranges[number]);
  }));
  return comparing.found();
}

}  // namespace ucp
