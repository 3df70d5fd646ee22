// One item of a data file: an archive of torch.save with one tensor, or with any value. Items stand one behind the
// other, without gaps.
#pragma once

#include <llvm/Support/Error.h>

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/files/readable_file_system.h"
#include "compiler/files/unpacked_file.h"
#include "compiler/formats/dcp/entries/entry.h"
#include "compiler/formats/dcp/entries/stored_items.h"
#include "compiler/formats/pytorch/archive/archive_reader.h"

namespace ucp::dcp {

// A file of which the ends of one item are in memory: in them stands all but the elements.
class ItemFile : public ReadableFile {
 public:
  // `file` must outlive this object.
  explicit ItemFile(const ReadableFile& file) : file_(file) {}
  // Reads the ends of `item`. `file` must outlive this object. Fails with kBadData if the file ends within the item.
  static llvm::Expected<std::unique_ptr<ItemFile>> Open(const ReadableFile& file, pytorch::FileRange item);

  // Forgets the item, and reads the ends of this one. The beginning of `next`, the item after it, is read along with
  // its end where the two are neighbours.
  [[nodiscard]] llvm::Error Move(pytorch::FileRange item, std::optional<pytorch::FileRange> next);
  // Bytes of the file that are in memory.
  std::optional<std::string_view> InMemory(std::uint64_t offset, std::uint64_t count) const;

  const std::string& path() const override { return file_.path(); }
  std::uint64_t bytes() const override { return file_.bytes(); }
  llvm::Error ReadAt(std::uint64_t offset, std::span<std::byte> buffer) const override;

 private:
  struct Piece {
    std::uint64_t offset = 0;
    std::string bytes;

    std::optional<std::string_view> Find(std::uint64_t begin, std::uint64_t count) const;
  };

  llvm::Error ReadPiece(Piece& piece, std::uint64_t begin, std::uint64_t end);

  const ReadableFile& file_;
  std::array<Piece, 2> pieces_;  // The beginning of the item, and its end.
};

// The tensor that is all of the archive, which begins at `begin` of the file, and the storage that holds it. Fails
// where it is something else.
struct TensorAndStorage {
  ItemTensor tensor;
  const pytorch::StorageExtent* storage = nullptr;  // Of the archive.
};
llvm::Expected<TensorAndStorage> TensorOf(const pytorch::Archive& archive, std::uint64_t begin);

// The file that an item unpacks to, before anybody knows how many bytes it has: the metadata says how many it may have.
UnpackedName NameToUnpack(const std::string& file, const Entry& entry, const Chunk& chunk);

}  // namespace ucp::dcp
