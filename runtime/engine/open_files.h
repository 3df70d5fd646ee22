// The files that are open at the moment. A conversion touches thousands of source files and a hundred thousand target
// files, and a process may have 1,024 open; so each kind has a bounded number, and the one that was unused longest
// gives way.
#pragma once

#include <llvm/ADT/STLFunctionalExtras.h>
#include <llvm/Support/Error.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "compiler/layout/storage.h"
#include "compiler/support/error.h"

namespace ucp {

// `File` is ReadableFile or WritableFile. Safe to use from several threads.
template <typename File>
class OpenFiles {
 public:
  using Opener = llvm::function_ref<llvm::Expected<std::unique_ptr<File>>()>;
  using Closer = llvm::Error (*)(File&);

  // `close` is called on a file that gives way. More than `most` are open only while more than that are in use at once.
  OpenFiles(std::size_t most, Closer close) : most_(most), close_(close) {}

  llvm::Expected<std::shared_ptr<File>> Get(FileId id, Opener open) {
    std::lock_guard lock(mutex_);
    if (auto found = files_.find(id); found != files_.end()) {
      found->second.last_use = ++uses_;
      return found->second.file;
    }
    while (files_.size() >= most_) {
      auto oldest = files_.end();
      for (auto it = files_.begin(); it != files_.end(); ++it) {
        bool idle = it->second.file.use_count() == 1;
        if (idle && (oldest == files_.end() || it->second.last_use < oldest->second.last_use)) oldest = it;
      }
      if (oldest == files_.end()) break;
      std::shared_ptr<File> file = std::move(oldest->second.file);
      files_.erase(oldest);
      UCP_RETURN_IF_ERROR(close_(*file));
    }
    UCP_ASSIGN_OR_RETURN(std::shared_ptr<File> opened, open());
    files_.emplace(id, Entry{opened, ++uses_});  // Whole or not at all, should there be no memory for it.
    return opened;
  }

  // Closes a file that nobody will ask for again; it need not be open.
  [[nodiscard]] llvm::Error Close(FileId id) {
    std::shared_ptr<File> file;
    {
      std::lock_guard lock(mutex_);
      auto found = files_.find(id);
      if (found == files_.end()) return llvm::Error::success();
      file = std::move(found->second.file);
      files_.erase(found);
    }
    return close_(*file);
  }

 private:
  struct Entry {
    std::shared_ptr<File> file;
    std::uint64_t last_use = 0;
  };

  const std::size_t most_;
  const Closer close_;
  std::mutex mutex_;  // Protects the two below.
  std::unordered_map<FileId, Entry> files_;
  std::uint64_t uses_ = 0;
};

}  // namespace ucp
