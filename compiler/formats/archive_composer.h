// Puts together one `.pt` file of a target: values of a training state, whose small tensors are known already, and
// tensors whose elements the executor will write: those of the model, and large ones of the training state.
#pragma once

#include <deque>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "compiler/formats/pytorch/archive/archive_writer.h"
#include "compiler/formats/training_state.h"
#include "compiler/layout/target.h"

namespace ucp {

// Where everything of one file lies; it can stand in several places of a target.
struct ComposedArchive {
  std::uint64_t bytes = 0;
  std::vector<pytorch::Blob> blobs;         // With the small tensors and their checksums.
  std::vector<pytorch::StorageSlot> slots;  // Of the tensors that are to come, in the order of their storages.
  std::vector<const LargeTensor*> large;    // The large tensor of each; null: one of AddTensor().
};

class ArchiveComposer {
 public:
  // `training` must outlive this object.
  explicit ArchiveComposer(const TrainingState& training) : training_(training) {}

  // Returns a tensor whose elements come later.
  pytorch::ValuePtr AddTensor(DType dtype, const std::vector<std::int64_t>& sizes);
  // Returns a tensor of these elements.
  pytorch::ValuePtr AddData(DType dtype, const std::vector<std::int64_t>& sizes, std::string elements);
  // Returns how many of AddTensor() there are: the place of the next one's record in the result of AddFile().
  std::size_t tensors_to_come() const { return tensors_to_come_; }
  // Returns the same value with its tensors as storages of this file.
  pytorch::ValuePtr AddValue(const pytorch::ValuePtr& value);
  std::vector<pytorch::Entry> AddEntries(const std::vector<pytorch::Entry>& entries);

  // `root` is made of values that the functions above returned. Call once, last.
  ComposedArchive Compose(const pytorch::ValuePtr& root) const;

 private:
  // The contents of a storage, if they are known: the elements, or which large tensor is to come.
  struct Content {
    const std::string* bytes = nullptr;
    const LargeTensor* large = nullptr;
  };
  std::string NextKey(DType dtype, std::uint64_t bytes, Content content);

  const TrainingState& training_;
  std::vector<pytorch::StorageToWrite> storages_;
  std::vector<Content> contents_;  // For each storage.
  std::deque<std::string> data_;   // Of AddData(), which `contents_` points to.
  std::size_t tensors_to_come_ = 0;
};

// An archive whose ready-made bytes a target has got, to stand at any number of its paths: looking bytes up takes as
// long as they are large.
struct SharedArchive {
  struct PlacedBlob {
    std::uint64_t offset = 0;
    BlobId blob;
  };
  std::uint64_t bytes = 0;
  std::vector<PlacedBlob> blobs;
  std::vector<pytorch::StorageSlot> slots;  // As those of the composed archive, and which they are.
  std::vector<const LargeTensor*> large;
};
SharedArchive Share(TargetFiles& target, ComposedArchive archive);
// Adds the archive at `offset` of a file that `target` has. Returns the records of the tensors to come.
std::vector<RecordId> AddArchive(TargetFiles& target, FileId file, std::uint64_t offset, const SharedArchive& archive);
std::vector<RecordId> AddFile(TargetFiles& target, const std::string& path, const SharedArchive& archive);

// Adds the file, its ready-made bytes, its checksums and its large tensors to a target. Returns the records of the
// tensors to come that AddTensor() added, in that order.
std::vector<RecordId> AddFile(TargetFiles& target, const std::string& path, ComposedArchive archive);
// Writes the same archive at each of several paths; the records by path.
std::vector<std::vector<RecordId>> AddFiles(TargetFiles& target, std::span<const std::string> paths,
                                            ComposedArchive archive);
// A file whose bytes are all known.
void AddFile(TargetFiles& target, const std::string& path, std::string content);

}  // namespace ucp
