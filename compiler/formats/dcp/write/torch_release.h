// The release of PyTorch that a folder is for.
#pragma once

namespace ucp::dcp {

// The oldest release that reads the folder: up to 2.3, or since 2.4. Newer ones read both.
enum class TorchRelease { kUpTo23, kSince24 };

}  // namespace ucp::dcp
