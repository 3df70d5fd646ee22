// Archives that other threads read before they are asked for: while one file's tensors are entered into the inventory,
// the headers of the next ones are read. The result is that of reading one after the other, errors included.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "compiler/files/readable_file_system.h"
#include "compiler/formats/pytorch/archive/archive_reader.h"

namespace ucp {

struct ReadHeader {
  std::unique_ptr<ReadableFile> readable;
  pytorch::Archive archive;
  std::string hash;  // ContentHash of its pickle.
};

llvm::Expected<ReadHeader> ReadHeaderOf(ReadableFileSystem& files, const std::string& path,
                                        pytorch::PickleCache& cache);

class ArchivesAhead {
 public:
  // Begins to read `paths` in this order, with `helpers` threads, a few files ahead of Take(). The file system and the
  // cache must outlive this.
  ArchivesAhead(ReadableFileSystem& files, pytorch::PickleCache& cache, std::vector<std::string> paths,
                unsigned helpers);
  ~ArchivesAhead();

  // Returns the data that was read of a file, once. Nothing: nobody has begun it, and nobody will; or it could not be
  // read, and reading it again says why.
  std::optional<ReadHeader> Take(const std::string& path);

 private:
  enum class Progress { kWaiting, kBegun, kDone, kTaken };
  struct File {
    std::string path;
    Progress progress = Progress::kWaiting;
    std::optional<ReadHeader> header = {};
  };

  void Help();
  File* Next();  // Null: there is none, or no more may be held.

  ReadableFileSystem& files_;
  pytorch::PickleCache& cache_;
  const std::size_t most_held_;
  std::mutex mutex_;  // Protects what follows.
  std::condition_variable changed_;
  std::vector<File> all_;
  std::unordered_map<std::string, std::size_t> number_of_path_;
  std::size_t next_ = 0;  // All before are begun or taken.
  std::size_t held_ = 0;  // Begun, and not taken.
  bool stop_ = false;
  std::vector<std::jthread> helpers_;
};

}  // namespace ucp
