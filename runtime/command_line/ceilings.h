// The rates that `ucprun bench` measured in a folder, and how near to them a run came.
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <optional>
#include <string>

#include "compiler/files/readable_file_system.h"

namespace ucp {

// Bytes per second.
struct Ceilings {
  std::string folder;  // Where it was measured.
  double write = 0;    // Until it is on the device.
  double read_from_cache = 0;
  double read_from_storage = 0;
};

// Reads the output of `ucprun bench DIR --json`. Fails with kUsage for anything else, and with kIo.
llvm::Expected<Ceilings> ReadCeilings(ReadableFileSystem& files, const std::string& path);

struct MovedBytes {
  std::uint64_t read = 0;
  std::uint64_t read_from_storage = 0;  // Of these; the others were in the page cache.
  std::uint64_t written = 0;
};

// Returns how long the storage alone would take, one thing after the other.
double SecondsAt(const Ceilings& ceilings, const MovedBytes& moved);

// Returns the bytes that this process has made the system fetch from storage until now; 0 where the system does not
// say.
std::uint64_t BytesFromStorage();

}  // namespace ucp
