// The file beside a converted checkpoint that says what it is and by which it is checked: each file with its digest,
// each tensor and state with one that no layout changes, and what all was made from (docs/digests.md). It holds neither
// times nor paths of a machine, so that the same conversion gives the same manifest wherever it runs.
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/files/readable_file_system.h"
#include "compiler/plan/plan.h"
#include "runtime/engine/target_parts.h"
#include "runtime/executor/execute.h"

namespace ucp {

inline constexpr const char* kManifestName = "ucp_manifest.json";  // In the root of a checkpoint.

struct ManifestFile {
  std::string path;  // Relative to the root.
  std::uint64_t bytes = 0;
  std::string digest;           // FileDigest()
  std::vector<int> parts = {};  // That have it, from 1 on, ascending; empty: all.
  bool operator==(const ManifestFile&) const = default;
};

// The part of a checkpoint that stands beside it, where each node keeps its own. The manifests of all parts say the
// same but for `number`, and have the same size.
struct ManifestPart {
  int number = 0;  // From 1 on; 0: the checkpoint is in one piece.
  int count = 0;
  std::string run;  // Parts belong together if this is the same.
  bool operator==(const ManifestPart&) const = default;
};

struct Manifest {
  DigestVersion digests = kDigestVersion;
  std::string tool;    // ToolName()
  std::string format;  // Of the checkpoint: "universal"
  std::string plan;    // ContentHash of the encoded plan.
  std::string source_format;
  std::string source;  // SourceIdentity()
  ManifestPart part;
  std::vector<LeftOut> left_out;    // Objects of the source that are in none of the files.
  std::vector<ManifestFile> files;  // Sorted by path; all but the manifest itself.
  std::vector<StateDigest> states;  // Sorted by tensor and state.
  bool operator==(const Manifest&) const = default;
};

std::string ToolName();  // "ucp 0.1.0"

// Returns the mark that tells this plan's source from another one: ContentHash of its files' paths, sizes and header
// hashes.
std::string SourceIdentity(const Plan& plan);

// Returns the manifest of the files that a plan wrote. `plan_hash` is ContentHash of EncodePlan(). `parts`: those of
// the target, if it is in several; the manifest is then that of the first. Takes the tensors' digests out of the
// report.
Manifest MakeManifest(const Plan& plan, const std::string& plan_hash, ExecutionReport& report,
                      const TargetParts* parts = nullptr);

// Returns a mark that the parts of one run have in common, and no other run's: it follows from the plan and their
// number.
std::string RunOfParts(const std::string& plan_hash, int parts);

// Returns one line for each file and for each state.
std::string ComposeManifest(const Manifest& manifest);

// Fails (kBadData) for a file that is not a manifest, for a version that this program does not know, and for files
// outside of the checkpoint.
llvm::Expected<Manifest> ParseManifest(std::string_view json);

// Returns the manifest in this folder; nothing if there is none.
llvm::Expected<std::optional<Manifest>> ReadManifest(ReadableFileSystem& files, const std::string& root);

}  // namespace ucp
