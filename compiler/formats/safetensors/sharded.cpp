// The shape of a tensor is the least that holds all of its boxes, as PyTorch's own reader takes it. Boxes that lie
// apart and have as many elements as it are all of it.
#include "compiler/formats/safetensors/sharded.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "compiler/layout/layout.h"
#include "compiler/sets/box_index.h"
#include "compiler/support/checked_math.h"
#include "compiler/support/error.h"
#include "compiler/support/json_text.h"

namespace ucp::safetensors {
namespace {

constexpr std::string_view kBeginKey = "saved_offsets";

llvm::Expected<std::vector<std::int64_t>> ReadBegin(JsonReader& json) {
  std::vector<std::int64_t> begin;
  bool is_there = false;
  UCP_RETURN_IF_ERROR(json.ReadObject([&](const std::string& key) -> llvm::Error {
    if (key != kBeginKey) {
      return Fail(ErrorCode::kUnsupported, "it has `{}` beside `{}`, which is not known", key, kBeginKey);
    }
    is_there = true;
    return json.ReadArray([&]() -> llvm::Error {
      UCP_ASSIGN_OR_RETURN(const std::uint64_t position, json.ReadSize());
      begin.push_back(static_cast<std::int64_t>(position));
      return llvm::Error::success();
    });
  }));
  if (is_there) return begin;
  return Fail(ErrorCode::kBadData, "it lacks `{}`", kBeginKey);
}

std::string Text(const SavedBox& box) {
  return fmt::format("[{}] at [{}] in `{}`", fmt::join(box.shape, ", "), fmt::join(box.begin, ", "), box.file);
}

llvm::Error CheckAlike(const std::string& tensor, const SavedBox& first, const SavedBox& box) {
  if (box.begin.size() != box.shape.size() || box.shape.size() != first.shape.size()) {
    return Fail(ErrorCode::kBadData, "`{}` is {} and {}, which differ in their dimensions", tensor, Text(first),
                Text(box));
  }
  if (box.dtype == first.dtype) return llvm::Error::success();
  return Fail(ErrorCode::kBadData, "`{}` is of {} in `{}` and of {} in `{}`", tensor, Name(first.dtype), first.file,
              Name(box.dtype), box.file);
}

// Fails for shapes of more bytes than can be counted.
llvm::Expected<std::vector<std::int64_t>> ShapeAround(const std::string& tensor, const std::vector<SavedBox>& boxes) {
  std::vector<std::int64_t> shape(boxes.front().shape.size(), 0);
  std::optional<std::int64_t> bytes = ItemBytes(boxes.front().dtype);
  for (const SavedBox& box : boxes) {
    UCP_RETURN_IF_ERROR(CheckAlike(tensor, boxes.front(), box));
    for (std::size_t d = 0; d < shape.size(); ++d) {
      const auto end = CheckedAdd(box.begin[d], box.shape[d]);
      if (!end) return Fail(ErrorCode::kBadData, "`{}`: {} is beyond any tensor", tensor, Text(box));
      shape[d] = std::max(shape[d], *end);
    }
  }
  for (const std::int64_t length : shape) bytes = bytes && length > 0 ? CheckedMultiply(*bytes, length) : bytes;
  if (bytes) return shape;
  return Fail(ErrorCode::kBadData, "the boxes of `{}` reach to [{}], which is not the size of a tensor", tensor,
              fmt::join(shape, ", "));
}

llvm::Error CheckApart(const std::string& tensor, const std::vector<SavedBox>& boxes) {
  BoxIndex index;
  for (const SavedBox& box : boxes) {
    BoundingBox bounds;
    for (std::size_t d = 0; d < box.shape.size(); ++d) {
      bounds.begin.push_back(box.begin[d]);
      bounds.end.push_back(box.begin[d] + box.shape[d]);
    }
    if (const auto met = index.Meeting(bounds); !met.empty()) {
      return Fail(ErrorCode::kBadData, "two files hold the same elements of `{}`: {}, and {}", tensor,
                  Text(boxes[met.front()]), Text(box));
    }
    index.Add(bounds);
  }
  return llvm::Error::success();
}

std::int64_t ElementsOf(const std::vector<std::int64_t>& shape) {
  std::int64_t elements = 1;
  for (const std::int64_t length : shape) elements *= length;
  return elements;
}

}  // namespace

llvm::Expected<Begins> ParseShardingInfo(std::string_view json) {
  Begins begins;
  JsonReader reader(json);
  UCP_RETURN_IF_ERROR(reader.ReadObject([&](const std::string& tensor) -> llvm::Error {
    auto begin = ReadBegin(reader);
    if (!begin) return AddContext(begin.takeError(), fmt::format("tensor `{}`", tensor));
    begins[tensor] = *std::move(begin);
    return llvm::Error::success();
  }));
  UCP_RETURN_IF_ERROR(reader.ReadEnd());
  return begins;
}

llvm::Expected<std::vector<std::int64_t>> JoinBoxes(const std::string& tensor, std::vector<SavedBox>& boxes) {
  UCP_ASSIGN_OR_RETURN(std::vector<std::int64_t> shape, ShapeAround(tensor, boxes));
  std::ranges::stable_sort(boxes, {}, &SavedBox::begin);
  const std::int64_t elements = ElementsOf(shape);
  if (elements == 0) {
    boxes.resize(1);
    return shape;
  }
  std::erase_if(boxes, [](const SavedBox& box) { return ElementsOf(box.shape) == 0; });
  UCP_RETURN_IF_ERROR(CheckApart(tensor, boxes));
  std::int64_t held = 0;
  for (const SavedBox& box : boxes) held += ElementsOf(box.shape);
  if (held == elements) return shape;
  return Fail(ErrorCode::kBadData,
              "the files hold {} of the {} elements of `{}`, which reaches to [{}]; copy the files of all ranks", held,
              elements, tensor, fmt::join(shape, ", "));
}

void AddBoxes(const std::string& tensor, const std::vector<std::int64_t>& shape, const std::vector<SavedBox>& boxes,
              Inventory& inventory) {
  TensorBoxes& of_tensor = std::get<BoxesOfTensors>(inventory.cuts)[tensor];
  of_tensor.shape = shape;
  const bool is_empty = ElementsOf(shape) == 0;
  for (const SavedBox& box : boxes) {
    Shard shard;
    shard.tensor = tensor;
    shard.kind = TensorKind::kFrozen;
    shard.shape = is_empty ? shape : box.shape;
    if (!is_empty) {
      ProductSet held;
      for (std::size_t d = 0; d < shape.size(); ++d) held.dims.emplace_back().Append(box.begin[d], box.shape[d]);
      shard.coordinate.at[kBoxAxis] = std::ssize(of_tensor.boxes);
      of_tensor.boxes.push_back(std::move(held));
    }
    const std::int64_t elements = ElementsOf(shard.shape);
    const BufferId buffer = inventory.storage.Add(Buffer{box.dtype, elements, {{box.record, 0, elements}}});
    shard.states = inventory.storage.Add(BufferSet{{kWeightState, buffer}});
    inventory.storage.shards.push_back(std::move(shard));
  }
}

}  // namespace ucp::safetensors
