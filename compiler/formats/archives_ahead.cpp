#include "compiler/formats/archives_ahead.h"

#include <exception>
#include <utility>

#include "compiler/support/checksum.h"
#include "compiler/support/error.h"
#include "compiler/support/interruption.h"

namespace ucp {
namespace {

// The pickle says everything that was read to describe a file; the archive gives it up only as a tree.
llvm::Expected<std::string> HashOfPickle(const ReadableFile& file, const pytorch::FileRange& range) {
  std::string bytes(range.bytes, '\0');
  UCP_RETURN_IF_ERROR(file.ReadAt(range.offset, std::as_writable_bytes(std::span(bytes))));
  return ContentHash(bytes);
}

// Nothing if it cannot be read. An exception must not leave a thread.
std::optional<ReadHeader> TryToRead(ReadableFileSystem& files, const std::string& path, pytorch::PickleCache& cache) {
  try {
    llvm::Expected<ReadHeader> header = ReadHeaderOf(files, path, cache);
    if (header) return std::move(*header);
    llvm::consumeError(header.takeError());
  } catch (const std::exception&) {  // Such as too little memory.
  }
  return std::nullopt;
}

}  // namespace

llvm::Expected<ReadHeader> ReadHeaderOf(ReadableFileSystem& files, const std::string& path,
                                        pytorch::PickleCache& cache) {
  ReadHeader header;
  UCP_ASSIGN_OR_RETURN(header.readable, files.OpenForReading(path));
  pytorch::ArchiveOptions options;
  options.cache = &cache;
  UCP_ASSIGN_OR_RETURN(header.archive, pytorch::ReadArchive(*header.readable, options));
  UCP_ASSIGN_OR_RETURN(header.hash, HashOfPickle(*header.readable, header.archive.pickle_data));
  return header;
}

ArchivesAhead::ArchivesAhead(ReadableFileSystem& files, pytorch::PickleCache& cache, std::vector<std::string> paths,
                             unsigned helpers)
    : files_(files), cache_(cache), most_held_(std::size_t{2} * helpers) {
  for (std::string& path : paths) {
    number_of_path_.emplace(path, all_.size());
    all_.push_back({std::move(path)});
  }
  helpers_.reserve(helpers);  // Where no helper waits yet: they are joined only once they know that it is over.
  for (unsigned helper = 0; helper < helpers; ++helper) {
    try {
      helpers_.emplace_back([this, interrupted = HeededInterrupts()] {
        HeedInterrupts(interrupted);
        Help();
      });
    } catch (const std::exception&) {
      break;  // The system has no more threads to give, or no memory for one.
    }
  }
}

ArchivesAhead::~ArchivesAhead() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
}

ArchivesAhead::File* ArchivesAhead::Next() {
  while (next_ < all_.size() && all_[next_].progress != Progress::kWaiting) ++next_;
  return next_ < all_.size() && held_ < most_held_ ? &all_[next_] : nullptr;
}

void ArchivesAhead::Help() {
  std::unique_lock lock(mutex_);
  while (true) {
    File* file = nullptr;
    changed_.wait(lock, [&] { return stop_ || (file = Next()) != nullptr || next_ == all_.size(); });
    if (stop_ || file == nullptr) return;
    file->progress = Progress::kBegun;
    ++held_;
    lock.unlock();
    std::optional<ReadHeader> header = TryToRead(files_, file->path, cache_);
    lock.lock();
    file->header = std::move(header);
    file->progress = Progress::kDone;
    changed_.notify_all();
  }
}

std::optional<ReadHeader> ArchivesAhead::Take(const std::string& path) {
  const auto number = number_of_path_.find(path);
  if (number == number_of_path_.end()) return std::nullopt;
  std::unique_lock lock(mutex_);
  File& file = all_[number->second];
  changed_.wait(lock, [&] { return file.progress != Progress::kBegun; });
  if (std::exchange(file.progress, Progress::kTaken) != Progress::kDone) return std::nullopt;
  --held_;
  changed_.notify_all();
  return std::exchange(file.header, std::nullopt);
}

}  // namespace ucp
