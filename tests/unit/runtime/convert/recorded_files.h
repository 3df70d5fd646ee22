// A file system in memory that remembers every change, in order, and what was synced when. From that it makes the file
// systems that a power cut can leave: changes that were not synced may have been done, lost, or done wrongly, each for
// itself.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "runtime/storage/file_system.h"

namespace ucp {

enum class Fate { kDone, kLost, kGarbled };

class RecordedFiles : public FileSystem {
 public:
  RecordedFiles();

  // With all folders on the way, as if it had been there for ever.
  void Put(const std::string& path, const std::string& content);
  // The contents of all files below a folder, by their path there.
  std::map<std::string, std::string> FilesUnder(const std::string& folder);

  std::size_t changes() const { return log_.size(); }
  // The files that are left if the power goes after this many changes. `fate` is asked for those that were not synced.
  std::unique_ptr<RecordedFiles> AfterPowerCut(std::size_t changes, const std::function<Fate(std::size_t)>& fate) const;

  // The process that changes files is killed after this many changes: from then on all it tries fails, and what it did
  // is there and not durable. Another process begins with Revive().
  void KillAfter(std::size_t changes) { dies_after_ = changes; }
  void Revive();

  bool can_exchange = true;
  bool can_sync_whole = false;  // True: even a few files are.
  bool inodes_last = true;      // False: like a file system that makes them up.

  llvm::Expected<std::unique_ptr<ReadableFile>> OpenForReading(const std::string& path) override;
  llvm::Expected<std::unique_ptr<WritableFile>> CreateForWriting(const std::string& path, std::uint64_t bytes) override;
  llvm::Expected<std::unique_ptr<WritableFile>> OpenForWriting(const std::string& path) override;
  llvm::Expected<PathKind> Kind(const std::string& path) override;
  llvm::Expected<FileStatus> Status(const std::string& path) override;
  llvm::Expected<std::vector<DirectoryEntry>> List(const std::string& path) override;
  llvm::Error MakeDirectory(const std::string& path) override;
  llvm::Error SyncDirectory(const std::string& path) override;
  llvm::Expected<std::unique_ptr<WholeSync>> OpenWholeSync(const std::string& folder) override;
  llvm::Error Rename(const std::string& from, const std::string& to) override;
  llvm::Error Exchange(const std::string& a, const std::string& b) override;
  llvm::Error RemoveTree(const std::string& path) override;
  llvm::Expected<std::uint64_t> FreeBytes(const std::string& directory) override;
  llvm::Expected<bool> IsWritable(const std::string& directory) override;
  llvm::Expected<std::unique_ptr<FileLock>> TryLock(const std::string& path) override;

 private:
  class Reading;
  class Writing;
  class Lock;
  class Whole;
  using NodeId = std::size_t;  // 0 is none.

  struct Node {
    bool is_directory = false;
    std::uint64_t inode = 0;  // The smallest that nothing has; what is removed leaves its own to others.
    std::string content;
    std::map<std::string, NodeId> entries;
  };

  // One change, to one node; or that all changes to it, or to all nodes, until here are durable.
  struct Change {
    enum class Kind { kNames, kSize, kWrite, kSync, kSyncAll } kind = Kind::kSync;
    NodeId node = 0;
    std::map<std::string, NodeId> names;  // kNames: 0 takes the name away.
    std::uint64_t offset = 0;             // kWrite, and the size of kSize.
    std::string bytes;
  };

  // A name in a folder that is there; `node` is 0 if nothing has the name.
  struct Place {
    NodeId folder = 0;
    std::string name;
    NodeId node = 0;
  };

  Place Find(const std::string& path) const;
  llvm::Expected<NodeId> FindDirectory(const std::string& path) const;
  NodeId Add(bool is_directory);
  llvm::Error CheckAlive() const;
  void Make(Change change);
  static void Apply(std::vector<Node>& nodes, const Change& change);
  void RemoveBelow(NodeId folder, const std::string& name);

  mutable std::mutex mutex_;  // Protects all below.
  std::vector<Node> nodes_;
  std::vector<Node> before_;  // The nodes without all that is logged.
  std::vector<Change> log_;
  std::set<std::string> held_;
  std::size_t dies_after_ = static_cast<std::size_t>(-1);
};

}  // namespace ucp
