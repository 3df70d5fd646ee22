// Asking other ranks about their files. Several threads may ask at the same time, each for one thing.
#pragma once

#include <llvm/Support/Error.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "runtime/comm/communicator.h"
#include "runtime/peer_files/request.h"

namespace ucp {

class RemoteFiles {
 public:
  explicit RemoteFiles(Communicator& ranks);

  // Returns the views of every other rank of `path`, or in this folder if it is one, by rank; nothing for this rank
  // itself.
  llvm::Expected<std::vector<std::vector<Look>>> AskAll(RequestKind kind, const std::string& path);

  // Fills `buffer` with the rows of a file of `rank`.
  [[nodiscard]] llvm::Error Read(int rank, const std::string& path, ByteRows rows, std::span<std::byte> buffer);

  std::uint64_t bytes_received() const { return bytes_received_; }  // Of files' contents.

 private:
  class AnswerTag;

  [[nodiscard]] llvm::Error Ask(int rank, const FileRequest& request);
  llvm::Expected<std::vector<Look>> ReceiveLooks(int rank, int tag);
  llvm::Expected<AnswerHead> ReceiveHead(int rank, int tag);

  Communicator& ranks_;
  std::mutex mutex_;  // Protects `free_tags_`.
  std::vector<int> free_tags_;
  std::atomic<std::uint64_t> bytes_received_ = 0;
};

}  // namespace ucp
