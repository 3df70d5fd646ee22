// A file system that has, beside all files of another one, a folder of files in memory: the segments of a job's ranks.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>

#include "runtime/job_state/job_state.h"
#include "runtime/save/remote_memory.h"
#include "runtime/storage/forwarding_file_system.h"

namespace ucp {

class SegmentFiles : public ForwardingFileSystem {
 public:
  // `folder` is the path of no other file. `others` must outlive this.
  SegmentFiles(FileSystem& others, std::string folder) : ForwardingFileSystem(others), folder_(std::move(folder)) {}

  // The memory must stay; its content may change while nobody reads it.
  void Add(const std::string& name, std::span<const std::byte> memory);
  // A file of so many waves, which are in the memory one after another.
  void Add(const std::string& name, std::span<const std::byte> memory, const StagingWaves& waves);
  void Add(const std::string& name, const RemoteMemory& memory, std::uint64_t bytes);
  void AddZeros(const std::string& name, std::uint64_t bytes);
  void Remove(const std::string& name);
  // This wave of all files is in their memory; the first until this is called. Only while nobody reads.
  void SetWave(std::uint64_t wave) { wave_ = wave; }

  llvm::Expected<std::unique_ptr<ReadableFile>> OpenForReading(const std::string& path) override;
  llvm::Expected<PathKind> Kind(const std::string& path) override;
  llvm::Expected<FileStatus> Status(const std::string& path) override;

 private:
  struct Content {
    std::uint64_t bytes = 0;
    std::span<const std::byte> memory;     // Empty: zeros.
    const RemoteMemory* remote = nullptr;  // In place of `memory`.
    StagingWaves waves = {};
  };
  class File;
  const Content* Find(const std::string& path) const;

  const std::string folder_;
  std::map<std::string, Content> contents_;  // By the whole path.
  std::atomic<std::uint64_t> wave_ = 0;
};

}  // namespace ucp
