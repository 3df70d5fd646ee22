// The boxes in which a target holds its tensors, and the rank whose file each of them is in.
#pragma once

#include <llvm/Support/Error.h>

#include <span>

#include "compiler/formats/dcp/write/machine_files.h"
#include "compiler/formats/dcp/write/options.h"
#include "compiler/formats/dcp/write/part.h"
#include "compiler/layout/layout.h"
#include "compiler/layout/target.h"

namespace ucp::dcp {

// Cuts each tensor of `layout` into boxes. With `fsdp` or `tp` they are those that the ranks of such a job hold: the
// part that the layout gives a rank of tp, cut by rows as FSDP2 does it, which deals ceil(rows / ranks) to each.
// Without them tensors are whole, but for those that are larger than a file may be: these are cut by rows. Buffers stay
// whole. TensorLayout::box_ranks says whose file each box is in. Of a `part` (null: it is all of a checkpoint)
// all boxes are in one file, and each is a box of the job's tensor: machines that hold the same have the same boxes.
// With `machines` (null: there are none) the boxes are those that machines hold, each in the file of its machine. Fails
// (kUnsupported) for tensors whose ranks of tp hold them in another order, and (kUsage) where settings say which files
// there are, and machines have theirs.
[[nodiscard]] llvm::Error CutIntoBoxes(const WriteOptions& options, const PartOfJob* part, const MachineFiles* machines,
                                       std::span<const LogicalTensor> tensors, Layout& layout);

}  // namespace ucp::dcp
