// The service of a rank for the others while it works itself: it looks at its files and reads them, and sends the bytes
// that were asked for. Two threads do it, so that one reads while the other sends; each has one piece in memory at a
// time. They never ask anything of others, so nobody waits in a circle.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "compiler/files/readable_file_system.h"
#include "runtime/comm/communicator.h"
#include "runtime/engine/open_files.h"
#include "runtime/peer_files/request.h"

namespace ucp {

class FileServer {
 public:
  // Serves from now on.
  FileServer(Communicator& ranks, ReadableFileSystem& files);
  // Nobody may ask any more: all ranks have said so to one another.
  ~FileServer();

  static std::uint64_t MemoryBytes();

 private:
  struct Buffers {
    std::vector<std::byte> piece;
    std::vector<std::byte> window;
  };

  void Serve();
  [[nodiscard]] llvm::Error Answer(const Message& message, Buffers& buffers);
  llvm::Expected<std::vector<Look>> LookAt(const FileRequest& request);
  [[nodiscard]] llvm::Error SendRows(int to, const FileRequest& request, Buffers& buffers);
  [[nodiscard]] llvm::Error SendPiece(int to, int tag, AnswerHead head, std::span<const std::byte> bytes);
  llvm::Expected<std::shared_ptr<ReadableFile>> Open(const std::string& path);

  Communicator& ranks_;
  ReadableFileSystem& files_;
  OpenFiles<ReadableFile> open_;
  std::mutex mutex_;  // Protects `ids_`.
  std::unordered_map<std::string, FileId> ids_;
  std::atomic<bool> is_over_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace ucp
