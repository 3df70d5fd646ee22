#include "runtime/difference/element_reader.h"

#include <cstring>

#include "compiler/support/check.h"
#include "compiler/support/error.h"
#include "runtime/executor/arithmetic.h"
#include "runtime/executor/finish_sum.h"
#include "runtime/executor/step_mover.h"

namespace ucp {

ElementReader::ElementReader(const Plan& plan, const std::string& root, FileSystem& files, const BufferSizes& sizes,
                             unsigned threads, bool verify_checksums)
    : plan_(plan),
      buffers_(sizes, threads),
      steps_(plan),
      source_(plan, root, files, verify_checksums, sizes.ledger_pieces) {}

llvm::Expected<std::span<const std::byte>> ElementReader::Read(unsigned thread, const TargetRange& range) {
  UCP_CHECK(range.dtype == range.source_dtype, "a cast from {} to {}", Name(range.source_dtype), Name(range.dtype));
  SourceReader reader(source_);
  StepMover mover(reader, buffers_.scratch()[thread]);
  const auto bytes = static_cast<std::size_t>((range.end - range.begin) * ItemBytes(range.dtype));
  const std::span<std::byte> sum = buffers_.chunk(thread).first(bytes);
  const Arithmetic& arithmetic = plan_.tensor(plan_.writes[range.write].tensor).arithmetic;
  const bool adds = arithmetic.terms > 1;
  const std::span<std::byte> term = adds ? buffers_.term(thread).first(bytes) : sum;
  if (adds) std::memset(sum.data(), 0, bytes);

  std::int64_t number = 0;  // Of the term; the steps of one come before those of the next.
  llvm::Error error = llvm::Error::success();
  steps_.ForEachStep(range, [&](const Step& step) {
    if (error || step.role != ReadRole::kCopy) return;
    if (step.term != number) Add(range.dtype, sum, term);
    number = step.term;
    error = mover.Copy(step, term, range.record_element);
  });
  if (error) return error;
  reader.Flush();
  if (adds) Add(range.dtype, sum, term);
  FinishSum(arithmetic, range.dtype, sum);
  return sum;
}

llvm::Error ElementReader::End(const ParallelOptions& options) {
  UCP_RETURN_IF_ERROR(source_.CheckChecksums(options, buffers_.scratch()));
  return source_.CheckUnchanged(options);
}

}  // namespace ucp
