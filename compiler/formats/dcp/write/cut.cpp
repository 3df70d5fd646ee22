// Each box goes to the file of one of the ranks that hold it: of those, the one that has the fewest bytes so far.
#include "compiler/formats/dcp/write/cut.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <utility>
#include <vector>

#include "compiler/layout/from_boxes.h"
#include "compiler/support/checked_math.h"
#include "compiler/support/error.h"
#include "compiler/support/interruption.h"

namespace ucp::dcp {
namespace {

constexpr std::uint64_t kFileBytes = std::uint64_t{5} << 30;      // Of the files, where nobody says how many.
constexpr std::uint64_t kMostItemBytes = std::uint64_t{1} << 30;  // PyTorch before 2.13 reads an item as a whole.

std::uint64_t BytesOfElement(const LogicalTensor& tensor) {
  std::uint64_t bytes = 0;
  for (const LogicalTensor::State& state : tensor.states) bytes += static_cast<std::uint64_t>(ItemBytes(state.dtype));
  return bytes;
}

std::uint64_t ElementsOf(const std::vector<std::int64_t>& shape) {
  std::uint64_t elements = 1;
  for (std::int64_t length : shape) elements *= static_cast<std::uint64_t>(length);
  return elements;
}

std::uint64_t BytesOf(const LogicalTensor& tensor) { return ElementsOf(tensor.shape) * BytesOfElement(tensor); }

// A box, and the ranks that hold it.
struct HeldBox {
  Box box;
  std::vector<std::int64_t> ranks;
};

// The positions of a selection from place `begin` to `end` in its own order, which grows.
Positions SliceOf(const Selection& selection, std::int64_t begin, std::int64_t end) {
  Positions positions;
  for (const Run& run : selection.runs()) {
    const std::int64_t length = std::min(run.length, end) - std::max<std::int64_t>(begin, 0);
    if (begin < run.length && length > 0) {
      const std::int64_t first = run.logical_begin + std::max<std::int64_t>(begin, 0);
      positions.push_back({first, first + length});
    }
    begin -= run.length;
    end -= run.length;
  }
  return positions;
}

bool IsBoxOf(const std::vector<std::int64_t>& shape, const Box& box) {
  return std::ranges::equal(box, shape, [](const Positions& positions, std::int64_t length) {
    return std::ranges::all_of(positions, [&](const PositionRange& range) { return range.end <= length; });
  });
}

// Boxes that do not overlap cover a tensor if they have as many elements.
bool AreOf(const std::vector<std::int64_t>& shape, const std::vector<std::pair<Box, std::int64_t>>& held) {
  std::uint64_t elements = 0;
  for (const auto& [box, machine] : held) {
    if (!IsBoxOf(shape, box)) return false;
    elements += static_cast<std::uint64_t>(ucp::ElementsOf(box));
  }
  return elements == ElementsOf(shape);
}

// Every combination of one range from each dimension.
void AddBoxes(const std::vector<Positions>& dims, std::vector<Box>& boxes) {
  std::vector<Box> found = {{}};
  for (const Positions& positions : dims) {
    std::vector<Box> longer;
    for (const Box& box : found) {
      for (const PositionRange& range : positions) {
        longer.push_back(box);
        longer.back().push_back({range});
      }
    }
    found = std::move(longer);
  }
  for (Box& box : found) boxes.push_back(std::move(box));
}

class Cutter {
 public:
  Cutter(const WriteOptions& options, const PartOfJob* part, const MachineFiles* machines, Layout& layout)
      : options_(options), part_(part), machines_(machines), layout_(layout) {}

  llvm::Error Run(std::span<const LogicalTensor> tensors) {
    const std::int64_t tp = layout_.mesh.Size("tp");
    const bool is_of_ranks = options_.fsdp.has_value() || tp > 1;
    if (machines_ != nullptr && (is_of_ranks || options_.files)) {
      return MakeError(ErrorCode::kUsage,
                       "`fsdp`, `tp` and `files` say which files a dcp folder has, and in a save in parts each machine "
                       "has one of its own; leave them out");
    }
    filled_.resize(static_cast<std::size_t>(FilesOf(is_of_ranks, tp)));
    for (const LogicalTensor& tensor : tensors) UCP_RETURN_IF_ERROR(CheckSize(tensor));
    if (!is_of_ranks && part_ == nullptr && machines_ == nullptr) ChooseSizes(tensors);
    std::map<std::string, TensorLayout*> by_name;
    for (TensorLayout& tensor : layout_.tensors) by_name.emplace(tensor.name, &tensor);
    for (const LogicalTensor* tensor : LargestFirst(tensors)) {
      UCP_RETURN_IF_ERROR(CheckInterrupted());
      TensorLayout& layout = *by_name.at(tensor->name);
      std::vector<HeldBox> boxes;
      if (is_of_ranks && tensor->kind != TensorKind::kBuffer) {
        UCP_ASSIGN_OR_RETURN(boxes, BoxesOfRanks(layout));
      } else {
        boxes = BoxesOfRows(*tensor);
      }
      Take(*tensor, std::move(boxes), layout);
    }
    layout_.mesh.axes = {{kBoxAxis, most_boxes_}};
    return llvm::Error::success();
  }

 private:
  std::int64_t FilesOf(bool is_of_ranks, std::int64_t tp) const {
    if (machines_ != nullptr) return machines_->machines;
    return is_of_ranks ? options_.fsdp.value_or(1) * tp : 1;
  }

  static llvm::Error CheckSize(const LogicalTensor& tensor) {
    for (const LogicalTensor::State& state : tensor.states) {
      std::optional<std::int64_t> bytes = ItemBytes(state.dtype);
      for (std::int64_t length : tensor.shape) bytes = bytes ? CheckedMultiply(*bytes, length) : bytes;
      if (!bytes) {
        return Fail(ErrorCode::kUsage, "`{}` of `{}` has more than 2^63 bytes", state.name, tensor.name);
      }
    }
    return llvm::Error::success();
  }

  // So that files become about equal.
  static std::vector<const LogicalTensor*> LargestFirst(std::span<const LogicalTensor> tensors) {
    std::vector<const LogicalTensor*> sorted;
    for (const LogicalTensor& tensor : tensors) sorted.push_back(&tensor);
    std::ranges::stable_sort(sorted, std::greater(), [](const LogicalTensor* tensor) { return BytesOf(*tensor); });
    return sorted;
  }

  void ChooseSizes(std::span<const LogicalTensor> tensors) {
    std::uint64_t bytes = 0;
    for (const LogicalTensor& tensor : tensors) bytes += BytesOf(tensor);
    const std::uint64_t files = options_.files ? static_cast<std::uint64_t>(*options_.files)
                                               : std::max<std::uint64_t>(1, (bytes + kFileBytes - 1) / kFileBytes);
    filled_.resize(files);
    most_bytes_ = std::max<std::uint64_t>(1, (bytes + files - 1) / files);
  }

  // The boxes of each rank of tp and FSDP; equal ones are one.
  llvm::Expected<std::vector<HeldBox>> BoxesOfRanks(const TensorLayout& tensor) const {
    const std::int64_t tp = layout_.mesh.Size("tp");
    const std::int64_t shards = options_.fsdp.value_or(1);
    std::vector<HeldBox> boxes;
    std::map<Box, std::size_t> known;
    for (std::int64_t t = 0; t < tp; ++t) {
      Coordinate coordinate;
      if (tp > 1) coordinate.at["tp"] = t;
      UCP_ASSIGN_OR_RETURN(const ProductSet held, HeldAt(tensor, layout_.mesh, coordinate));
      if (!held.IsIncreasing()) {
        return Fail(ErrorCode::kUnsupported,
                    "tensor `{}`: the ranks of tp hold its positions in another order than the tensor has them, and "
                    "the boxes of a dcp folder cannot say that",
                    tensor.name);
      }
      for (std::int64_t f = 0; f < shards; ++f) {
        std::vector<Box> own;
        AddBoxes(DimsOf(held, f, shards), own);
        for (Box& box : own) {
          const auto [entry, is_new] = known.try_emplace(box, boxes.size());
          if (is_new) boxes.push_back({std::move(box), {}});
          boxes[entry->second].ranks.push_back(f * tp + t);
        }
      }
    }
    return boxes;
  }

  // FSDP deals the rows of what a rank of tp holds.
  static std::vector<Positions> DimsOf(const ProductSet& held, std::int64_t shard, std::int64_t shards) {
    std::vector<Positions> dims;
    for (std::size_t d = 0; d < held.dims.size(); ++d) {
      const std::int64_t length = held.dims[d].real_length();
      const std::int64_t share = d == 0 ? (length + shards - 1) / shards : length;
      const std::int64_t begin = d == 0 ? std::min(length, shard * share) : 0;
      dims.push_back(SliceOf(held.dims[d], begin, std::min(length, begin + share)));
    }
    return dims;
  }

  // Those of its machines; without any, boxes of whole rows, each for any file.
  std::vector<HeldBox> BoxesOfRows(const LogicalTensor& tensor) const {
    std::vector<std::int64_t> all(filled_.size());
    std::iota(all.begin(), all.end(), 0);
    std::vector<HeldBox> boxes;
    if (const auto* held = BoxesOfMachines(tensor)) {
      for (const auto& [box, machine] : *held) {
        for (Box& cut : CutByRows(tensor, box)) boxes.push_back({std::move(cut), {machine}});
      }
      return boxes;
    }
    for (const Box& box : BoxesOfJob(tensor)) {
      for (Box& cut : CutByRows(tensor, box)) boxes.push_back({std::move(cut), all});
    }
    return boxes;
  }

  // Null also where a layout of the target gives the name to a tensor of another shape.
  const std::vector<std::pair<Box, std::int64_t>>* BoxesOfMachines(const LogicalTensor& tensor) const {
    if (machines_ == nullptr) return nullptr;
    const auto found = machines_->boxes.find(tensor.name);
    return found == machines_->boxes.end() || !AreOf(tensor.shape, found->second) ? nullptr : &found->second;
  }

  std::vector<Box> EqualBoxes(const LogicalTensor& tensor) const {
    Box dims = WholeBox(tensor.shape);
    const auto cut = options_.equal_parts.find(tensor.name);
    const std::size_t cut_dims = cut == options_.equal_parts.end() ? 0 : cut->second.size();
    for (std::size_t d = 0; d < std::min(cut_dims, dims.size()); ++d) {
      const std::int64_t length = tensor.shape[d] / cut->second[d];
      dims[d].clear();
      for (std::int64_t begin = 0; begin < tensor.shape[d]; begin += length) dims[d].push_back({begin, begin + length});
    }
    std::vector<Box> boxes;
    AddBoxes(dims, boxes);
    return boxes;
  }

  // Of a part, those that have no gaps in the job's tensor.
  std::vector<Box> BoxesOfJob(const LogicalTensor& tensor) const {
    const Box whole = WholeBox(tensor.shape);
    if (ElementsOf(tensor.shape) == 0) return {whole};
    if (part_ == nullptr) return EqualBoxes(tensor);
    const auto held = part_->tensors.find(tensor.name);
    if (held == part_->tensors.end()) return {whole};
    std::vector<Positions> dims;
    for (const Positions& of_job : held->second.positions) {
      Positions& ranges = dims.emplace_back();
      std::int64_t begin = 0;
      for (const PositionRange& range : of_job) {
        ranges.push_back({begin, begin + range.end - range.begin});
        begin = ranges.back().end;
      }
    }
    std::vector<Box> boxes;
    AddBoxes(dims, boxes);
    return boxes;
  }

  std::vector<Box> CutByRows(const LogicalTensor& tensor, const Box& box) const {
    const auto elements = static_cast<std::uint64_t>(ucp::ElementsOf(box));
    std::uint64_t largest = 1;
    for (const LogicalTensor::State& state : tensor.states) {
      largest = std::max(largest, static_cast<std::uint64_t>(ItemBytes(state.dtype)));
    }
    const std::uint64_t bytes = elements * BytesOfElement(tensor);
    const std::uint64_t parts = std::max(bytes / most_bytes_ + (bytes % most_bytes_ == 0 ? 0 : 1),
                                         (elements * largest + kMostItemBytes - 1) / kMostItemBytes);
    if (elements == 0 || box.empty() || parts <= 1) return {box};
    const auto first =
        std::ranges::find_if(box, [](const Positions& p) { return p.front().end - p.front().begin > 1; });
    if (first == box.end()) return {box};
    const auto cut = static_cast<std::size_t>(first - box.begin());
    const PositionRange rows = first->front();
    const std::int64_t share = std::max<std::int64_t>(1, (rows.end - rows.begin) / static_cast<std::int64_t>(parts));
    std::vector<Box> boxes;
    for (std::int64_t begin = rows.begin; begin < rows.end; begin += share) {
      boxes.push_back(box);
      boxes.back()[cut] = {{begin, std::min(rows.end, begin + share)}};
    }
    return boxes;
  }

  void Take(const LogicalTensor& tensor, std::vector<HeldBox> boxes, TensorLayout& layout) {
    BoxedTensor boxed(tensor.shape);
    std::vector<std::int64_t> ranks;
    if (boxes.empty()) boxes.push_back({WholeBox(tensor.shape), {0}});  // No elements.
    for (const HeldBox& held : boxes) {
      const auto least = [&](std::int64_t a, std::int64_t b) {
        return filled_[static_cast<std::size_t>(a)] < filled_[static_cast<std::size_t>(b)];
      };
      const std::int64_t rank = *std::ranges::min_element(held.ranks, least);
      filled_[static_cast<std::size_t>(rank)] +=
          static_cast<std::uint64_t>(ucp::ElementsOf(held.box)) * BytesOfElement(tensor);
      boxed.PlaceOf(held.box);
      ranks.push_back(rank);
    }
    std::vector<std::string> aliases = std::move(layout.aliases);
    layout = boxed.Layout(tensor.name, "the boxes of a dcp folder");
    layout.aliases = std::move(aliases);
    layout.box_ranks = std::move(ranks);
    layout.buffer = tensor.kind == TensorKind::kBuffer;
    most_boxes_ = std::max(most_boxes_, boxed.boxes());
  }

  const WriteOptions& options_;
  const PartOfJob* part_;
  const MachineFiles* machines_;
  Layout& layout_;
  std::vector<std::uint64_t> filled_;                                     // Bytes, by rank or file.
  std::uint64_t most_bytes_ = std::numeric_limits<std::uint64_t>::max();  // Of a tensor in one file.
  std::int64_t most_boxes_ = 1;
};

}  // namespace

llvm::Error CutIntoBoxes(const WriteOptions& options, const PartOfJob* part, const MachineFiles* machines,
                         std::span<const LogicalTensor> tensors, Layout& layout) {
  return Cutter(options, part, machines, layout).Run(tensors);
}

}  // namespace ucp::dcp
