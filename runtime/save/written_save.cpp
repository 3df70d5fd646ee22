#include "runtime/save/written_save.h"

#include <unistd.h>

#include <cstdint>
#include <utility>

#include "compiler/support/error.h"
#include "compiler/support/interruption.h"
#include "compiler/support/out_of_memory.h"

namespace ucp {

WrittenSave::~WrittenSave() {
  if (!thread_.joinable()) return;
  Cancel();
  llvm::consumeError(Take().takeError());
}

void WrittenSave::Start(SegmentFiles& files, Job job, int done) {
  cancelled_ = false;
  thread_ = std::thread([this, &files, job = std::move(job), done]() mutable {
    HeedInterrupts(&cancelled_);
    job.execution.cancelled = &cancelled_;
    std::string report;
    llvm::Error error = WithinMemory([&]() -> llvm::Error {
      UCP_ASSIGN_OR_RETURN(const SaveReport saved,
                           SaveTogether(files, job.state, job.request, job.destination, job.execution));
      report = ReportText(saved, job.destination);
      return llvm::Error::success();
    });
    if (error) {
      outcome_.emplace(std::move(error));
    } else {
      outcome_.emplace(std::move(report));
    }
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = ::write(done, &one, sizeof one);  // An eventfd takes it always.
  });
}

llvm::Expected<std::string> WrittenSave::Take() {
  thread_.join();
  llvm::Expected<std::string> outcome = std::move(*outcome_);
  outcome_.reset();
  return outcome;
}

}  // namespace ucp
