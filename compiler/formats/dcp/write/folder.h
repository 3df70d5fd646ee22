// A `.metadata` and the data files beside it.
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "compiler/formats/archive_composer.h"
#include "compiler/formats/dcp/write/metadata_writer.h"
#include "compiler/layout/target.h"

namespace ucp::dcp {

// The elements of a state of a tensor, in one box of it.
struct Elements {
  std::size_t holder = 0;  // Of the tensor (element_items.h).
  std::string state;
  DType dtype = DType::kFloat32;
  std::size_t box = 0;
};

struct PlacedElements {
  Elements elements;
  std::int64_t count = 0;
  RecordId record;
};

// "__3_0.distcp", or that of a save (file_of_save.h).
std::string DataFileName(std::int64_t rank, std::string_view save = "");

class Folder {
 public:
  // `path`: relative to the checkpoint's, with a slash at the end; "" is the checkpoint's own.
  explicit Folder(std::string path) : path_(std::move(path)) {}

  // The entry is valid until the next one. Fails (kUnsupported) if there is one of this key.
  llvm::Expected<WrittenEntry*> NewEntry(EntryPath path);
  // The item of the newest entry, whose bytes are all known: in the file of rank 0, before all others. Archives must
  // outlive this object.
  void AddKnown(const SharedArchive* archive);
  // The same of the newest entry's newest chunk.
  void AddKnownChunk(const SharedArchive* archive);
  // The item of the newest entry's newest chunk, in the file of this rank.
  void AddElements(std::int64_t rank, const SharedArchive* archive, Elements elements);

  // Adds the files to `target`. Returns where the elements go. Call once, last. `part`: the number of the part of a
  // checkpoint that the folder is, in the one file that it has. `save`: in the names of its files; empty: in none.
  std::vector<PlacedElements> Write(TargetFiles& target, TorchRelease release, std::optional<std::int64_t> part,
                                    std::string_view save = "");

 private:
  struct Item {
    std::size_t entry = 0;
    std::size_t chunk = 0;
    const SharedArchive* archive = nullptr;
    std::optional<Elements> elements;  // Nothing: the bytes are known.
  };

  const std::string path_;
  std::vector<WrittenEntry> entries_;
  std::unordered_set<std::string> keys_;
  std::vector<Item> known_;
  std::map<std::int64_t, std::vector<Item>> of_rank_;
};

}  // namespace ucp::dcp
