// The sums of a run while elements go by: a folder keeps them with what is done; they come together at rank 0 at the
// end, and say then whether the source was what it promised to be.
#include <algorithm>
#include <numeric>
#include <utility>

#include "compiler/support/error.h"
#include "compiler/support/peak_memory.h"
#include "runtime/engine/engine.h"

namespace ucp {
namespace {

constexpr ReadReason kReasons[] = {ReadReason::kCopy, ReadReason::kCompare, ReadReason::kChecksum};

// Checks that a rank's message was read to its end.
llvm::Error CheckFits(int rank, const wire::ByteReader& reader, std::size_t bytes) {
  if (reader.is_at_end()) return llvm::Error::success();
  return Fail(ErrorCode::kIo,
              "rank {} sent {} bytes about what it has done that do not fit this plan; all ranks must run the same ucp",
              rank, bytes);
}

}  // namespace

std::uint64_t Engine::BytesRead() const {
  std::uint64_t bytes = 0;
  for (ReadReason reason : kReasons) bytes += source_.bytes_read(reason);
  return bytes;
}

void Engine::SaveSums(wire::ByteWriter& writer) const {
  source_.Save(writer);
  comparison_.Save(writer);
  if (digests_) digests_->Save(writer);
}

void Engine::RestoreSums(wire::ByteReader& reader) {
  source_.Restore(reader);
  comparison_.Restore(reader);
  if (digests_) digests_->Restore(reader);
}

llvm::Expected<EngineReport> Engine::Report() const {
  EngineReport report;
  report.bytes_copied = source_.bytes_read(ReadReason::kCopy) + others_.bytes_copied;
  report.bytes_compared = source_.bytes_read(ReadReason::kCompare) + others_.bytes_compared;
  report.bytes_checksummed = source_.bytes_read(ReadReason::kChecksum) + others_.bytes_checksummed;
  report.bytes_exchanged = others_.bytes_exchanged;
  report.threads = parallel_.threads;
  report.buffer_bytes = buffers_.bytes() + others_.buffer_bytes;
  report.peak_memory_bytes = std::max(PeakMemoryBytes(), others_.peak_memory_bytes);
  report.rounding_mismatches = comparison_.rounding_mismatches();
  report.decisions = comparison_.decisions();
  if (comparison_.skipped_checks()) {
    report.notes.push_back(
        "some model weights were not compared with their masters: only float32, float16 and bfloat16 weights of "
        "float32 masters are");
  }
  if (digests_) {
    UCP_ASSIGN_OR_RETURN(report.digests, digests_->Get(parallel_.threads));
  }
  return report;
}

// The sums of the other ranks count as if rank 0 had made them. Every rank learns how much all have read.
llvm::Error Engine::Gather(Sink& sink) {
  if (ranks_.size() == 1) return llvm::Error::success();
  wire::ByteWriter writer;
  for (ReadReason reason : kReasons) writer.Add(source_.bytes_read(reason));
  writer.Add(buffers_.bytes());
  writer.Add(PeakMemoryBytes());
  if (ranks_.rank() != 0) {
    if (checks_.every_rank_looks) source_.SaveTimes(writer);
    SaveSums(writer);
    sink.Save(writer);
  }
  UCP_ASSIGN_OR_RETURN(const std::vector<std::string> all, ranks_.AllGather(writer.bytes()));
  return Agree(ranks_, TakeAll(sink, all));
}

llvm::Error Engine::TakeAll(Sink& sink, const std::vector<std::string>& all) {
  std::vector<int> order(all.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, {}, [&](int rank) { return sink.PartOf(rank); });
  for (std::size_t i = 0; i < order.size(); ++i) {
    const int rank = order[i];
    if (rank != ranks_.rank()) UCP_RETURN_IF_ERROR(TakeOne(sink, rank, all[static_cast<std::size_t>(rank)]));
    const int part = sink.PartOf(rank);
    const bool is_last = i + 1 == order.size() || sink.PartOf(order[i + 1]) != part;
    if (is_last && ranks_.rank() == 0) UCP_RETURN_IF_ERROR(sink.EndPart(part));
  }
  return llvm::Error::success();
}

llvm::Error Engine::TakeOne(Sink& sink, int rank, const std::string& given) {
  wire::ByteReader reader(given);
  EngineReport of_rank;
  for (std::uint64_t* bytes : {&of_rank.bytes_copied, &of_rank.bytes_compared, &of_rank.bytes_checksummed,
                               &of_rank.buffer_bytes, &of_rank.peak_memory_bytes}) {
    *bytes = reader.Number();
  }
  read_by_others_ += of_rank.bytes_copied + of_rank.bytes_compared + of_rank.bytes_checksummed;
  if (ranks_.rank() != 0) {
    return reader.has_failed() ? CheckFits(rank, reader, given.size()) : llvm::Error::success();
  }
  others_.bytes_copied += of_rank.bytes_copied;
  others_.bytes_compared += of_rank.bytes_compared;
  others_.bytes_checksummed += of_rank.bytes_checksummed;
  others_.buffer_bytes += of_rank.buffer_bytes;
  others_.peak_memory_bytes = std::max(others_.peak_memory_bytes, of_rank.peak_memory_bytes);
  if (checks_.every_rank_looks) source_.RestoreTimes(reader);
  RestoreSums(reader);
  sink.Take(rank, reader);
  return CheckFits(rank, reader, given.size());
}

llvm::Error Engine::CheckSource() {
  UCP_RETURN_IF_ERROR(source_.CheckChecksums(parallel_, buffers_.scratch()));
  return source_.CheckUnchanged(parallel_);
}

// Each rank checks the files that it answers for, by what all of them read.
llvm::Error Engine::CheckSourceOfNodes() {
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
  counted.Add(nodes_->bytes_received());
  UCP_ASSIGN_OR_RETURN(std::vector<std::string> all, ranks_.AllGather(counted.bytes()));
  for (const std::string& of_rank : all) {
    wire::ByteReader reader(of_rank);
    others_.bytes_checksummed += reader.Number();
    others_.bytes_exchanged += reader.Number();
  }
  return llvm::Error::success();
}

}  // namespace ucp
