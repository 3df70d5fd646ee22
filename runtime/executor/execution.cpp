// The run itself: make the files, go through the chunks with all threads, and pause now and then to keep what is done.
#include "runtime/executor/execution.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "compiler/support/error.h"
#include "compiler/support/out_of_memory.h"
#include "runtime/executor/element_counts.h"
#include "runtime/executor/share_out.h"

namespace ucp {
namespace {

constexpr double kSecondsWorthKeeping = 1;  // Of work.

Communicator& RanksOf(const ExecutionOptions& options) {
  return options.ranks == nullptr ? SingleProcess() : *options.ranks;
}

TargetShare ShareOf(const Plan& plan, const ExecutionOptions& options, const TargetParts* parts,
                    const Communicator& ranks) {
  return parts != nullptr
             ? ShareOfRank(plan.target.files, ranks.rank(), *parts)
             : ShareOfRank(plan.target.files, ranks.rank(), ranks.size(), options.node_of_rank, options.stretch_border);
}

std::uint64_t BytesOf(const TargetRange& range) {
  return static_cast<std::uint64_t>((range.end - range.begin) * ItemBytes(range.dtype));
}

// A range that continues the one before, and like it has no checksum yet, becomes a part of it.
void AddWritten(std::vector<WrittenRange>& written, const WrittenRange& next) {
  if (!written.empty() && !next.crc32) {
    WrittenRange& last = written.back();
    if (!last.crc32 && last.record == next.record && last.offset + last.bytes == next.offset) {
      last.bytes += next.bytes;
      return;
    }
  }
  written.push_back(next);
}

std::vector<bool> CopiesOf(int rank, const TargetParts* parts) {
  std::vector<bool> is_copy;
  if (parts == nullptr) return is_copy;
  for (std::size_t file = 0; file < parts->set_of_file.size(); ++file) {
    is_copy.push_back(parts->CountingPart(FileId(file)) != parts->PartOf(rank));
  }
  return is_copy;
}

}  // namespace

Execution::Execution(const Plan& plan, const std::string& source_root, const std::string& target_folder,
                     FileSystem& files, const ExecutionOptions& options, const TargetParts* parts,
                     const BufferSizes& sizes, const std::vector<ElementInterval>& done_before)
    : plan_(plan),
      options_(options),
      parts_(parts),
      ranks_(RanksOf(options)),
      leader_(parts == nullptr ? 0 : parts->LeaderOf(parts->PartOf(ranks_.rank()))),
      share_(ShareOf(plan, options, parts, ranks_)),
      is_copy_(CopiesOf(ranks_.rank(), parts)),
      parallel_{std::max(options.threads, 1U), options.cancelled},
      buffers_(sizes, parallel_.threads),
      steps_(plan),
      done_before_(done_before),
      work_(plan, sizes.chunk_bytes, done_before, share_),
      source_(plan, source_root, options.nodes == nullptr ? files : options.nodes->files(), options.verify_source_crc,
              sizes.ledger_pieces, options.open_files.reading, options.nodes, options.source_versions),
      target_(plan, target_folder, files, work_.WorkOfFiles(), work_.holes(), options.open_files.writing, share_),
      comparison_(plan, steps_, source_),
      digests_(plan, options.digests),
      maker_(plan, steps_, &comparison_, &digests_),
      copy_maker_(plan, steps_, nullptr, nullptr),
      bytes_before_(BytesOfElements(plan, share_) - work_.element_bytes()),
      progress_(options.progress, bytes_before_ + work_.element_bytes(), FilesToWrite()),
      stretches_(CutIntoStretches(work_.chunks(), parallel_.threads)),
      kept_at_(Clock::now()) {
  progress_.BeginWith(bytes_before_);
}

llvm::Error Execution::Run() {
  BeginPhase(options_.clock, "create");
  UCP_RETURN_IF_ERROR(Agree(ranks_, WithinMemory([&] { return Prepare(); })));
  if (share_.has_shared_files()) {  // They are made before another rank opens them.
    UCP_RETURN_IF_ERROR(
        Agree(ranks_, WithinMemory([&] { return target_.CreateFiles(parallel_, buffers_.scratch()); })));
  }
  if (llvm::Error error = Agree(ranks_, WithinMemory([&] { return WriteFiles(); }))) {
    auto [code, message] = Describe(std::move(error));
    if (code == ErrorCode::kCancelled) UCP_RETURN_IF_ERROR(Agree(ranks_, KeepLast()));
    return MakeError(code, message);
  }
  UCP_RETURN_IF_ERROR(FinishFiles());
  BeginPhase(options_.clock, "check");
  UCP_RETURN_IF_ERROR(OutcomeOfFirstRank(ranks_, Gather()));
  if (options_.nodes != nullptr) {
    UCP_RETURN_IF_ERROR(CheckSourceOfNodes());
  } else {
    UCP_RETURN_IF_ERROR(OutcomeOfFirstRank(ranks_, ranks_.rank() == 0 ? CheckSource() : llvm::Error::success()));
  }
  progress_.TellEnd();
  return llvm::Error::success();
}

std::uint64_t Execution::FilesToWrite() const {
  std::uint64_t files = 0;
  for (std::size_t file = 0; file < plan_.target.files.size(); ++file) files += share_.Owns(FileId(file)) ? 1U : 0U;
  return files;
}

llvm::Error Execution::Prepare() {
  UCP_RETURN_IF_ERROR(source_.CheckSizes(parallel_));
  const bool is_done = parts_ != nullptr && parts_->IsDone(parts_->PartOf(ranks_.rank()));
  return is_leader() && !is_done ? target_.CreateFolders() : llvm::Error::success();
}

llvm::Error Execution::WriteFiles() {
  llvm::Error error =
      share_.has_shared_files() ? llvm::Error::success() : target_.CreateFiles(parallel_, buffers_.scratch());
  if (!error) {
    BeginPhase(options_.clock, "move");
    error = RunChunks();
  }
  if (error) ranks_.AskToStop();
  return error;
}

// Finishes the files that no rank could finish by itself. The leader syncs all that is kept before it appears (I2),
// which need not reach what another node has not written yet.
llvm::Error Execution::FinishFiles() {
  auto finish = [&](std::span<const std::string> of_ranks) -> llvm::Error {
    if (!of_ranks.empty()) UCP_RETURN_IF_ERROR(target_.FinishShared(of_ranks, buffers_.scratch()[0]));
    if (!options_.keep || is_leader()) return llvm::Error::success();
    return target_.MakeDurable(parallel_);
  };
  std::vector<std::string> of_ranks;
  if (share_.has_shared_files()) {
    UCP_RETURN_IF_ERROR(Agree(ranks_, target_.CloseShared()));
    UCP_ASSIGN_OR_RETURN(of_ranks, ranks_.AllGather(target_.SaveShared()));
  }
  return Agree(ranks_, WithinMemory([&] { return finish(of_ranks); }));
}

llvm::Error Execution::RunChunks() {
  auto run = [&](unsigned thread, std::uint64_t number) -> llvm::Error {
    UCP_RETURN_IF_ERROR(RunChunk(thread, work_.chunk(number)));
    if (HasPassed(options_.journal_seconds) || IsAskedToStop(thread)) pause_ = true;
    return llvm::Error::success();
  };
  while (ChunksDone() < work_.chunks()) {
    pause_ = false;
    UCP_RETURN_IF_ERROR(ForEachUntilPaused(stretches_, parallel_, pause_, run));
    const bool is_cancelled = parallel_.cancelled != nullptr && *parallel_.cancelled;
    if (is_cancelled || is_asked_to_stop_) return Fail(ErrorCode::kCancelled, "interrupted");
    // Data that is synced at the end need not be synced by the commit, which can also take long.
    const double seconds = ChunksDone() < work_.chunks() ? options_.journal_seconds
                                                         : std::min(options_.journal_seconds, kSecondsWorthKeeping);
    if (HasPassed(seconds)) UCP_RETURN_IF_ERROR(Keep());
  }
  return llvm::Error::success();
}

// One thread speaks with the other ranks.
bool Execution::IsAskedToStop(unsigned thread) {
  if (thread != 0 || !ranks_.IsAskedToStop()) return false;
  is_asked_to_stop_ = true;
  return true;
}

// Since something was kept.
bool Execution::HasPassed(double seconds) const {
  return options_.keep && std::chrono::duration<double>(Clock::now() - kept_at_).count() >= seconds;
}

llvm::Error Execution::Keep() {
  if (!options_.keep) return llvm::Error::success();
  UCP_RETURN_IF_ERROR(target_.MakeDurable(parallel_));
  UCP_RETURN_IF_ERROR(options_.keep(Save()));
  kept_ = ChunksDone();
  kept_at_ = Clock::now();
  return llvm::Error::success();
}

// An interrupt of one rank stops all, and all keep what they have.
llvm::Error Execution::KeepLast() { return ChunksDone() > kept_ ? Keep() : llvm::Error::success(); }

std::uint64_t Execution::ChunksDone() const {
  return std::accumulate(
      stretches_.begin(), stretches_.end(), std::uint64_t{0},
      [](std::uint64_t before, const WorkStretch& stretch) { return before + (stretch.next - stretch.begin); });
}

// The work of earlier runs is in the leader's entry.
std::vector<ElementInterval> Execution::Done() const {
  std::vector<ElementInterval> done = is_leader() ? done_before_ : std::vector<ElementInterval>();
  for (const WorkStretch& stretch : stretches_) {
    if (stretch.next > stretch.begin) work_.AddElements(stretch.begin, stretch.next, done);
  }
  Unite(done);
  return done;
}

llvm::Error Execution::RunChunk(unsigned thread, const std::vector<TargetRange>& ranges) {
  const Record& first = plan_.target.record(ranges.front().record);
  const bool is_copy = !is_copy_.empty() && is_copy_[first.file.index()];
  const ChunkMaker& maker = is_copy ? copy_maker_ : maker_;
  auto offset_of = [](const TargetRange& range) {
    return static_cast<std::uint64_t>(range.record_element * ItemBytes(range.dtype));
  };
  const std::uint64_t file_offset = first.begin + offset_of(ranges.front());
  const std::span<std::byte> memory = buffers_.chunk(thread, file_offset);
  std::vector<WrittenRange> written;
  std::vector<Clock::time_point> begins;
  std::uint64_t bytes = 0;
  std::uint64_t end = 0;  // In memory.
  const std::span<std::byte> scratch = buffers_.scratch()[thread];
  SourceReader reader(source_);
  const std::span<std::byte> for_moving = ranges.size() > 1 ? ForMoving(scratch) : scratch;
  std::size_t ahead = 0;  // What the ranges before this one need was read ahead.
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    const TargetRange& range = ranges[i];
    if (options_.after_chunk) begins.push_back(Clock::now());
    if (i == ahead && ranges.size() > 1) {
      UCP_ASSIGN_OR_RETURN(const std::size_t count,
                           maker.ReadAhead(std::span(ranges).subspan(i), ForReadingAhead(scratch), reader));
      ahead += count;
    }
    const std::uint64_t begin = plan_.target.record(range.record).begin + offset_of(range) - file_offset;
    UCP_ASSIGN_OR_RETURN(std::optional<std::uint32_t> crc32,
                         maker.Make(range, {memory.subspan(begin), buffers_.term(thread), for_moving}, reader));
    AddWritten(written, {range.record, offset_of(range), BytesOf(range), crc32});
    bytes += BytesOf(range);
    end = begin + BytesOf(range);
  }
  UCP_RETURN_IF_ERROR(target_.WriteChunk(written, memory.first(end), scratch));
  progress_.Add(bytes, target_.files_finished());
  if (!options_.after_chunk) return llvm::Error::success();
  begins.push_back(Clock::now());
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    const std::string& tensor = plan_.tensor(plan_.writes[ranges[i].write].tensor).logical.name;
    options_.after_chunk({tensor, ranges[i].state, BytesOf(ranges[i]), begins[i], begins[i + 1]});
  }
  return llvm::Error::success();
}

}  // namespace ucp
