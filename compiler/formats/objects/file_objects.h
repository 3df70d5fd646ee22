// Every class and callable that the pickles of a file name, and whether torch.load of the file would run code that no
// framework of ours writes. For files of unknown origin, and for those that are copied as they are.
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "compiler/files/readable_file_system.h"
#include "compiler/formats/objects/known_objects.h"
#include "compiler/formats/pytorch/archive/zip_reader.h"

namespace ucp::objects {

struct FoundObject {
  std::uint64_t called = 0;  // How often.
  std::uint64_t named = 0;
  bool is_known = true;  // Everywhere.
  std::string calls;     // Where it is not: CallText() of the first such place.
};

struct FileObjects {
  std::map<std::string, FoundObject> by_name;
  std::string odd_instruction;  // One that torch.save never writes, and where it is; empty if there is none.
  std::string unread;           // Why the file, or the rest of it, is not known; empty if all of it is.

  bool IsSafe() const;  // All of it is known.
  void Add(const FileObjects& other);
};

// Of an archive or a stream that torch.save wrote, or of a row of pickles of any protocol. Returns nothing for a file
// that is none of these by its content and its name. Headers only: elements are not read. The contents of a file never
// make it fail; the result lists the parts that could not be read.
llvm::Expected<std::optional<FileObjects>> ObjectsIn(const ReadableFile& file, const KnownObjects& known);

// Does the same for archives that stand in a file beside one another, as items of torch.distributed.checkpoint do.
llvm::Expected<FileObjects> ObjectsInArchives(const ReadableFile& file, std::span<const pytorch::FileRange> archives,
                                              const KnownObjects& known);

// Does the same for a file that has been read, for its name and content.
std::optional<FileObjects> ObjectsIn(const std::string& name, const std::string& content, const KnownObjects& known);

}  // namespace ucp::objects
