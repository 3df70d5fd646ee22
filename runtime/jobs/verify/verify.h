// Checks whether a checkpoint is as it was written, and whether two are the same, whichever way each is cut.
#pragma once

#include <llvm/Support/Error.h>
#include <llvm/Support/JSON.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "compiler/describe/request_texts.h"
#include "runtime/jobs/job_hooks.h"
#include "runtime/manifest/manifest.h"
#include "runtime/peer_files/node_local.h"
#include "runtime/same_states/same_states.h"

namespace ucp {

struct VerifyRequest {
  SourceTexts source;        // A spec is for both checkpoints.
  std::string same;          // Another checkpoint that must hold the same; empty for none.
  bool by_elements = false;  // With it: the elements are compared, and not their digests.
  bool synth = false;        // Every element must be what `ucprun synth` writes.
  NodeLocal node_local;
};

struct VerifyReport {
  std::vector<CheckpointIdentity> read;  // Each checkpoint whose tensors were.
  std::vector<std::string> lines;        // A report of the work.
  std::vector<std::string> differences;  // A sentence for each fault; empty if there is none.
  DigestVersion version = kDigestVersion;
  std::vector<StateDigest> digests;  // Of every tensor and state.
  std::optional<SameStates> same;    // Of VerifyRequest::same.
  std::uint64_t offset_tensors = 0;  // With it: whose numbers are compared after an offset.
};

// The files are held against the manifest, if there is one, and all of the data is read: checksums, copies on other
// ranks, and the digest of each state. All ranks of `execution` call it together; the report is rank 0's. Fails where
// the checkpoint cannot be read; a difference is not a failure.
llvm::Expected<VerifyReport> Verify(const VerifyRequest& request, const ExecutionOptions& execution,
                                    const JobHooks& hooks = {});

void WriteVerifyReport(const VerifyReport& report, llvm::json::OStream& json);

}  // namespace ucp
