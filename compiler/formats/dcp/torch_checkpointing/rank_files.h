// The files of a folder of torch_checkpointing: an archive of torch.save for each item and rank. The tensors that ranks
// share are put together by `metadata.pkl`; of tensors and values that it does not describe, those of the first rank
// that has them count.
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "compiler/files/readable_file_system.h"
#include "compiler/formats/dcp/entries/stored_items.h"
#include "compiler/formats/dcp/torch_checkpointing/rank_shares.h"
#include "compiler/formats/format.h"
#include "compiler/formats/source_archives.h"

namespace ucp::dcp {

// The files of an item by rank. A rank may have none.
struct FilesOfItem {
  std::string name;
  const RankItem* described = nullptr;        // Null: `metadata.pkl` says nothing of it.
  std::map<std::int64_t, std::string> files;  // Relative to the folder.
};

class RankFiles final : public StoredItems {
 public:
  // The arguments must outlive this object.
  RankFiles(ReadableFileSystem& files, std::string folder, const RankMetadata& metadata, Checkpoint& checkpoint)
      : file_system_(files),
        folder_(std::move(folder)),
        checkpoint_(checkpoint),
        archives_(files, folder_, checkpoint.inventory.storage, checkpoint.training),
        shares_(metadata) {}

  // Reads the headers of the item's files, enters them into the storage, and adds what is in them to the entries. Fails
  // (kBadData) where a rank's file lacks a tensor that the metadata says it has, or has another one.
  [[nodiscard]] llvm::Error Add(const FilesOfItem& item);

  // Call when all items are there: entries in the order of the items, whose chunks make their tensors.
  llvm::Expected<std::vector<Entry>> TakeEntries();

  const ItemTensor& tensor(const Chunk& chunk) const override { return pieces_[chunk.place.item].tensor; }
  Record record(const Chunk& chunk) const override { return pieces_[chunk.place.item].record; }

  llvm::Expected<std::unordered_map<const Entry*, pytorch::ValuePtr>> Keep(std::vector<const Entry*> entries) override;

 private:
  // A chunk, or a value.
  struct Piece {
    ItemTensor tensor;
    Record record;
  };
  struct File {
    std::string path;
    std::string item;
    FileId id;
  };
  // A tensor that ranks share, while their files are read.
  struct Expected {
    const SharedTensor* tensor = nullptr;
    const std::vector<RankShare>* shares = nullptr;
    std::vector<bool> found;           // As `shares`.
    std::optional<std::size_t> entry;  // Of `entries_`, once a rank has it.
  };

  // Without a cache the pickle is forgotten with the archive: those of DTensors are of one rank each.
  llvm::Expected<SourceArchive> Open(const std::string& path, pytorch::PickleCache* cache) const;
  [[nodiscard]] llvm::Error Expect(const RankItem& item);
  [[nodiscard]] llvm::Error AddFile(const FilesOfItem& item, std::int64_t rank, const std::string& path);
  [[nodiscard]] llvm::Error AddLeaf(const SourceArchive& archive, const Entry& leaf, const pytorch::Value& value,
                                    std::int64_t rank);
  [[nodiscard]] llvm::Error AddShare(const SourceArchive& archive, Expected& expected, const pytorch::Value& value,
                                     std::int64_t rank);
  [[nodiscard]] llvm::Error AddWhole(const SourceArchive& archive, std::size_t entry, const pytorch::Value& value);
  [[nodiscard]] llvm::Error CheckFound(const FilesOfItem& item) const;
  std::size_t EntryOf(const Entry& leaf);
  void AddChunk(const SourceArchive& archive, Entry& entry, const pytorch::Tensor& tensor, const SharePiece& piece);
  void NoteDifference(const FilesOfItem& item, std::int64_t rank, const SourceArchive& archive);
  [[nodiscard]] llvm::Error KeepOf(const File& file, const std::vector<const Entry*>& entries,
                                   std::unordered_map<const Entry*, pytorch::ValuePtr>& kept);

  ReadableFileSystem& file_system_;
  const std::string folder_;
  Checkpoint& checkpoint_;
  SourceArchives archives_;
  pytorch::PickleCache pickles_;  // Of items that are not described.
  RankShares shares_;
  std::vector<File> files_;
  std::vector<Piece> pieces_;
  std::vector<Entry> entries_;
  std::unordered_map<std::string, std::size_t> entry_of_key_;
  std::unordered_map<std::string, Expected> expected_;  // By key; of the item that is read.
  std::string first_content_;                           // Of the item that is read: what its first file holds.
  bool is_remarked_ = false;                            // That a later one holds something else.
};

}  // namespace ucp::dcp
