// Whether large files are read, and written, through the page cache or past it: a moment's trial of both, with the very
// files and the very folder. The faster way depends on the storage, on other work of the machine, and on whether the
// system has the files in memory already; so it is measured and not known.
#pragma once

#include <llvm/Support/Error.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/storage/file_system.h"

namespace ucp {

// As it is asked for, or as a trial shows.
enum class IoMode { kAuto, kBuffered, kDirect };

struct TrialOptions {
  unsigned threads = 1;                                   // That will move files.
  std::uint64_t memory_bytes = std::uint64_t{1} << 30;    // The most to take for it.
  std::uint64_t least_bytes = std::uint64_t{256} << 20;   // To be written; for less no trial pays.
  std::uint64_t piece_bytes = std::uint64_t{2} << 20;     // At a time.
  std::uint64_t stretch_bytes = std::uint64_t{32} << 20;  // That a thread reads in one way. Whole pieces.
  double seconds = 0.1;                                   // No round is begun after.
  const std::atomic<bool>* cancelled = nullptr;
};

// Past the page cache nothing is read ahead or written behind while a thread works, which a trial does not show: it
// must be better by this.
inline constexpr double kLeastGainOfReading = 1.25;
inline constexpr double kLeastGainOfWriting = 1.1;

struct IoChoice {
  bool directly = false;
  std::string reason;  // "4.2 GB/s past the page cache and 2.2 GB/s through it, in 32 pieces of 2.1 MB"
  double buffered_bytes_per_second = 0;  // Zero: no trial.
  double direct_bytes_per_second = 0;
};

struct FileToRead {
  std::string path;
  std::uint64_t bytes = 0;
};

// `bytes` of these files are to be read; no trial pays for less than four times the bytes that one round reads. Files
// that are in the page cache already, at every place that a trial would read, are read from there. So are those that
// cannot be tried; faults of the files show when they are read.
IoChoice ChooseReading(FileSystem& files, const std::vector<FileToRead>& to_read, std::uint64_t bytes,
                       const TrialOptions& options);

// `bytes` are to be written. A file is made in `folder` for a moment. Fails with kIo if it is left there.
llvm::Expected<IoChoice> ChooseWriting(FileSystem& files, const std::string& folder, std::uint64_t bytes,
                                       const TrialOptions& options);
// The remains of a trial during which a run was stopped.
[[nodiscard]] llvm::Error RemoveTrial(FileSystem& files, const std::string& folder);

}  // namespace ucp
