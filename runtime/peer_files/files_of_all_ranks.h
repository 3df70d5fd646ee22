// The files of all ranks as one file system to read from: each rank reads the files that it sees itself, and asks
// another rank for the others.
//
// Where ranks see files of the same name on nodes of their own, the lowest rank's is read, by all: copies need not be
// equal in everything, and one file is then one file. A rank does not ask again about a path that it knows; a file that
// changes meanwhile is noticed by the rank that answers for it.
//
// From Start() to the end every rank serves the others. It ends together: no rank may destroy this before all have come
// to a common call (Agree()) after which nobody reads.
#pragma once

#include <llvm/Support/Error.h>

#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/comm/communicator.h"
#include "runtime/engine/source_of_nodes.h"
#include "runtime/peer_files/file_place.h"
#include "runtime/peer_files/file_server.h"
#include "runtime/peer_files/remote_files.h"

namespace ucp {

class FilesOfAllRanks : public SourceOfNodes, private ReadableFileSystem {
 public:
  // All ranks call it together. `files`, which must outlive the result, are those that this rank sees. Fails on every
  // rank if there is only one, or if MPI's library cannot carry messages between threads (kUsage). `reads_headers`:
  // whether more is asked for than is needed at once, until Locate() was called.
  static llvm::Expected<std::unique_ptr<FilesOfAllRanks>> Start(Communicator& ranks, ReadableFileSystem& files,
                                                                bool reads_headers = true);

  // Finds out which rank sees which file. All ranks call it together, with the same files. Call it before the functions
  // that take a FileId.
  [[nodiscard]] llvm::Error Locate(const std::string& root, const std::vector<StoredFile>& source_files);

  ReadableFileSystem& files() override { return *this; }
  bool IsElsewhere(FileId file) const override { return !Holds(places_of_source_[file.index()]); }
  [[nodiscard]] llvm::Error ReadRows(FileId file, const ByteRows& rows, std::span<std::byte> packed) override;
  bool AnswersFor(FileId file) const override;

  // Returns the memory that this object takes, once Locate() was called.
  std::uint64_t MemoryBytes() const;
  std::uint64_t bytes_received() const override { return remote_.bytes_received(); }

 private:
  class RemoteFile;

  FilesOfAllRanks(Communicator& ranks, ReadableFileSystem& mine, bool reads_headers)
      : ranks_(ranks), mine_(mine), reads_headers_(reads_headers), remote_(ranks) {}

  llvm::Expected<FilePlace> Find(const std::string& path);
  llvm::Expected<std::vector<PathStatus>> AskForStatus(const std::string& path);
  bool Holds(const FilePlace& place) const;
  int Reader(const FilePlace& place) const;

  llvm::Expected<std::unique_ptr<ReadableFile>> OpenForReading(const std::string& path) override;
  llvm::Expected<PathKind> Kind(const std::string& path) override;
  llvm::Expected<FileStatus> Status(const std::string& path) override;
  llvm::Expected<std::vector<DirectoryEntry>> List(const std::string& path) override;

  Communicator& ranks_;
  ReadableFileSystem& mine_;
  const bool reads_headers_;
  RemoteFiles remote_;
  std::vector<int> node_of_rank_;
  std::mutex mutex_;  // Protects `places_`.
  std::unordered_map<std::string, FilePlace> places_;
  std::vector<std::string> paths_of_source_;  // By FileId, and the next one too.
  std::vector<FilePlace> places_of_source_;
  std::unique_ptr<FileServer> server_;  // Last: it works with all of the above.
};

}  // namespace ucp
