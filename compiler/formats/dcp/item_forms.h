// Items that torch.save wrote for tensors of one shape differ in their elements, in checksums, and in a number that
// nobody reads. So the parse of one of them holds for all: the bytes that it depends on are compared, and an item that
// has the same is not parsed again.
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "compiler/formats/dcp/item.h"
#include "compiler/formats/pytorch/archive/archive_reader.h"

namespace ucp::dcp {

// The items of one form have this in common.
struct ItemForm {
  ItemTensor tensor;        // Nothing, of a value.
  std::string pickle_hash;  // ContentHash() of the pickle.
};

struct FormedItem {
  const ItemForm* form = nullptr;      // Belongs to the ItemForms that read it.
  std::optional<std::uint32_t> crc32;  // Of the storage.
};

// For the items that one thread reads.
class ItemForms {
 public:
  // `cache` must outlive this object.
  explicit ItemForms(pytorch::PickleCache& cache) : cache_(cache) {}

  // `file` has the ends of `item` in memory. `is_tensor`: it is one, or any value. Fails where it is not.
  llvm::Expected<FormedItem> Read(const ItemFile& file, pytorch::FileRange item, bool is_tensor);

 private:
  // Bytes of an item, counted from its first one.
  struct Stretch {
    std::uint64_t offset = 0;
    std::string bytes;
  };
  struct KnownForm {
    const ItemForm* form = nullptr;
    std::uint64_t crc32_offset = 0;
    std::vector<Stretch> same;  // In all items of the form; what a parse looks at, but for checksums.
  };

  llvm::Expected<FormedItem> Parse(const ItemFile& file, pytorch::FileRange item, bool is_tensor);
  static bool Fits(const KnownForm& known, const ItemFile& file, pytorch::FileRange item);
  // Keeps the form, if the bytes in memory alone are what it was read from.
  void Learn(const ItemFile& file, pytorch::FileRange item, std::vector<pytorch::FileRange> seen,
             const pytorch::StorageExtent& storage, const ItemForm& form);

  pytorch::PickleCache& cache_;
  std::deque<ItemForm> forms_;                                       // Those that are known, and those that are not.
  std::unordered_map<std::uint64_t, std::vector<KnownForm>> known_;  // Of tensors, by the bytes of an item.
  std::size_t known_count_ = 0;
};

}  // namespace ucp::dcp
