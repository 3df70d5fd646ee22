#include "runtime/engine/source_waves.h"

#include "compiler/support/check.h"

namespace ucp {

std::uint64_t WaveOf(const SourceWaves& waves, const Plan& plan, const StepEnumerator& steps,
                     const TargetRange& range) {
  std::optional<std::uint64_t> wave;
  auto look = [&](const Step& step) {
    if (wave) return;
    const Record& record = plan.source.record(step.source);
    wave = waves.wave_of(plan.source.files[record.file.index()], record.begin);
  };
  TargetRange first = range;
  first.end = first.begin + 1;
  steps.ForEachJoinedStep(first, look);
  if (!wave) steps.ForEachJoinedStep(range, look);  // It begins with padding.
  UCP_CHECK(!wave || *wave < waves.count, "wave {} of {}", *wave, waves.count);
  return wave.value_or(0);
}

}  // namespace ucp
