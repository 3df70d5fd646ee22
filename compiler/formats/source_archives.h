// The `.pt` files of a source checkpoint: opened one after another, entered into the inventory's storage, and closed
// again. A tensor becomes a place in a record; of those that belong to the training state the small ones are read.
#pragma once

#include <llvm/ADT/DenseMap.h>
#include <llvm/Support/Error.h>

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "compiler/files/readable_file_system.h"
#include "compiler/formats/archives_ahead.h"
#include "compiler/formats/pytorch/archive/archive_reader.h"
#include "compiler/formats/pytorch/archive/small_tensor_reader.h"
#include "compiler/formats/training_state.h"
#include "compiler/layout/storage.h"

namespace ucp {

// Where the elements of one tensor lie.
struct TensorPlace {
  RecordId record;
  std::int64_t record_elements = 0;  // Of this dtype.
  DType dtype = DType::kFloat32;
  std::int64_t offset = 0;  // In elements, in the record.
  std::vector<std::int64_t> sizes;
  std::vector<std::int64_t> strides;  // Empty: row-major.
  std::int64_t elements = 0;

  // Returns whether both are the same elements of the same record in the same order.
  bool IsSameMemory(const TensorPlace& other) const;
};

struct SourceArchive {
  std::string path;  // Relative to the checkpoint's folder.
  FileId file;
  std::unique_ptr<ReadableFile> readable;  // Let go of the archive to close it.
  pytorch::Archive archive;
  std::unique_ptr<pytorch::SmallTensorReader> small_tensors;  // Its memory is freed with the archive.

  const pytorch::Value& root() const { return *archive.root(); }
};

class SourceArchives {
 public:
  // The arguments must outlive this object.
  SourceArchives(ReadableFileSystem& files, std::string folder, Storage& storage, TrainingState& training)
      : files_(files), folder_(std::move(folder)), storage_(storage), training_(training) {}

  // These will be opened, in this order or nearly: so many other threads read them ahead.
  void ReadAhead(const std::vector<std::string>& relative_paths, unsigned helpers);

  // Equal pickles are parsed once. Errors name the file.
  llvm::Expected<SourceArchive> Open(const std::string& relative_path);

  // Enters the tensor's record into the storage, once.
  TensorPlace PlaceOf(const SourceArchive& archive, const pytorch::Tensor& tensor);

  // `count` elements of a tensor from `first` on, as the file has them; the tensor is row-major.
  llvm::Expected<std::vector<std::byte>> ReadElements(const TensorPlace& place, std::int64_t first,
                                                      std::int64_t count) const;

  // Returns a set of buffers that holds the tensor as this one state, once for each record and dtype. The tensor's
  // shard begins at its offset.
  BufferSetId BuffersOf(const TensorPlace& place, const std::string& state);

  // Fails (kUnsupported) in the name of `what` if a storage stands in the value without a tensor.
  [[nodiscard]] static llvm::Error CheckNoBareStorage(const SourceArchive& archive, const pytorch::Value& value,
                                                      const std::string& what);

  // Returns the value with every tensor in it one of the training state's: those of more than 64 KiB large ones, and
  // all others read. Tensors that are larger than their storage by its being read several times, if that is more than
  // 16 MiB, and storages that stand alone, are refused (kUnsupported), and damaged ones, too (kBadData), in the name of
  // `what` and of the keys that lead there.
  llvm::Expected<pytorch::ValuePtr> Keep(const SourceArchive& archive, const pytorch::ValuePtr& value,
                                         const std::string& what);

 private:
  llvm::Expected<std::string> KeyOfSmallTensor(const SourceArchive& archive, const pytorch::Tensor& tensor);
  std::string KeyOfLargeTensor(const SourceArchive& archive, const pytorch::Tensor& tensor, const std::string& keys);

  ReadableFileSystem& files_;
  std::string folder_;
  Storage& storage_;
  TrainingState& training_;
  pytorch::PickleCache cache_;
  std::unique_ptr<ArchivesAhead> ahead_;                                          // Null: nothing is.
  llvm::DenseMap<std::pair<std::uint32_t, std::uint64_t>, RecordId> records_;     // By file, and where they begin.
  using BufferSets = llvm::DenseMap<std::pair<std::uint32_t, int>, BufferSetId>;  // By record and dtype.
  std::map<std::string, BufferSets> buffer_sets_;                                 // By state, of which there are few.
  std::unordered_map<std::string, std::string> small_tensor_keys_;                // By dtype and content.
  std::set<std::string> large_tensor_names_;
};

}  // namespace ucp
