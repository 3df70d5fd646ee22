// Describes a flattened state dict: of a folder, or of a running job.
#pragma once

#include <llvm/Support/Error.h>

#include <span>
#include <string>
#include <vector>

#include "compiler/formats/dcp/entries/stored_items.h"
#include "compiler/formats/dcp/write/machine_files.h"
#include "compiler/formats/dcp/write/part.h"
#include "compiler/formats/format.h"

namespace ucp::dcp {

struct StateDict {
  std::string name;                          // In messages.
  std::string origin;                        // The file that messages give as the origin of values.
  std::span<const Entry> entries;            // In the order of the nested dict, where `has_paths`.
  bool has_paths = false;                    // Else each path is the key alone.
  bool is_folder = true;                     // Otherwise a job's own state.
  const PartOfJob* part = nullptr;           // By key: of a job's state, if one machine alone saves it.
  const MachineFiles* machines = nullptr;    // By key: of a job's state, if each machine is to have a file of its own.
  bool has_two_folders = false;              // Accelerate's.
  std::string other_file;                    // Lightning's, if there is one,
  std::vector<pytorch::Entry> more_entries;  // and its entries, which count where both have a key.
};

// Fills the inventory, but for its root, and the training state, but for its tag. `items` keeps values in the training
// state of `checkpoint`, and both must outlive the call. Fails where FindRoles() does, and (kUnsupported) where no
// tensor is a model's.
[[nodiscard]] llvm::Error DescribeEntries(const StateDict& state, StoredItems& items, Checkpoint& checkpoint);

}  // namespace ucp::dcp
