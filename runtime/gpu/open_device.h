// Devices by the names that users give them. CUDA is in a plugin, opened at the first call, so that one build serves
// machines with and without GPUs.
#pragma once

#include <llvm/Support/Error.h>

#include <memory>
#include <string_view>

#include "runtime/gpu/device.h"

namespace ucp {

// Opens the device of "cuda:1", or of "cuda": the one at `place`, where they are counted round and round, so that the
// ranks on a machine have each its own. Returns null for "cpu". Another name, or a number that is too large, is kUsage.
// Without the plugin, a driver or a GPU: kUnsupported, and the message says what is missing.
llvm::Expected<std::unique_ptr<Device>> OpenDevice(std::string_view name, int place = 0);

// "CUDA", or "no CUDA", for --version: whether there is a plugin.
const char* CudaSupport();

}  // namespace ucp
