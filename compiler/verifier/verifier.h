// Proves a plan right before anything is read, on box algebra alone. It shares with the planner only the product sets,
// and repeats none of its reasoning:
//
//   V1  tables: every id, path, size and range is sane; no path leaves its folder; no record leaves its file; records
//       that hold different elements do not overlap; arithmetic is in floating point, and scales no moments; every file
//       is opened by ranks of the target's job
//   V2  every byte of every target file is written exactly once: by one blob or as one element of one written shard
//   V3  every geometry holds exactly the positions that its two sets have in common, and pairs equal positions; none is
//       missing
//   V4  the kCopy reads of each term of a tensor hold every element of it exactly once, none of it padding; every
//       element is in a written shard, and the pieces of a written shard share out its places
//   V5  the steps of every target range lie within its flat range and their source's, are disjoint, and are as many
//       elements as the two have in common; for each term they fill the range but for padding that is in no piece
//   V6  every source shard is copied, compared, checked or unused for a stated reason
//   V7  all that feeds a state of a tensor, or is compared with it, has one dtype, and weights are made of masters
//       everywhere or nowhere; only floating-point numbers are cast
//   V8  every `.pt` file (ready_made_archive.h says which) is a zip archive, whose headers, read by themselves, say of
//       each record where it is and how long: each is one record of the tables, with exactly its checksum fields, or
//       ready-made with its true checksum; records of the target do not overlap
#pragma once

#include <llvm/Support/Error.h>

#include "compiler/plan/plan.h"

namespace ucp {

// The message names the tensor, the file and the element. Time is linear in the enumerated pairs; memory in the tables.
// The same with any number of threads.
[[nodiscard]] llvm::Error VerifyPlan(const Plan& plan, unsigned threads = 1);

}  // namespace ucp
