// The objects of PyTorch's metadata in a pickle, by the names of their classes and attributes.
#pragma once

#include <llvm/Support/Error.h>

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/formats/dcp/metadata.h"
#include "compiler/formats/dcp/tree/pickle_tree.h"

namespace ucp::dcp {

class MetadataObjects {
 public:
  using Id = PickleTree::Id;

  // `tree` must outlive this object.
  explicit MetadataObjects(const PickleTree& tree) : tree_(tree) {}

  // Returns whether it is an object of PyTorch's class of this name.
  bool Is(Id id, std::string_view class_name) const;
  // Returns the class of an object of Megatron's.
  std::optional<std::string> ClassOfMegatron(Id id) const;

  // Returns the last one of this name, as in Python, among the first 64.
  std::optional<Id> FindAttribute(Id object, std::string_view name) const;
  // Fails (kBadData) if there is none. `what` is the object in messages.
  llvm::Expected<Id> Attribute(Id object, std::string_view name, std::string_view what) const;

  llvm::Expected<std::string_view> NeedText(Id id, std::string_view what) const;
  // Returns the extents in an attribute that is a torch.Size, a tuple or a list.
  llvm::Expected<Extents> NeedExtents(Id object, std::string_view name, std::string_view what) const;
  // Returns the extents that such a value has.
  llvm::Expected<Extents> NeedExtentsOf(Id value, std::string_view what) const;
  // Returns the dtype of a TensorStorageMetadata. Fails (kUnsupported) for layouts that are not strided.
  llvm::Expected<DType> DTypeOf(Id tensor, std::string_view what) const;
  std::optional<std::vector<PathPart>> AsPath(Id id) const;

  // "an object of `a.B`", "`text`", "12": in messages.
  std::string Called(Id id) const;
  // `what` is another value than one expects: kUnsupported for objects, kBadData for others.
  llvm::Error Unexpected(std::string_view what, Id id, std::string_view expected) const;

 private:
  std::optional<Id> ClassOf(Id id) const;  // A global.
  std::optional<Extents> AsExtents(Id id) const;
  std::vector<Id> ItemsOf(Id id) const;

  const PickleTree& tree_;
  // Classes that were found to be PyTorch's: objects of one class name it by the same value, one time after the other.
  struct KnownClass {
    Id global = PickleTree::kNothing;
    std::string_view name;
  };
  mutable std::array<KnownClass, 4> known_;
  mutable std::size_t next_known_ = 0;
};

}  // namespace ucp::dcp
