// A source of which a part is there at a time: the memory of a job that stages one part of its state after another.
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <functional>
#include <optional>

#include "compiler/layout/storage.h"
#include "compiler/plan/steps.h"

namespace ucp {

struct SourceWaves {
  std::uint64_t count = 1;
  // In which of them a byte of a file is there. Nothing: in all.
  std::function<std::optional<std::uint64_t>(const StoredFile& file, std::uint64_t offset)> wave_of;
  // Called on every rank when all have made what the waves before are for. Returns when this one is there.
  std::function<llvm::Error(std::uint64_t wave)> next;
};

// In which of them the source of a range is there, or of a part of one: all of it in one.
std::uint64_t WaveOf(const SourceWaves& waves, const Plan& plan, const StepEnumerator& steps, const TargetRange& range);

}  // namespace ucp
