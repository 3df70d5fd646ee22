// The sums of an execution while chunks go by: they are kept with what is done, comes together at rank 0 at the end,
// and says then whether the source was what it promised to be.
//
// Where a target is in parts, what several of them have is written in each, and enters the sums in one. Of the others,
// rank 0 compares what was written with that: a source that changed between two copies of a file is noticed.
#include <algorithm>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>

#include "compiler/support/error.h"
#include "compiler/support/peak_memory.h"
#include "runtime/digest/sums_codec.h"
#include "runtime/executor/execution.h"

namespace ucp {
namespace {

// Checks that a rank's message was read to its end.
llvm::Error CheckFits(int rank, const wire::ByteReader& reader, std::size_t bytes) {
  if (reader.is_at_end()) return llvm::Error::success();
  return Fail(ErrorCode::kIo,
              "rank {} sent {} bytes about what it has done that do not fit this plan; all ranks must run the same ucp",
              rank, bytes);
}

}  // namespace

void Execution::Restore(wire::ByteReader& reader) {
  source_.RestoreTimes(reader);
  target_.RestoreFiles(reader);
  if (is_leader()) RestoreSums(reader);
}

std::string Execution::Save() const {
  wire::ByteWriter writer;
  ucp::Save(Done(), writer);
  source_.SaveTimes(writer);
  target_.SaveFiles(writer);
  SaveSums(writer);
  return writer.bytes();
}

void Execution::SaveSums(wire::ByteWriter& writer) const {
  source_.Save(writer);
  comparison_.Save(writer);
  digests_.Save(writer);
  target_.Save(writer);
}

void Execution::RestoreSums(wire::ByteReader& reader) {
  source_.Restore(reader);
  comparison_.Restore(reader);
  digests_.Restore(reader);
  target_.Restore(reader);
}

llvm::Expected<ExecutionReport> Execution::Report() const {
  ExecutionReport report;
  report.bytes_copied = source_.bytes_read(ReadReason::kCopy) + others_.bytes_copied;
  report.bytes_compared = source_.bytes_read(ReadReason::kCompare) + others_.bytes_compared;
  report.bytes_checksummed = source_.bytes_read(ReadReason::kChecksum) + others_.bytes_checksummed;
  report.bytes_written = target_.bytes_written() + others_.bytes_written;
  report.bytes_done_before = bytes_before_ + others_.bytes_done_before;
  report.bytes_exchanged = others_.bytes_exchanged;
  report.buffer_bytes = buffers_.bytes() + others_.buffer_bytes;
  report.peak_memory_bytes = std::max(PeakMemoryBytes(), others_.peak_memory_bytes);
  report.rounding_mismatches = comparison_.rounding_mismatches();
  report.decisions = comparison_.decisions();
  if (comparison_.skipped_checks()) {
    report.notes.push_back(
        "some model weights were not compared with their masters: only float32, float16 and bfloat16 weights of "
        "float32 masters are");
  }
  UCP_ASSIGN_OR_RETURN(report.digests, digests_.Get(parallel_.threads));
  report.file_digests = target_.FileDigests();
  for (std::size_t file = 0; parts_ != nullptr && file < report.file_digests.size(); ++file) {
    if (!parts_->CountingPart(FileId(file))) report.file_digests[file].clear();
  }
  return report;
}

// The sums of the other ranks count as if rank 0 had made them.
llvm::Error Execution::Gather() {
  if (ranks_.size() == 1) return llvm::Error::success();
  wire::ByteWriter writer;
  if (ranks_.rank() != 0) {
    for (ReadReason reason : {ReadReason::kCopy, ReadReason::kCompare, ReadReason::kChecksum}) {
      writer.Add(source_.bytes_read(reason));
    }
    writer.Add(target_.bytes_written());
    writer.Add(buffers_.bytes());
    writer.Add(bytes_before_);
    writer.Add(PeakMemoryBytes());
    source_.SaveTimes(writer);
    SaveSums(writer);
  }
  UCP_ASSIGN_OR_RETURN(const std::vector<std::string> all, ranks_.AllGather(writer.bytes()));
  return ranks_.rank() == 0 ? TakeAll(all) : llvm::Error::success();
}

// Part by part: what one copies was counted by an earlier one.
llvm::Error Execution::TakeAll(const std::vector<std::string>& all) {
  auto part_of = [&](int rank) { return parts_ == nullptr ? 0 : parts_->PartOf(rank); };
  std::vector<int> order(all.size() - 1);
  std::iota(order.begin(), order.end(), 1);
  std::ranges::stable_sort(order, {}, part_of);
  const auto none = [&] { return std::make_unique<FileSums>(SizesOf(plan_.target.files)); };
  std::unique_ptr<FileSums> copies = none();
  for (std::size_t i = 0; i < order.size(); ++i) {
    UCP_RETURN_IF_ERROR(TakeOne(order[i], all[static_cast<std::size_t>(order[i])], *copies));
    const int part = part_of(order[i]);
    if (part == 0 || (i + 1 < order.size() && part_of(order[i + 1]) == part)) continue;
    UCP_RETURN_IF_ERROR(CheckCopies(part, *copies));
    copies = none();
  }
  return llvm::Error::success();
}

llvm::Error Execution::TakeOne(int rank, const std::string& given, FileSums& copies) {
  wire::ByteReader reader(given);
  for (std::uint64_t* bytes : {&others_.bytes_copied, &others_.bytes_compared, &others_.bytes_checksummed,
                               &others_.bytes_written, &others_.buffer_bytes, &others_.bytes_done_before}) {
    *bytes += reader.Number();
  }
  others_.peak_memory_bytes = std::max(others_.peak_memory_bytes, reader.Number());
  source_.RestoreTimes(reader);
  source_.Restore(reader);
  comparison_.Restore(reader);
  digests_.Restore(reader);
  TakeFileSums(reader, copies.size(), [&](std::size_t file) -> FileSums& {
    const bool counts = parts_ == nullptr || parts_->CountingPart(FileId(file)) == parts_->PartOf(rank);
    return counts ? target_.sums() : copies;
  });
  return CheckFits(rank, reader, given.size());
}

llvm::Error Execution::CheckCopies(int part, const FileSums& copies) const {
  if (parts_->IsDone(part)) return llvm::Error::success();
  for (FileId file : parts_->FilesOf(part)) {
    const int counting = *parts_->CountingPart(file);
    if (counting == part || copies.Sum(file.index()) == target_.sums().Sum(file.index())) continue;
    return Fail(
        ErrorCode::kBadData,
        "`{}` came out otherwise in part {} than in part {} of {}, so the source was changed while it was read; "
        "convert again when nothing writes to it",
        plan_.target.files[file.index()].path, part + 1, counting + 1, parts_->count);
  }
  return llvm::Error::success();
}

llvm::Error Execution::CheckSource() {
  UCP_RETURN_IF_ERROR(source_.CheckChecksums(parallel_, buffers_.scratch()));
  return source_.CheckUnchanged(parallel_);
}

// Each rank checks the files that it answers for, by what all of them read.
llvm::Error Execution::CheckSourceOfNodes() {
  wire::ByteWriter read;
  if (ranks_.rank() == 0) {
    source_.SaveTimes(read);
    source_.Save(read);
  }
  UCP_ASSIGN_OR_RETURN(std::string by_all, FromFirstRank(ranks_, read.bytes()));
  auto take = [&]() -> llvm::Error {
    wire::ByteReader reader(by_all);
    source_.RestoreTimes(reader);
    source_.Restore(reader);
    return CheckFits(0, reader, by_all.size());
  };
  UCP_RETURN_IF_ERROR(Agree(ranks_, ranks_.rank() == 0 ? llvm::Error::success() : take()));
  const std::uint64_t checksummed_before = source_.bytes_read(ReadReason::kChecksum);
  UCP_RETURN_IF_ERROR(Agree(ranks_, CheckSource()));
  wire::ByteWriter counted;
  counted.Add(ranks_.rank() == 0 ? 0 : source_.bytes_read(ReadReason::kChecksum) - checksummed_before);
  counted.Add(options_.nodes->bytes_received());
  UCP_ASSIGN_OR_RETURN(std::vector<std::string> all, ranks_.AllGather(counted.bytes()));
  for (const std::string& of_rank : all) {
    wire::ByteReader reader(of_rank);
    others_.bytes_checksummed += reader.Number();
    others_.bytes_exchanged += reader.Number();
  }
  return llvm::Error::success();
}

}  // namespace ucp
