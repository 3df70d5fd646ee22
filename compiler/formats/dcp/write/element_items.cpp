// Items of equal dtype and shape have equal headers, which are composed once.
#include "compiler/formats/dcp/write/element_items.h"

#include <algorithm>

#include "compiler/formats/dcp/write/style.h"
#include "compiler/support/check.h"

namespace ucp::dcp {
namespace {

void PlaceInJob(const HeldPart& held, WrittenChunk& chunk) {
  for (std::size_t d = 0; d < chunk.offsets.size(); ++d) {
    chunk.offsets[d] = InJob(held.positions[d], chunk.offsets[d]);
  }
}

}  // namespace

std::size_t ElementItems::AddHolder(std::size_t tensor) {
  const std::size_t boxes = std::max<std::size_t>(1, LayoutOf(tensor).boxes.size());
  holders_.push_back({tensor, std::vector<BufferSet>(boxes)});
  return holders_.size() - 1;
}

void ElementItems::Add(Folder& folder, WrittenEntry& entry, const Elements& elements,
                       std::span<const std::int64_t> first) {
  const Holder& holder = holders_[elements.holder];
  const HeldPart* held = HeldPartOf(holder.tensor);
  const std::vector<std::int64_t>& shape = request_.tensors[holder.tensor].shape;
  if (first.empty()) entry.shape = held != nullptr ? held->shape : shape;
  for (std::size_t b = 0; b < holder.sets.size(); ++b) {
    WrittenChunk chunk = BoxOf(elements.holder, b);
    chunk.offsets.insert(chunk.offsets.begin(), first.begin(), first.end());
    chunk.sizes.insert(chunk.sizes.begin(), first.size(), 1);
    if (held != nullptr) PlaceInJob(*held, chunk);
    Elements of_box = elements;
    of_box.box = b;
    AddBox(folder, entry, of_box, std::move(chunk));
  }
}

void ElementItems::AddBox(Folder& folder, WrittenEntry& entry, const Elements& elements, WrittenChunk chunk) {
  entry.is_tensor = true;
  entry.dtype = elements.dtype;
  const SharedArchive* archive = ArchiveOf(elements.dtype, chunk.sizes);
  entry.chunks.push_back(std::move(chunk));
  const TensorLayout& layout = LayoutOf(holders_[elements.holder].tensor);
  folder.AddElements(layout.box_ranks[elements.box], archive, elements);
}

WrittenChunk ElementItems::BoxOf(std::size_t holder, std::size_t box) const {
  const std::size_t tensor = holders_[holder].tensor;
  const TensorLayout& layout = LayoutOf(tensor);
  WrittenChunk chunk;
  if (layout.boxes.empty()) {
    chunk.sizes = request_.tensors[tensor].shape;
    chunk.offsets.resize(chunk.sizes.size());
    return chunk;
  }
  for (const Selection& dim : layout.boxes[box].dims) {
    UCP_CHECK(dim.runs().size() == 1, "a box of `{}` has gaps", layout.name);
    chunk.offsets.push_back(dim.runs().front().logical_begin);
    chunk.sizes.push_back(dim.runs().front().length);
  }
  return chunk;
}

void ElementItems::Write(Folder& folder, TorchRelease release) {
  const auto part = part_ == nullptr ? std::nullopt : std::optional(part_->number);
  const MachineFiles* machines = MachineFilesOf(request_.training);
  const std::string_view save = machines == nullptr ? "" : std::string_view(machines->save);
  for (const PlacedElements& placed : folder.Write(target_, release, part, save)) {
    const BufferId buffer =
        target_.storage.Add(Buffer{placed.elements.dtype, placed.count, {{placed.record, 0, placed.count}}});
    holders_[placed.elements.holder].sets[placed.elements.box].push_back({placed.elements.state, buffer});
  }
}

void ElementItems::AddShards() {
  for (Holder& holder : holders_) {
    const LogicalTensor& tensor = request_.tensors[holder.tensor];
    const TensorLayout& layout = LayoutOf(holder.tensor);
    for (std::size_t b = 0; b < holder.sets.size(); ++b) {
      BufferSet& set = holder.sets[b];
      std::ranges::sort(set, {}, &StateBuffer::state);
      Shard shard;
      shard.tensor = tensor.name;
      shard.kind = tensor.kind;
      if (layout.boxes.empty()) {
        shard.shape = tensor.shape;
      } else {
        shard.coordinate.at[kBoxAxis] = static_cast<std::int64_t>(b);
        shard.shape = layout.boxes[b].LocalShape();
      }
      shard.states = target_.storage.Add(std::move(set));
      target_.storage.shards.push_back(std::move(shard));
    }
  }
}

// Null where all of the tensor is held.
const HeldPart* ElementItems::HeldPartOf(std::size_t tensor) const {
  if (part_ == nullptr) return nullptr;
  const auto held = part_->tensors.find(request_.tensors[tensor].name);
  return held == part_->tensors.end() ? nullptr : &held->second;
}

const SharedArchive* ElementItems::ArchiveOf(DType dtype, const std::vector<std::int64_t>& sizes) {
  const auto [known, is_new] = archive_of_shape_.try_emplace({dtype, sizes}, nullptr);
  if (is_new) {
    ArchiveComposer composer(request_.training);
    const pytorch::ValuePtr tensor = composer.AddTensor(dtype, sizes);
    known->second = &archives_.emplace_back(Share(target_, composer.Compose(tensor)));
  }
  return known->second;
}

}  // namespace ucp::dcp
