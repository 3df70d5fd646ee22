// Converts a checkpoint into another folder, and checks a checkpoint: `ucprun convert` and `ucprun verify` as
// functions. They print nothing, and end when they are asked to.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "ucp/source.h"

namespace ucp {
inline namespace [[gnu::visibility("default")]] v0 {

// The progress of a conversion, or of a stretch of reading. WorkSettings::progress gets it from any thread, one call at
// a time, a few times a second and once at the end; several stretches may follow one another.
struct WorkProgress {
  std::uint64_t bytes_done = 0;
  std::uint64_t bytes_total = 0;
};

// The resources that the work may use, and the ways to follow and to stop it.
struct WorkSettings {
  unsigned threads = 0;  // From 1 to 256; 0: one for each processor that this process may use.
  std::uint64_t memory_bytes = std::uint64_t{1} << 30;     // The most to use.
  std::function<void(const WorkProgress&)> progress = {};  // An exception that it throws ends the process.
  const std::atomic<bool>* cancelled = nullptr;  // Raise it, from any thread, to end the work with kCancelled.
};

struct ConvertSettings : WorkSettings {
  std::string tag = {};                       // --tag: the target's own name; empty: the source's.
  std::vector<std::string> keep_opaque = {};  // --keep-opaque: "module.Class"
  std::string ds_config = {};                 // --ds-config: a file; empty: none.
  bool verify = true;                         // Check the archives' checksums, and compare copies on other ranks.
  bool force = false;                         // Replace an existing destination, in one step.
  bool resume = false;                        // Go on where an interrupted run of the same call stopped.
};

struct ConvertTotals {
  std::uint64_t bytes_read = 0;
  std::uint64_t bytes_written = 0;
  double seconds = 0;
  bool was_complete = false;         // With `resume`: nothing was left to do.
  std::vector<std::string> remarks;  // Sentences about what was done.
};

// Converts to the strategy `to`, such as "universal" or "deepspeed:tp=2,dp=4,zero=1". The folder `out` appears
// complete, or not at all. Throws Error; after it, `out` is as it was before.
ConvertTotals Convert(const LoadSource& source, const std::string& out, const std::string& to,
                      const ConvertSettings& settings = {});

struct VerifySettings : WorkSettings {
  std::string same = {};     // --same: another checkpoint that must hold the same, however it is cut; empty: none.
  bool by_elements = false;  // --bytes: compare the elements of both, and not their digests.
  bool checksums = true;     // Read the archives' checksums.
};

struct VerifyFindings {
  std::vector<std::string> differences;  // A sentence for each thing that is not as it should be; empty: all is well.
  std::vector<std::string> notes;        // Notes on the work, and warnings.
};

// Checks that the files are those that were written, can be read, and fit together, and returns the differences. Throws
// Error if the checkpoint cannot be read at all.
VerifyFindings Verify(const LoadSource& source, const VerifySettings& settings = {});

}  // namespace v0
}  // namespace ucp
