#include "compiler/formats/megatron/tensors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "compiler/files/widened_file.h"
#include "compiler/formats/megatron/rules/flat_ranges.h"
#include "compiler/layout/layout.h"
#include "compiler/support/checked_math.h"
#include "compiler/support/error.h"

namespace ucp::megatron {
namespace {

using dcp::Chunk;
using dcp::Entry;
using dcp::StateOfTensor;

// The shape of the parts that ranks hold, if the state's shape is the tensor's cut into such parts; nothing otherwise.
std::optional<std::vector<std::int64_t>> ShapeOfParts(const Entry& tensor, const Entry& state) {
  if (state.shape.size() != tensor.shape.size() + 1) return std::nullopt;
  std::vector<std::int64_t> parts;
  std::int64_t elements = 1;
  for (std::size_t d = 0; d < tensor.shape.size(); ++d) {
    if (state.shape[d] <= 0 || tensor.shape[d] % state.shape[d] != 0) return std::nullopt;
    parts.push_back(tensor.shape[d] / state.shape[d]);
    elements *= parts.back();  // Not more than the tensor has.
  }
  return elements == state.shape.back() ? std::optional(std::move(parts)) : std::nullopt;
}

llvm::Error WrongShape(const Entry& tensor, const Entry& state) {
  return Fail(
      ErrorCode::kBadData,
      "`{}` has the shape [{}], and `{}`, of which it is a state, has [{}]; the folder holds parts of two saves",
      state.key, fmt::join(state.shape, ", "), tensor.key, fmt::join(tensor.shape, ", "));
}

llvm::Error CheckOrder(const dcp::ItemTensor& item, const std::string& key, const Chunk& chunk) {
  if (item.strides.empty()) return llvm::Error::success();
  return Fail(
      ErrorCode::kUnsupported,
      "the chunk [{}] of `{}` is not stored row by row, as Megatron Core stores chunks; load the folder with it "
      "and save it again",
      fmt::join(chunk.sizes, ", "), key);
}

}  // namespace

llvm::Error Tensors::Add(const Entry& tensor, TensorKind kind, const std::vector<StateOfTensor>& states) {
  std::vector<StateOfTensor> in_boxes;
  TensorBoxes& boxes = std::get<BoxesOfTensors>(inventory_.cuts)[tensor.key];
  boxes.shape = tensor.shape;
  for (const StateOfTensor& state : states) {
    const auto known = shapes_.find(state.entry->key);
    if (known != shapes_.end() && known->second != tensor.shape) {
      return Fail(ErrorCode::kBadData,
                  "`mcore_data` says that `{}` is a state of a tensor of the shape [{}], and `{}` has [{}]",
                  state.entry->key, fmt::join(known->second, ", "), tensor.key, fmt::join(tensor.shape, ", "));
    }
    if (state.entry->shape == tensor.shape) {
      in_boxes.push_back(state);
    } else if (known != shapes_.end()) {
      UCP_RETURN_IF_ERROR(AddVectors(tensor, kind, state));
    } else {
      return WrongShape(tensor, *state.entry);
    }
  }
  if (in_boxes.empty()) return llvm::Error::success();
  TensorBoxes of_states;
  const std::int64_t before = std::ssize(boxes.boxes);
  for (Shard& shard : dcp::ShardsOf(items_, tensor.key, kind, std::move(in_boxes), inventory_.storage, of_states)) {
    if (!of_states.boxes.empty()) shard.coordinate.at[kBoxAxis] += before;
    inventory_.storage.shards.push_back(std::move(shard));
  }
  std::ranges::move(of_states.boxes, std::back_inserter(boxes.boxes));
  return llvm::Error::success();
}

llvm::Error Tensors::AddVectors(const Entry& tensor, TensorKind kind, const StateOfTensor& state) {
  const auto parts = ShapeOfParts(tensor, *state.entry);
  if (!parts) return WrongShape(tensor, *state.entry);
  for (const Chunk& chunk : state.entry->chunks) {
    const bool is_vector = std::ranges::all_of(chunk.sizes.begin(), std::prev(chunk.sizes.end()),
                                               [](std::int64_t size) { return size == 1; });
    if (!is_vector) {
      return Fail(ErrorCode::kUnsupported, "the chunk [{}] of `{}` is not one vector, as Megatron Core stores them",
                  fmt::join(chunk.sizes, ", "), state.entry->key);
    }
    UCP_ASSIGN_OR_RETURN(const BufferSetId set, VectorOf(state.state, state.entry->key, chunk));
    Chunk part;
    for (std::size_t d = 0; d < parts->size(); ++d) {
      part.offsets.push_back(chunk.offsets[d] * (*parts)[d]);
      part.sizes.push_back((*parts)[d]);
    }
    AddPart(tensor, kind, set, part, chunk.offsets.back(), chunk.sizes.back());
  }
  return llvm::Error::success();
}

llvm::Expected<BufferSetId> Tensors::VectorOf(const std::string& state, const std::string& key, const Chunk& chunk) {
  const dcp::ItemTensor& item = items_.tensor(chunk);
  UCP_RETURN_IF_ERROR(CheckOrder(item, key, chunk));
  const Record record = items_.record(chunk);
  const std::int64_t held = static_cast<std::int64_t>(record.bytes) / ItemBytes(item.dtype) - item.offset;
  Buffer buffer{item.dtype, held, {{inventory_.storage.Add(record), item.offset, held}}};
  return inventory_.storage.Add(BufferSet{{state, inventory_.storage.Add(std::move(buffer))}});
}

llvm::Expected<BufferSetId> Tensors::LostElements(const StoredRange& range, const std::string& key) {
  const dcp::ItemTensor& item = items_.tensor(*range.stored);
  UCP_RETURN_IF_ERROR(CheckOrder(item, key, *range.stored));
  const Record record = items_.record(*range.stored);
  const auto before = static_cast<std::uint64_t>((item.offset + range.skip) * ItemBytes(DType::kBFloat16));
  const auto bytes = static_cast<std::uint64_t>(range.elements * ItemBytes(DType::kBFloat16));
  WidenedName name{inventory_.storage.file(inventory_.storage.Add(record)).path, record.begin + before, bytes, false};
  if (range.state != kMasterState) {
    name.is_zeros = true;
    name.offset = std::exchange(zeros_, zeros_ + bytes);  // No two states are read from one place.
  }
  const FileId file = inventory_.storage.Add(StoredFile{name.Path(), name.bytes(), ""});
  const RecordId widened = inventory_.storage.Add(Record{file, 0, name.bytes(), std::nullopt});
  Buffer buffer{DType::kFloat32, range.elements, {{widened, 0, range.elements}}};
  return inventory_.storage.Add(BufferSet{{range.state, inventory_.storage.Add(std::move(buffer))}});
}

llvm::Error Tensors::AddRanges(const Entry& tensor, llvm::ArrayRef<StoredRange> ranges) {
  for (const StoredRange& range : ranges) {
    if (range.is_lost) {
      UCP_ASSIGN_OR_RETURN(const BufferSetId set, LostElements(range, tensor.key));
      AddPart(tensor, TensorKind::kParameter, set, *range.part, range.begin, range.elements);
      continue;
    }
    UCP_ASSIGN_OR_RETURN(const BufferSetId set, VectorOf(range.state, tensor.key, *range.stored));
    AddPart(tensor, TensorKind::kParameter, set, *range.part, range.begin, range.elements, range.skip);
  }
  return llvm::Error::success();
}

void Tensors::AddPart(const Entry& tensor, TensorKind kind, BufferSetId states, const Chunk& part, std::int64_t begin,
                      std::int64_t elements, std::int64_t skip) {
  TensorBoxes& boxes = std::get<BoxesOfTensors>(inventory_.cuts).at(tensor.key);
  for (const FlatBox& box : BoxesOfRange(part.sizes, begin, begin + elements)) {
    ProductSet set;
    for (std::size_t d = 0; d < box.sizes.size(); ++d) {
      set.dims.emplace_back().Append(part.offsets[d] + box.offsets[d], box.sizes[d]);
    }
    Shard shard;
    shard.tensor = tensor.key;
    shard.kind = kind;
    shard.shape = box.sizes;
    shard.base = skip + box.first;
    shard.states = states;
    shard.coordinate.at[kBoxAxis] = std::ssize(boxes.boxes);
    boxes.boxes.push_back(std::move(set));
    inventory_.storage.shards.push_back(std::move(shard));
  }
}

}  // namespace ucp::megatron
