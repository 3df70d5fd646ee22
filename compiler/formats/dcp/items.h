// Reads the archives of many items, several at the same time: of chunks where their elements lie, and of values their
// contents.
#pragma once

#include <llvm/Support/Error.h>

#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "compiler/files/readable_file_system.h"
#include "compiler/formats/dcp/entries/stored_items.h"
#include "compiler/formats/dcp/item.h"
#include "compiler/formats/dcp/item_forms.h"
#include "compiler/formats/dcp/metadata.h"
#include "compiler/formats/source_archives.h"

namespace ucp::dcp {

// A data file of the inventory.
struct DataFile {
  std::string path;  // Relative to the checkpoint's folder.
  FileId id;
};

// A chunk of an entry to read.
struct WantedItem {
  const Entry* entry = nullptr;
  Chunk* chunk = nullptr;
  std::uint32_t file = 0;  // Of the data files.
};

class Items final : public StoredItems {
 public:
  // The arguments must outlive this object. `files` are below `folder`.
  Items(ReadableFileSystem& file_system, std::string folder, Storage& storage, TrainingState& training,
        unsigned threads)
      : file_system_(file_system),
        folder_(std::move(folder)),
        threads_(threads),
        storage_(storage),
        archives_(file_system, folder_, storage, training) {}

  // Enters the files into the storage, with the hash of all pickles in each, and reads the items. Call once. Fails
  // where a file is missing or too short, where two items overlap, and where an item differs from the metadata.
  // Numbers the items in their chunks. Those that were packed are then placed in files of their own, which the storage
  // also has (compiler/files/unpacked_file.h).
  [[nodiscard]] llvm::Error Read(const std::vector<std::string>& paths, std::vector<WantedItem> wanted);

  // Of a chunk of a tensor that was read.
  const ItemTensor& tensor(const Chunk& chunk) const override { return items_[chunk.place.item].form->tensor; }
  Record record(const Chunk& chunk) const override;

  llvm::Expected<std::unordered_map<const Entry*, pytorch::ValuePtr>> Keep(std::vector<const Entry*> entries) override;

  // Returns the value that a `.pt` file beside the data files holds, as one of the training state.
  llvm::Expected<pytorch::ValuePtr> KeepFile(const std::string& path);

 private:
  llvm::Error OpenFiles(const std::vector<std::string>& paths);
  llvm::Error CheckPlaces() const;
  llvm::Error ReadItems();
  llvm::Error ReadStretch(ItemForms& forms, std::size_t begin, std::size_t end);
  llvm::Error ReadPacked(ItemForms& forms, std::size_t number);
  llvm::Error ReadItem(ItemForms& forms, ItemFile& ends, pytorch::FileRange range, std::size_t number);
  void PlaceUnpacked();
  void HashFiles();

  ReadableFileSystem& file_system_;
  const std::string folder_;
  const unsigned threads_;
  Storage& storage_;
  SourceArchives archives_;
  pytorch::PickleCache pickles_;
  std::vector<DataFile> files_;
  std::vector<WantedItem> wanted_;             // Sorted by place.
  std::vector<ItemForms> forms_;               // Of each thread.
  std::vector<FormedItem> items_;              // As `wanted_`.
  std::vector<std::uint64_t> unpacked_bytes_;  // As `wanted_`; of those that were packed.
};

}  // namespace ucp::dcp
