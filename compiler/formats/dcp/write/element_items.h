// The items of tensors in the folders of a target: one for each box of a state, whose elements come later.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "compiler/formats/archive_composer.h"
#include "compiler/formats/dcp/write/folder.h"
#include "compiler/formats/dcp/write/part.h"
#include "compiler/formats/format.h"
#include "compiler/layout/layout_index.h"
#include "compiler/layout/target.h"

namespace ucp::dcp {

class ElementItems {
 public:
  // All must outlive this object. `part` is null for all of a checkpoint.
  ElementItems(const TargetRequest& request, const PartOfJob* part, TargetFiles& target)
      : request_(request), part_(part), target_(target), layouts_(request.layout) {}

  // Returns the number of a new holder of a tensor's states: one that is named several times has several.
  std::size_t AddHolder(std::size_t tensor);
  std::size_t TensorOf(std::size_t holder) const { return holders_[holder].tensor; }

  // Adds the items of a state to the newest entry of `folder`, and the shape to the entry. `first`: the place of the
  // tensor in a stack, whose dimensions come before its own.
  void Add(Folder& folder, WrittenEntry& entry, const Elements& elements, std::span<const std::int64_t> first = {});
  // Adds the item of one box, which is `chunk` of the newest entry of `folder`: as many elements, of any shape.
  void AddBox(Folder& folder, WrittenEntry& entry, const Elements& elements, WrittenChunk chunk);

  // Returns how many boxes a holder's tensor has, and where one of them is in the tensor.
  std::size_t BoxesOf(std::size_t holder) const { return holders_[holder].sets.size(); }
  WrittenChunk BoxOf(std::size_t holder, std::size_t box) const;

  // Adds the files of a folder to the target. Call it once for each.
  void Write(Folder& folder, TorchRelease release);
  // Adds the shards of all holders to the target. Call it once, last.
  void AddShards();

 private:
  struct Holder {
    std::size_t tensor = 0;
    std::vector<BufferSet> sets;  // By box.
  };

  const TensorLayout& LayoutOf(std::size_t tensor) const { return *layouts_.Find(request_.tensors[tensor].name); }
  const HeldPart* HeldPartOf(std::size_t tensor) const;
  const SharedArchive* ArchiveOf(DType dtype, const std::vector<std::int64_t>& sizes);

  const TargetRequest& request_;
  const PartOfJob* part_;
  TargetFiles& target_;
  const LayoutIndex layouts_;
  std::vector<Holder> holders_;
  std::deque<SharedArchive> archives_;  // The following member points into them.
  std::map<std::pair<DType, std::vector<std::int64_t>>, const SharedArchive*> archive_of_shape_;
};

}  // namespace ucp::dcp
