// From a checkpoint folder to a checked layout of its contents: describe it from its headers, then bind the spec to it,
// or do without one (without_spec.h).
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compiler/bind/bind.h"
#include "compiler/formats/format.h"
#include "compiler/layout/checkpoint_identity.h"
#include "compiler/layout/layout.h"
#include "compiler/open/opened_spec.h"
#include "compiler/plan/plan_inputs.h"
#include "compiler/support/phase_clock.h"

namespace ucp {

// How the user says what a source is.
struct SourceRequest {
  std::string path;
  std::string spec;                      // A file or a name of the catalogue; empty for none.
  std::string config;                    // --config FILE; empty for the one in the checkpoint, if it has one.
  Settings set;                          // --set dim=value
  std::vector<std::string> unused;       // --unused NAME=last
  std::vector<std::string> drop_states;  // --drop-state NAME
  RankPreference preference;             // --prefer-rank tp=1
  // Where a plan is made again, the spec and the configurations as they were. Texts in it are not read from a disk.
  const PlanInputs* given = nullptr;
  std::int64_t cut_over = 0;    // Over how many tensor-parallel ranks a target is to be cut; 0: it has none.
  std::string to_layout = {};   // Of the source's model: the target's; empty: it names none.
  unsigned threads = 1;         // That may read headers at the same time.
  PhaseClock* clock = nullptr;  // Told of the phases `describe` and `bind`; may be null.
  // Receives the spec once it is open, with its diagnostics, also if a later step fails; may be null.
  OpenedSpec* opened = nullptr;
  bool warns_of_unmatched = false;  // Also of patterns of the spec that match nothing, and of names read in two ways.
  bool repairs = false;             // --repair
  std::string as_layout = {};       // Of the spec's model: whose tensors are to be read; empty: the source's own.
};

// A checkpoint as its headers have it.
struct Described {
  std::string folder;          // The folder of the inventory's file paths; empty: there are no files.
  std::string requested_path;  // As the user named it.
  CheckpointIdentity identity;
  Checkpoint checkpoint;
};

// The same, with which logical tensors it holds and how they are cut.
struct BoundSource : Described {
  OpenedSpec spec;  // Null without one.
  std::optional<BoundSpec> bound;
  std::string why_no_spec;  // The catalogue's reason for a source on one rank, if it was asked and did not fit.
  Layout layout;
  // How the files hold the tensors. Padding, means and scales of a spec are for ranks; a folder of whole tensors has
  // none of it.
  Layout stored_layout;
};

// Headers only; the message for a path that no format knows lists what each looks for. Fails with kUsage if the source
// lacks the preferred rank, and with `repairs` if there is nothing to repair.
llvm::Expected<Checkpoint> DescribeSource(ReadableFileSystem& files, const std::string& path,
                                          const RankPreference& preference, unsigned threads = 1, bool repairs = false);

// The first step of the recipe (compile.h). Begins the phase `describe`.
llvm::Expected<Described> DescribeCheckpoint(ReadableFileSystem& files, const SourceRequest& request);

// The second one. With a spec, the facts of --config, or else of a `config.json` in the tag's or the checkpoint's
// folder, are added to those of the inventory. Fails with kSpec if the spec has errors (SpecFailure).
llvm::Expected<BoundSource> BindCheckpoint(ReadableFileSystem& files, const SourceRequest& request,
                                           Described described);

// Both.
llvm::Expected<BoundSource> DescribeAndBind(ReadableFileSystem& files, const SourceRequest& request);

// BoundSource::stored_layout, for callers that make a source without a folder.
llvm::Expected<Layout> StoredLayoutOf(const BoundSource& source);

// Gives the inventory's shards the names that the spec gives to layers that stages number by themselves.
void TakeNames(const BoundSpec& bound, Inventory& inventory);

// "layers=4" -> {"layers", 4}, `has "x"=true` -> {`has "x"`, true}, for --set. Fails with kUsage.
llvm::Expected<Settings> ParseSettings(const std::vector<std::string>& settings);

}  // namespace ucp
