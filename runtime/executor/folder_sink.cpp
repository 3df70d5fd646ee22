// Makes the files, goes through the chunks with all threads, and pauses now and then to keep what is done.
#include "runtime/executor/folder_sink.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "compiler/support/check.h"
#include "compiler/support/error.h"
#include "compiler/support/out_of_memory.h"
#include "runtime/digest/sums_codec.h"
#include "runtime/executor/element_counts.h"

namespace ucp {
namespace {

constexpr double kSecondsWorthKeeping = 1;  // Of work.

TargetShare ShareOf(const Plan& plan, const ExecutionOptions& options, const TargetParts* parts,
                    const Communicator& ranks) {
  return parts != nullptr
             ? ShareOfRank(plan.target.files, ranks.rank(), *parts)
             : ShareOfRank(plan.target.files, ranks.rank(), ranks.size(), options.node_of_rank, options.stretch_border);
}

// A range that continues the one before, and like it has no checksum yet, becomes a part of it.
void AddWritten(llvm::SmallVectorImpl<WrittenRange>& written, const MadeRange& made) {
  const TargetRange& range = *made.range;
  const auto offset = static_cast<std::uint64_t>(range.record_element * ItemBytes(range.dtype));
  if (!written.empty() && !made.crc32) {
    WrittenRange& last = written.back();
    if (!last.crc32 && last.record == range.record && last.offset + last.bytes == offset) {
      last.bytes += made.bytes.size();
      return;
    }
  }
  written.push_back({range.record, offset, made.bytes.size(), made.crc32});
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

FolderSink::FolderSink(Engine& engine, const std::string& folder, FileSystem& files, const ExecutionOptions& options,
                       const TargetParts* parts, const BufferSizes& sizes,
                       const std::vector<ElementInterval>& done_before)
    : engine_(engine),
      plan_(engine.plan()),
      options_(options),
      parts_(parts),
      ranks_(engine.ranks()),
      leader_(parts == nullptr ? 0 : parts->LeaderOf(parts->PartOf(ranks_.rank()))),
      share_(ShareOf(plan_, options, parts, ranks_)),
      is_copy_(CopiesOf(ranks_.rank(), parts)),
      parallel_(engine.parallel()),
      done_before_(done_before),
      work_(plan_, sizes.chunk_bytes, done_before, share_, options.waves),
      target_(plan_, folder, files, work_.WorkOfFiles(), work_.holes(), options.open_files.writing, share_),
      bytes_before_(BytesOfElements(plan_, share_) - work_.element_bytes()),
      stretches_(CutIntoStretches(work_.chunks(), parallel_.threads)),
      kept_at_(Clock::now()) {}

SinkSize FolderSink::Size() const {
  SinkSize size{bytes_before_, work_.element_bytes(), 0};
  for (std::size_t file = 0; file < plan_.target.files.size(); ++file) {
    size.files += share_.Owns(FileId(file)) ? 1U : 0U;
  }
  return size;
}

llvm::Error FolderSink::Prepare(Engine& engine) {
  const bool is_done = parts_ != nullptr && parts_->IsDone(parts_->PartOf(ranks_.rank()));
  auto create = [&] { return is_leader() && !is_done ? target_.CreateFolders() : llvm::Error::success(); };
  UCP_RETURN_IF_ERROR(Agree(ranks_, WithinMemory(create)));
  if (!share_.has_shared_files()) return llvm::Error::success();
  // They are made before another rank opens them.
  return Agree(ranks_, WithinMemory([&] { return target_.CreateFiles(parallel_, engine.scratch()); }));
}

llvm::Error FolderSink::Fill(Engine& engine) {
  if (!share_.has_shared_files()) UCP_RETURN_IF_ERROR(target_.CreateFiles(parallel_, engine.scratch()));
  engine.BeginPhaseOf("move");
  return options_.waves == nullptr ? RunChunks() : RunWaves(*options_.waves);
}

// Finishes the files that no rank could finish by itself. The leader syncs all that is kept before it appears (I2),
// which need not reach what another node has not written yet.
llvm::Error FolderSink::Finish(Engine& engine) {
  auto finish = [&](std::span<const std::string> of_ranks) -> llvm::Error {
    if (!of_ranks.empty()) UCP_RETURN_IF_ERROR(target_.FinishShared(of_ranks, engine.scratch()[0]));
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

// All ranks are through with a wave before the source of the next one takes its place. One that fails stops the others.
llvm::Error FolderSink::RunWaves(const SourceWaves& waves) {
  UCP_CHECK(!options_.keep, "a run in waves that keeps its progress");
  for (std::uint64_t wave = 0; wave < waves.count; ++wave) {
    if (wave > 0) UCP_RETURN_IF_ERROR(Agree(ranks_, waves.next(wave)));
    const std::uint64_t first = work_.FirstChunkOf(wave);
    stretches_ = CutIntoStretches(work_.FirstChunkOf(wave + 1) - first, parallel_.threads);
    for (WorkStretch& stretch : stretches_) {
      for (std::uint64_t* chunk : {&stretch.begin, &stretch.end, &stretch.next}) *chunk += first;
    }
    llvm::Error error = WithinMemory([&] { return RunChunks(); });
    if (error) ranks_.AskToStop();
    UCP_RETURN_IF_ERROR(Agree(ranks_, std::move(error)));
  }
  return llvm::Error::success();
}

llvm::Error FolderSink::RunChunks() {
  auto are_done = [&] {
    return std::ranges::all_of(stretches_, [](const WorkStretch& stretch) { return stretch.next == stretch.end; });
  };
  auto run = [&](unsigned thread, std::uint64_t number) -> llvm::Error {
    UCP_RETURN_IF_ERROR(RunChunk(thread, work_.chunk(number)));
    if (HasPassed(options_.journal_seconds) || IsAskedToStop(thread)) pause_ = true;
    return llvm::Error::success();
  };
  while (!are_done()) {
    pause_ = false;
    UCP_RETURN_IF_ERROR(ForEachUntilPaused(stretches_, parallel_, pause_, run));
    const bool is_cancelled = parallel_.cancelled != nullptr && *parallel_.cancelled;
    if (is_cancelled || is_asked_to_stop_) return Fail(ErrorCode::kCancelled, "interrupted");
    // Data that is synced at the end need not be synced by the commit, which can also take long.
    const double seconds =
        are_done() ? std::min(options_.journal_seconds, kSecondsWorthKeeping) : options_.journal_seconds;
    if (HasPassed(seconds)) UCP_RETURN_IF_ERROR(Keep());
  }
  return llvm::Error::success();
}

llvm::Error FolderSink::RunChunk(unsigned thread, const std::vector<TargetRange>& ranges) {
  const Record& first = plan_.target.record(ranges.front().record);
  const bool counts = is_copy_.empty() || !is_copy_[first.file.index()];
  std::uint64_t bytes = 0;
  UCP_RETURN_IF_ERROR(engine_.MakeChunk(thread, ranges, counts, [&](MadeChunk& chunk) {
    llvm::SmallVector<WrittenRange, 1> written;
    for (const MadeRange& made : chunk.ranges) {
      AddWritten(written, made);
      bytes += made.bytes.size();
    }
    return target_.WriteChunk(written, chunk.memory, engine_.scratch()[thread]);
  }));
  engine_.AddProgress(bytes, target_.files_finished());
  return llvm::Error::success();
}

bool FolderSink::IsAskedToStop(unsigned thread) {
  if (!engine_.IsAskedToStop(thread)) return false;
  is_asked_to_stop_ = true;
  return true;
}

// Since something was kept.
bool FolderSink::HasPassed(double seconds) const {
  return options_.keep && std::chrono::duration<double>(Clock::now() - kept_at_).count() >= seconds;
}

llvm::Error FolderSink::Keep() {
  if (!options_.keep) return llvm::Error::success();
  UCP_RETURN_IF_ERROR(target_.MakeDurable(parallel_));
  UCP_RETURN_IF_ERROR(options_.keep(SaveProgress()));
  kept_ = ChunksDone();
  kept_at_ = Clock::now();
  return llvm::Error::success();
}

// An interrupt of one rank stops all, and all keep what they have.
llvm::Error FolderSink::KeepUnfinished(Engine&) { return ChunksDone() > kept_ ? Keep() : llvm::Error::success(); }

std::uint64_t FolderSink::ChunksDone() const {
  return std::accumulate(
      stretches_.begin(), stretches_.end(), std::uint64_t{0},
      [](std::uint64_t before, const WorkStretch& stretch) { return before + (stretch.next - stretch.begin); });
}

// The work of earlier runs is in the leader's entry.
std::vector<ElementInterval> FolderSink::Done() const {
  std::vector<ElementInterval> done = is_leader() ? done_before_ : std::vector<ElementInterval>();
  for (const WorkStretch& stretch : stretches_) {
    if (stretch.next > stretch.begin) work_.AddElements(stretch.begin, stretch.next, done);
  }
  Unite(done);
  return done;
}

void FolderSink::RestoreProgress(wire::ByteReader& reader) {
  engine_.RestoreTimes(reader);
  target_.RestoreFiles(reader);
  if (!is_leader()) return;
  engine_.RestoreSums(reader);
  target_.Restore(reader);
}

std::string FolderSink::SaveProgress() const {
  wire::ByteWriter writer;
  ucp::Save(Done(), writer);
  engine_.SaveTimes(writer);
  target_.SaveFiles(writer);
  engine_.SaveSums(writer);
  target_.Save(writer);
  return writer.bytes();
}

void FolderSink::Save(wire::ByteWriter& writer) const {
  writer.Add(target_.bytes_written());
  writer.Add(bytes_before_);
  target_.Save(writer);
}

void FolderSink::Take(int rank, wire::ByteReader& reader) {
  written_by_others_ += reader.Number();
  before_of_others_ += reader.Number();
  if (parts_ != nullptr && !copies_) copies_.emplace(SizesOf(plan_.target.files));
  TakeFileSums(reader, plan_.target.files.size(), [&](std::size_t file) -> FileSums& {
    const bool counts = parts_ == nullptr || parts_->CountingPart(FileId(file)) == parts_->PartOf(rank);
    return counts ? target_.sums() : *copies_;
  });
}

// An earlier part counted what this one copies.
llvm::Error FolderSink::EndPart(int part) {
  if (!copies_) return llvm::Error::success();
  const bool is_compared = part != 0 && !parts_->IsDone(part);
  for (FileId file : is_compared ? parts_->FilesOf(part) : std::vector<FileId>()) {
    const int counting = *parts_->CountingPart(file);
    if (counting == part || copies_->Sum(file.index()) == target_.sums().Sum(file.index())) continue;
    return Fail(
        ErrorCode::kBadData,
        "`{}` came out otherwise in part {} than in part {} of {}, so the source was changed while it was read; "
        "convert again when nothing writes to it",
        plan_.target.files[file.index()].path, part + 1, counting + 1, parts_->count);
  }
  copies_.reset();
  return llvm::Error::success();
}

void FolderSink::AddTo(ExecutionReport& report) const {
  report.bytes_written = target_.bytes_written() + written_by_others_;
  report.bytes_done_before = bytes_before_ + before_of_others_;
  report.file_digests = target_.FileDigests();
  for (std::size_t file = 0; parts_ != nullptr && file < report.file_digests.size(); ++file) {
    if (!parts_->CountingPart(FileId(file))) report.file_digests[file].clear();
  }
}

}  // namespace ucp
