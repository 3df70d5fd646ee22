// One item of a data file: an archive of torch.save with one tensor, or with any value. Items stand one behind the
// other, without gaps.
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "compiler/files/readable_file_system.h"
#include "compiler/formats/dcp/entries/stored_items.h"
#include "compiler/formats/pytorch/archive/archive_reader.h"

namespace ucp::dcp {

// A file of which the ends of one item are in memory: in them stands all but the elements.
class ItemFile : public ReadableFile {
 public:
  // Reads the ends of `item`. `file` must outlive this object. Fails with kBadData if the file ends within the item.
  static llvm::Expected<std::unique_ptr<ItemFile>> Open(const ReadableFile& file, pytorch::FileRange item);

  const std::string& path() const override { return file_.path(); }
  std::uint64_t bytes() const override { return file_.bytes(); }
  llvm::Error ReadAt(std::uint64_t offset, std::span<std::byte> buffer) const override;

 private:
  struct Piece {
    std::uint64_t offset = 0;
    std::string bytes;
  };

  explicit ItemFile(const ReadableFile& file) : file_(file) {}

  const ReadableFile& file_;
  std::vector<Piece> pieces_;
};

// Returns the tensor that is all of the item's archive. Fails where it is something else.
llvm::Expected<ItemTensor> TensorOf(const pytorch::Archive& archive);

}  // namespace ucp::dcp
