// The progress that an unfinished folder can be believed for, kept beside it so that a later run can go on:
// `parent/.NAME.ucp-journal-0` and `-1`. Each holds one entry, and they take turns: while one is written, the other is
// whole.
//
//   J1  An entry is written only after all that it vouches for is durable; its writer knows what it is.
//   J2  An entry is whole or does not count: it ends with a hash of itself.
//   J3  An entry names the folder that it speaks of by its inode, and not by its name: a commit that exchanges two
//       folders leaves the old one under the hidden name, and no entry vouches for that. That the folder has its name
//       is durable before the first entry is written: an earlier folder may have had the same inode. Where the file
//       system makes inodes up, an entry is about the folder with the hidden name, and is removed, durably, before two
//       folders are exchanged: a run that is killed between the two is begun again.
//
// J4, of several ranks, is in ranks_folder.h; for it an entry names its run.
#pragma once

#include <llvm/Support/Error.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "runtime/storage/file_system.h"

namespace ucp {

struct JournalEntry {
  std::uint64_t run = 0;  // How many runs before had gone on from one another.
  std::string text;
};

class Journal {
 public:
  // `base` is the path without "-0" and "-1", in the folder `parent`. `files` must outlive this.
  Journal(FileSystem& files, std::string parent, std::string base);

  // Returns the newest whole entry about the folder with this inode. An entry that cannot be read does not count.
  std::optional<JournalEntry> Find(std::uint64_t folder_inode);

  // Durable when this returns. Entries are those of one folder.
  [[nodiscard]] llvm::Error Write(std::uint64_t folder_inode, const JournalEntry& entry);

  // Durable once the parent is synced.
  [[nodiscard]] llvm::Error Remove();
  llvm::Expected<bool> IsThere();  // Entries of whatever folder, whole or not.

  bool has_entry() const { return has_entry_; }  // Found or written.

 private:
  struct Slot {
    std::uint64_t number = 0;  // Counts entries.
    std::uint64_t folder_inode = 0;
    JournalEntry entry;
  };
  std::optional<Slot> ReadSlot(const std::string& path);

  FileSystem* files_;
  std::string parent_;
  std::array<std::string, 2> paths_;
  std::uint64_t next_number_ = 0;
  bool has_entry_ = false;
};

}  // namespace ucp
