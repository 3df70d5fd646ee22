// Functions that the rest of this library shares: from the public types to those of the runtime, and from its errors to
// exceptions.
#pragma once

#include <llvm/Support/Error.h>

#include <string>

#include "compiler/describe/request_texts.h"
#include "runtime/comm/communicator.h"
#include "runtime/load/load.h"
#include "ucp/error.h"
#include "ucp/settings.h"
#include "ucp/source.h"

namespace ucp {

// Throws the error as Error, if it is set.
void ThrowIf(llvm::Error error);

template <typename T>
T Take(llvm::Expected<T> value) {
  if (!value) ThrowIf(value.takeError());
  return std::move(*value);
}

ErrorCode CodeOf(ErrorKind kind);

SourceTexts TextsOf(const LoadSource& source);

// All ranks call it, and all have the outcome.
llvm::Expected<SourceRequest> RequestOf(const LoadSource& source, Communicator& ranks);

// Fails (kUsage) for settings that nobody can load with. All ranks call it, and all have the outcome.
llvm::Expected<LoadOptions> LoadOptionsOf(const LoadSettings& settings, Communicator& ranks);

// Returns the number of threads to use: one for each processor for 0. Fails with kUsage for more than there may be.
llvm::Expected<unsigned> ThreadsOf(unsigned threads);

LoadTotals TotalsOf(const LoadReport& report);

}  // namespace ucp
