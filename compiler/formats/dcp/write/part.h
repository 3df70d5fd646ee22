// A folder that is a part of a checkpoint: it holds what one machine of a job holds of each tensor. The folders of all
// machines together are a checkpoint in which every rank saved for itself (`__<number>.metadata`).
//
// Such a part is planned and written as whole tensors, which have the held positions alone; the metadata say where they
// stand in the tensors of the job.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "compiler/layout/from_boxes.h"

namespace ucp::dcp {

// The held part of a tensor: the product of the positions of its dimensions.
struct HeldPart {
  std::vector<std::int64_t> shape;  // Of the job's tensor.
  Box positions;
  bool operator==(const HeldPart&) const = default;
};

struct PartOfJob {
  std::int64_t number = 0;                  // Of the part, which its files are named by.
  std::map<std::string, HeldPart> tensors;  // By name. The others are held as a whole.
};

// Where `position` of the tensor that has the held positions alone stands in the job's.
inline std::int64_t InJob(const Positions& positions, std::int64_t position) {
  for (const PositionRange& range : positions) {
    const std::int64_t length = range.end - range.begin;
    if (position < length) return range.begin + position;
    position -= length;
  }
  return 0;  // Of a dimension of which nothing is held.
}

}  // namespace ucp::dcp
