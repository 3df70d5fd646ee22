#include "runtime/library/call.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/support/error.h"
#include "compiler/support/printable.h"
#include "runtime/comm/launcher.h"

namespace ucp {
namespace {

constexpr unsigned kMostThreads = 256;

ErrorKind KindOf(ErrorCode code) {
  switch (code) {
    case ErrorCode::kUsage:
      return ErrorKind::kUsage;
    case ErrorCode::kSpec:
      return ErrorKind::kSpec;
    case ErrorCode::kBadData:
      return ErrorKind::kBadData;
    case ErrorCode::kUnsupported:
      return ErrorKind::kUnsupported;
    case ErrorCode::kIo:
      return ErrorKind::kIo;
    case ErrorCode::kMemory:
      return ErrorKind::kMemory;
    case ErrorCode::kCancelled:
      return ErrorKind::kCancelled;
  }
  return ErrorKind::kIo;
}

llvm::Expected<LoadOptions> OwnOptions(const LoadSettings& settings) {
  LoadOptions options;
  UCP_ASSIGN_OR_RETURN(options.threads, ThreadsOf(settings.threads));
  options.memory_bytes = settings.memory_bytes;
  options.device_memory_bytes = settings.device_memory_bytes;
  options.check_source = settings.verify;
  options.cancelled = settings.cancelled;
  UCP_ASSIGN_OR_RETURN(options.open_files, DivideOpenFiles(OpenFileLimit(), options.threads));
  return options;
}

}  // namespace

Error::Error(ErrorKind kind, const std::string& sentence) : std::runtime_error(sentence), kind_(kind) {}
Error::~Error() = default;

void ThrowIf(llvm::Error error) {
  if (!error) return;
  const FailureText failure = TakeFailure(std::move(error));
  throw Error(KindOf(failure.code), PrintableLines(failure.message));
}

ErrorCode CodeOf(ErrorKind kind) {
  for (ErrorCode code : {ErrorCode::kUsage, ErrorCode::kSpec, ErrorCode::kBadData, ErrorCode::kUnsupported,
                         ErrorCode::kMemory, ErrorCode::kCancelled}) {
    if (KindOf(code) == kind) return code;
  }
  return ErrorCode::kIo;
}

llvm::Expected<LoadOptions> LoadOptionsOf(const LoadSettings& settings, Communicator& ranks) {
  llvm::Expected<LoadOptions> options = OwnOptions(settings);
  UCP_RETURN_IF_ERROR(Agree(ranks, options ? llvm::Error::success() : options.takeError()));
  options->ranks = &ranks;
  return options;
}

llvm::Expected<unsigned> ThreadsOf(unsigned threads) {
  if (threads <= kMostThreads) return threads == 0 ? std::min(ProcessorsOfThisRank(), kMostThreads) : threads;
  return Fail(ErrorCode::kUsage, "threads is a number from 1 to {}, or 0 for all processors, not {}", kMostThreads,
              threads);
}

LoadTotals TotalsOf(const LoadReport& report) {
  LoadTotals totals;
  totals.bytes_placed = report.bytes_placed;
  totals.bytes_read = report.bytes_read;
  totals.bytes_received = report.bytes_received;
  totals.bytes_read_by_all = report.bytes_read_by_all;
  totals.bytes_to_devices = report.bytes_to_devices;
  totals.bytes_from_gpus = report.bytes_from_peers;
  totals.why_by_hosts = Printable(report.why_by_hosts);
  totals.is_as_stored = report.is_as_stored;
  totals.seconds = report.seconds;
  totals.threads = report.threads;
  return totals;
}

}  // namespace ucp
