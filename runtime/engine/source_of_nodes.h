// A source of which each node sees a part: the interface that the executor needs of it. runtime/peer_files has the one
// that is used.
#pragma once

#include <llvm/ADT/STLFunctionalExtras.h>
#include <llvm/ADT/SmallVector.h>
#include <llvm/Support/Error.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "compiler/files/readable_file_system.h"
#include "compiler/layout/storage.h"

namespace ucp {

// Rows of bytes in a file, all of one length, at regular distances: those of a slice of a tensor.
struct ByteRows {
  struct Loop {
    std::uint64_t count = 0;
    std::uint64_t stride_bytes = 0;
  };

  std::uint64_t offset = 0;  // Of the first row.
  std::uint64_t row_bytes = 0;
  llvm::SmallVector<Loop, 5> loops;  // Innermost first.
};

// Calls `visit` with where each row begins.
void ForEachRow(const ByteRows& rows, llvm::function_ref<void(std::uint64_t offset)> visit);

class SourceOfNodes {
 public:
  virtual ~SourceOfNodes() = default;

  // Returns all nodes' files together.
  virtual ReadableFileSystem& files() = 0;

  // Returns whether this rank does not see the file, so that others read it for this one.
  virtual bool IsElsewhere(FileId file) const = 0;

  // The rows of a file elsewhere, one after the other, which are as many bytes as `packed` has and kMostPackedBytes at
  // most. Nothing else is sent.
  static constexpr std::uint64_t kMostPackedBytes = std::uint64_t{1} << 20;
  [[nodiscard]] virtual llvm::Error ReadRows(FileId file, const ByteRows& rows, std::span<std::byte> packed) = 0;

  // Returns the bytes of files' contents that came from other ranks.
  virtual std::uint64_t bytes_received() const = 0;

  // Returns whether it is this rank that checks the file at the end; of those that see it, one does.
  virtual bool AnswersFor(FileId file) const = 0;
};

}  // namespace ucp
