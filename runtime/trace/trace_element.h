// One element of a checkpoint: every copy of it and whether they agree, and what a plan makes of it. Reads the bytes of
// this element and no others.
#pragma once

#include <llvm/Support/Error.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "compiler/files/readable_file_system.h"
#include "compiler/plan/plan.h"
#include "runtime/trace/element_place.h"

namespace ucp {

enum class Agreement {
  kIsTaken,   // The copy that the others are held against.
  kAgrees,    // The same bits; of a weight, the rounding of its master.
  kDiffers,   // It is not.
  kNotAsked,  // It is not used, or of dtypes that are not compared.
};

struct ElementCopy {
  ElementPlace place;
  ReadRole role = ReadRole::kCopy;
  std::int64_t term = 0;      // PlanRead::term
  bool is_overruled = false;  // PlanRead::is_overruled
  std::string reason;         // kUnused only.
  std::vector<std::byte> bytes;
  Agreement agreement = Agreement::kNotAsked;
};

struct TracedState {
  std::string state;
  std::vector<ElementCopy> copies;  // In the order of Plan::reads.
};

struct WrittenElement {
  std::string state;
  std::string from;  // The source's state that feeds it.
  DType from_dtype = DType::kFloat32;
  ElementPlace place;
  std::vector<std::byte> bytes;  // The bytes that the plan writes there.
};

struct ElementTrace {
  std::vector<TracedState> states;      // By name.
  std::vector<WrittenElement> written;  // In the order of Plan::writes.
};

// Traces the element of tensor `tensor` at `index`, which must be in it. The plan must be verified; `root` is the
// folder of its source.
llvm::Expected<ElementTrace> TraceElement(ReadableFileSystem& files, const std::string& root, const Plan& plan,
                                          TensorId tensor, const Index& index);

}  // namespace ucp
