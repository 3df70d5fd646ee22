// In each dimension the ranges of all boxes are joined, and closed up to one another:
//
//   of the job   |..0000..|....|..1111..|      two boxes of 4 rows each of a tensor of 24
//   of the part  |00001111|                    a tensor of 8 rows
#include "runtime/job_state/part_of_job.h"

#include <llvm/ADT/StringExtras.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>

namespace ucp {
namespace {

using dcp::HeldPart;

bool IsEmpty(const HeldBox& box) { return std::ranges::find(box.sizes, 0) != box.sizes.end(); }

void AddRange(Positions& positions, const PositionRange& added) {
  positions.push_back(added);
  std::ranges::sort(positions);
  Positions joined;
  for (const PositionRange& range : positions) {
    if (!joined.empty() && range.begin <= joined.back().end) {
      joined.back().end = std::max(joined.back().end, range.end);
    } else {
      joined.push_back(range);
    }
  }
  positions = std::move(joined);
}

// Of a range that lies within one of the ranges.
std::int64_t PlaceIn(const Positions& positions, std::int64_t begin) {
  std::int64_t place = 0;
  for (const PositionRange& range : positions) {
    if (begin < range.end) return place + begin - range.begin;
    place += range.end - range.begin;
  }
  return place;
}

std::vector<std::int64_t> ShapeOf(const Box& positions) {
  std::vector<std::int64_t> shape;
  for (const Positions& of_dim : positions) {
    std::int64_t length = 0;
    for (const PositionRange& range : of_dim) length += range.end - range.begin;
    shape.push_back(length);
  }
  return shape;
}

void Close(HeldEntry& entry, const Box& positions) {
  for (HeldBox& box : entry.boxes) {
    const bool is_empty = IsEmpty(box);
    for (std::size_t d = 0; d < box.offsets.size(); ++d) {
      box.offsets[d] = is_empty ? 0 : PlaceIn(positions[d], box.offsets[d]);
      if (is_empty) box.sizes[d] = 0;
    }
  }
  entry.shape = ShapeOf(positions);
}

}  // namespace

dcp::PartOfJob TakePart(std::vector<HeldState>& ranks, std::int64_t number) {
  dcp::PartOfJob part;
  part.number = number;
  for (const HeldState& rank : ranks) {
    for (const HeldEntry& entry : rank) {
      if (!entry.is_tensor || entry.shape.empty()) continue;
      HeldPart& held =
          part.tensors.try_emplace(entry.key, HeldPart{entry.shape, Box(entry.shape.size())}).first->second;
      for (const HeldBox& box : entry.boxes) {
        if (IsEmpty(box) || box.offsets.size() != held.shape.size() || box.sizes.size() != held.shape.size()) continue;
        for (std::size_t d = 0; d < held.shape.size(); ++d) {
          AddRange(held.positions[d], {box.offsets[d], box.offsets[d] + box.sizes[d]});
        }
      }
    }
  }
  for (auto& [key, held] : part.tensors) {
    if (std::ranges::none_of(held.positions, &Positions::empty)) continue;
    held.positions = WholeBox(held.shape);  // None of its rows.
    held.positions.front().clear();
  }
  std::erase_if(part.tensors, [](const auto& entry) { return ShapeOf(entry.second.positions) == entry.second.shape; });
  for (HeldState& rank : ranks) {
    for (HeldEntry& entry : rank) {
      const auto found = part.tensors.find(entry.key);
      if (entry.is_tensor && found != part.tensors.end() && entry.shape == found->second.shape) {
        Close(entry, found->second.positions);
      }
    }
  }
  return part;
}

dcp::MachineFiles BoxesOfMachines(const JoinedState& joined, const std::vector<int>& machine_of_rank) {
  dcp::MachineFiles files{1 + *std::ranges::max_element(machine_of_rank), {}};
  for (const dcp::Entry& entry : joined.entries) {
    if (!entry.is_tensor) continue;
    auto& boxes = files.boxes[entry.key];
    for (const dcp::Chunk& chunk : entry.chunks) {
      Box box;
      for (std::size_t d = 0; d < chunk.sizes.size(); ++d) {
        box.push_back({{chunk.offsets[d], chunk.offsets[d] + chunk.sizes[d]}});
      }
      if (std::ranges::count(chunk.sizes, 0) == 0)
        boxes.emplace_back(std::move(box), machine_of_rank[chunk.place.file]);
    }
  }
  return files;
}

void NameSave(dcp::MachineFiles& files, std::string_view drawn) { files.save = llvm::toHex(drawn, /*LowerCase=*/true); }

}  // namespace ucp
