// A checkpoint whose files are dealt to the machines of a job: each has one file, with the boxes that its ranks hold,
// and keeps it in a folder of its own. The folders together are an ordinary checkpoint.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "compiler/layout/file_readers.h"
#include "compiler/layout/from_boxes.h"
#include "compiler/layout/target.h"

namespace ucp::dcp {

struct MachineFiles {
  std::int64_t machines = 1;
  std::map<std::string, std::vector<std::pair<Box, std::int64_t>>> boxes;  // By tensor: each with its machine.
  std::string save = {};  // In the names of the data files, so that those of two saves differ. Empty: in none.
};

// Returns the machines, as ranks of a job, that open each file: a data file is its machine's, and others are for all.
FileReaders ReadersOf(const MachineFiles& machines, const TargetFiles& target);

}  // namespace ucp::dcp
